"""The documented fields of a generateContent response that are read; others are ignored.

Source: https://ai.google.dev/api/generate-content#GenerateContentResponse, read 2026-11.
"""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.response_decoding import decode_repaired
from providers.canonical.upstream_errors import find_error
from providers.dialects.gemini.partial_arguments import PartialArgument
from providers.dialects.gemini.usage import UsageMetadata


class Call(Struct):
    """A call of a function."""

    name: str | None = None
    id: str | None = None
    args: Raw = NULL
    partialArgs: list[PartialArgument] | None = None
    willContinue: bool = False  # whether more of the arguments follow, in `partialArgs`


class Part(Struct):
    """A part with none of these fields is of a kind that only Gemini has, and is kept as it is."""

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    functionCall: Call | None = None


class Content(Struct):
    parts: list[Raw] | None = None


class Token(Struct):
    token: str = ""
    logProbability: float = 0.0


class TopCandidates(Struct):
    candidates: list[Token] | None = None


class LogprobsResult(Struct):
    topCandidates: list[TopCandidates] | None = None
    chosenCandidates: list[Token] | None = None


class Candidate(Struct):
    content: Content | None = None
    finishReason: str | None = None
    finishMessage: str | None = None
    index: int = 0
    groundingMetadata: Raw = NULL
    citationMetadata: Raw = NULL
    logprobsResult: LogprobsResult | None = None


class PromptFeedback(Struct):
    blockReason: str | None = None


class Frame(Struct):
    """A complete response, or one event of a stream: both have the same shape."""

    candidates: list[Candidate] | None = None
    promptFeedback: PromptFeedback | None = None
    usageMetadata: UsageMetadata | None = None
    modelVersion: str = ""
    responseId: str | None = None
    createTime: str | None = None
    error: Raw = NULL


_decode = msgspec.json.Decoder(Frame).decode
_bodies_decoder = msgspec.json.Decoder(list[dict[str, Raw]])


def decode_frame(raw: bytes) -> Frame:
    """Raises the error that `raw` holds, alone or in an array, or InvalidUpstreamResponse."""
    try:
        frame = _decode(raw)
    except DECODE_ERRORS:
        if raw.lstrip()[:1] == b"[":
            raise _read_array_error(raw) from None
        frame = decode_repaired(raw, _decode, "one of generateContent")
    if frame.error != NULL:
        error = find_error(Body.read_response(raw))
        if error is not None:
            raise error
    return frame


def _read_array_error(raw: bytes) -> Exception:
    """An error may arrive in an array of one. A response in an array was not streamed as requested."""
    try:
        errors = [error for body in _bodies_decoder.decode(repair_unicode(raw)) if (error := find_error(body)) is not None]
    except DECODE_ERRORS:
        errors = []
    return errors[0] if errors else InvalidUpstreamResponse("The engine answered with an array and not with server-sent events.")
