"""The form of a request that asks for a compaction, for a target whose host has none."""

import functools

from app.gateway.emulation.compaction import Compaction, request_summary
from app.gateway.request_translation.source_request import SourceRequest
from providers.dialects.openai_responses import compaction_item_id


async def with_compaction(source: SourceRequest) -> tuple[SourceRequest, Compaction]:
    """The request for a summary in place of the compaction that is asked for, and what becomes of the summary."""
    chat, terms = await source.read_chat(), source.terms
    assert terms.summaries is not None, "a request of a caller"
    encrypt = functools.partial(terms.summaries.encrypt, team_id=terms.team_id)
    compaction = Compaction(terms.dialect.name, compaction_item_id(source.inference_id), encrypt)
    return source.with_chat(request_summary(chat), None), compaction
