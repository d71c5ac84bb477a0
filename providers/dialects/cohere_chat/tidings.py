"""What Cohere tells beside what it says: why it ended, what is charged, where a text comes from, how likely it was.

Source: https://docs.cohere.com/reference/chat, read 2026-11; /shared/exchanges/cohere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.chat import Citation, Usage
from providers.dialects.cohere_chat.shapes import NAME, Counts, Logprob, Told
from providers.errors import Failed, TimedOut
from providers.told import masked
from providers.wire import UNREADABLE

# No host has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MOST_TOKENS = 2**40

_REASONS: Mapping[str, tuple[str, str | None]] = {
    "COMPLETE": ("stop", None),
    "STOP_SEQUENCE": ("stop", "stop_sequence"),
    "MAX_TOKENS": ("length", None),
    "TOOL_CALL": ("tool_calls", None),
    "ERROR_LIMIT": ("length", "model_context_window_exceeded"),
    "ERROR_TOXIC": ("content_filter", None),
}


class _Source(Struct):
    id: str | None = None
    document: dict[str, Any] | None = None


class _Cited(Struct):
    start: int | None = None
    end: int | None = None
    sources: list[_Source] | None = None
    content_index: int | None = None
    type: str = "TEXT_CONTENT"


_read_cited = msgspec.json.Decoder(_Cited).decode


def read_ending(reason: str, error: str | None = None) -> tuple[str, str | None]:
    """OpenAI's word, and the host's own if it says more. Raises Failed or TimedOut for a reason that is one."""
    if reason in ("ERROR", "USER_CANCEL"):
        raise Failed(masked(error) if error else f"The host gave its answer up midway (finish_reason {reason!r}).")
    if reason == "TIMEOUT":
        raise TimedOut(masked(error) if error else "The host did not finish its answer in time.")
    return _REASONS.get(reason, ("stop", reason))


def read_usage(told: Told | None) -> Usage | None:
    """The tokens that are paid for. `tokens` counts those too that Cohere adds and models write unseen, which cost nothing.

    How much of what is paid for came from a cache is not told: `cached_tokens` is of all that was read.
    Source: https://docs.cohere.com/docs/how-does-cohere-pricing-work, read 2026-11.
    """
    if told is None or (told.billed_units is None and told.tokens is None):
        return None
    billed, counted = told.billed_units or Counts(), told.tokens or Counts()
    output = _tokens(counted.output_tokens if billed.output_tokens is None else billed.output_tokens)
    reasoning = _tokens(counted.reasoning_tokens)
    return Usage(
        input=_tokens(counted.input_tokens if billed.input_tokens is None else billed.input_tokens),
        output=output,
        reasoning=reasoning if reasoning is None or output is None else min(reasoning, output),
    )


def _tokens(count: float | None) -> int | None:
    return int(count) if count is not None and 0 <= count <= _MOST_TOKENS else None


def read_citation(raw: Raw) -> tuple[int | None, Citation] | None:
    """With the place of the content that it is about; None for one that is about no text, or cannot be read."""
    try:
        told = _read_cited(raw)
    except UNREADABLE:
        return None
    if told.type != "TEXT_CONTENT":
        return None
    documents: Sequence[dict[str, Any]] = [source.document for source in told.sources or () if source.document]
    url = next((said for document in documents if isinstance(said := document.get("url"), str)), None)
    title = next((said for document in documents if isinstance(said := document.get("title"), str)), None)
    return told.content_index, Citation(NAME, raw, url, title, None, told.start, told.end)


def write_logprob(told: Logprob) -> Raw:
    """As OpenAI says it, whose clients want all of its fields. Of several tokens together, how likely they are one after the other."""
    entry = {"token": told.text, "logprob": sum(told.logprobs or ()), "bytes": list(told.text.encode()), "top_logprobs": list[Any]()}
    return Raw(msgspec.json.encode(entry))
