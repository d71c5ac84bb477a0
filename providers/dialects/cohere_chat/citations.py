"""Citations of Cohere's chat, which point to places in a text of the response.

Source: https://docs.cohere.com/reference/chat, read 2026-11; recordings of cohere.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.cohere_chat.response_schema import NAME


class _Source(Struct):
    id: str | None = None
    document: dict[str, Any] | None = None


class _Citation(Struct):
    start: int | None = None
    end: int | None = None
    sources: list[_Source] | None = None
    content_index: int | None = None
    type: str = "TEXT_CONTENT"


_decode_citation = msgspec.json.Decoder(_Citation).decode


def read_citation(raw: Raw) -> tuple[int | None, Citation] | None:
    """The index of the cited content block, if reported, and the citation.

    None for a citation that is not about a text or cannot be read.
    """
    try:
        cited = _decode_citation(raw)
    except DECODE_ERRORS:
        return None
    if cited.type != "TEXT_CONTENT":
        return None
    documents: Sequence[dict[str, Any]] = [source.document for source in cited.sources or () if source.document]
    url = next((value for document in documents if isinstance(value := document.get("url"), str)), None)
    title = next((value for document in documents if isinstance(value := document.get("title"), str)), None)
    return cited.content_index, Citation(NAME, raw, url, title, None, cited.start, cited.end)
