"""Anthropic's count of tokens as Google counts them: the request that would be answered, in a request of its own.

Sources: https://ai.google.dev/api/tokens and, for Vertex, .../rest/v1/projects.locations.publishers.models/countTokens, read 2026-11.
"""

from collections.abc import Callable

import httpx
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from providers.dialect import Concessions, Stamp
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.gemini.asks import write_request
from providers.errors import Garbled
from providers.foreign import Foreign
from providers.told import error_in
from providers.wire import UNREADABLE, Body

_ANTHROPIC = AnthropicMessages()
# What says how an answer is made counts for nothing; Vertex knows generationConfig here, AI Studio all of them.
_COUNTED = ("contents", "systemInstruction", "tools", "generationConfig")


class _Count(Struct):
    """What is 0 Google leaves out."""

    totalTokens: int = 0
    error: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_Count).decode


def counted(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    """The generateContent request of which tokens are to be counted, and what was dropped: as Vertex's countTokens takes it."""
    chat = replace(_ANTHROPIC.read_request(body), model=model)
    concessions = Concessions(may_drop, _ANTHROPIC.words, f"{model:.100} (Google)", lambda path: _ANTHROPIC.place(body, path))
    asked = write_request(chat, concessions)
    return Body({key: asked[key] for key in _COUNTED if key in asked}), concessions.dropped


def _write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    asked, dropped = counted(body, model, may_drop)
    return Body(generateContentRequest={"model": resource(model), **asked}), dropped


def read_count(raw: bytes, headers: httpx.Headers, stamp: Stamp) -> bytes:
    """Vertex's answers too. Raises Garbled."""
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        told = _decode(raw)
    except UNREADABLE as fault:
        raise Garbled(f"Google's answer is not a count of tokens: {fault}.") from None
    return msgspec.json.encode({"input_tokens": told.totalTokens})


def resource(model: str) -> str:
    """A model as AI Studio names it: tunedModels/NAME stay what they are."""
    return model if "/" in model else f"models/{model}"


COUNT = Foreign("gemini_count_tokens", _write, read_count)
