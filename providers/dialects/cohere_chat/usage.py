"""What Cohere tells beside what it says: why it ended, what is charged, where a text comes from, how likely it was.

Source: https://docs.cohere.com/reference/chat, read 2026-11; /shared/exchanges/cohere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Citation, Usage
from providers.canonical.errors import TimedOut, UpstreamFailed
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.upstream_errors import mask_credentials
from providers.dialects.cohere_chat.response_schema import NAME, Counts, Logprob, UsageReport

# No host has counted more; and what it costs, at whatever price, stays within a database's 63 bits.
_MAX_TOKENS = 2**40

_FINISH_REASONS: Mapping[str, tuple[str, str | None]] = {
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


class _Citation(Struct):
    start: int | None = None
    end: int | None = None
    sources: list[_Source] | None = None
    content_index: int | None = None
    type: str = "TEXT_CONTENT"


_decode_citation = msgspec.json.Decoder(_Citation).decode


def read_finish_reason(reason: str, error: str | None = None) -> tuple[str, str | None]:
    """OpenAI's word, and the host's own if it says more. Raises Failed or TimedOut for a reason that is one."""
    if reason in ("ERROR", "USER_CANCEL"):
        raise UpstreamFailed(mask_credentials(error) if error else f"The host gave its answer up midway (finish_reason {reason!r}).")
    if reason == "TIMEOUT":
        raise TimedOut(mask_credentials(error) if error else "The host did not finish its answer in time.")
    return _FINISH_REASONS.get(reason, ("stop", reason))


def read_usage(report: UsageReport | None) -> Usage | None:
    """The tokens that are paid for. `tokens` counts those too that Cohere adds and models write unseen, which cost nothing.

    How much of what is paid for came from a cache is not told: `cached_tokens` is of all that was read.
    Source: https://docs.cohere.com/docs/how-does-cohere-pricing-work, read 2026-11.
    """
    if report is None or (report.billed_units is None and report.tokens is None):
        return None
    billed, counted = report.billed_units or Counts(), report.tokens or Counts()
    output = _plausible(counted.output_tokens if billed.output_tokens is None else billed.output_tokens)
    reasoning = _plausible(counted.reasoning_tokens)
    return Usage(
        input=_plausible(counted.input_tokens if billed.input_tokens is None else billed.input_tokens),
        output=output,
        reasoning=reasoning if reasoning is None or output is None else min(reasoning, output),
    )


def _plausible(count: float | None) -> int | None:
    return int(count) if count is not None and 0 <= count <= _MAX_TOKENS else None


def read_citation(raw: Raw) -> tuple[int | None, Citation] | None:
    """With the place of the content that it is about; None for one that is about no text, or cannot be read."""
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


def write_logprob(logprob: Logprob) -> Raw:
    """As OpenAI says it, whose clients want all of its fields. Of several tokens together, how likely they are one after the other."""
    entry = {
        "token": logprob.text,
        "logprob": sum(logprob.logprobs or ()),
        "bytes": list(logprob.text.encode()),
        "top_logprobs": list[Any](),
    }
    return Raw(msgspec.json.encode(entry))
