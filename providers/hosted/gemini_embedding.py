"""Embeddings at AI Studio: batchEmbedContents, one request in it for each text.

Source: https://ai.google.dev/api/embeddings, read 2026-11; recording google_ai_studio/21. Vertex has shapes of its own for them.
"""

from collections.abc import Callable, Mapping

import httpx
import msgspec
from msgspec import Raw, Struct

from providers.dialect import Stamp
from providers.errors import Garbled
from providers.foreign import Foreign
from providers.hosted.embedding import read_wanted, write_vectors
from providers.hosted.gemini_counting import resource
from providers.told import error_in
from providers.wire import UNREADABLE, Body

_MOST_TEXTS = 100
# Google's own words, which callers may send, in either spelling.
_WORDS: Mapping[str, str] = {**dict.fromkeys(("task_type", "taskType"), "taskType"), "title": "title"}


class _Values(Struct):
    values: Raw


class _Counted(Struct):
    promptTokenCount: int | None = None


class _Told(Struct):
    embeddings: list[_Values]
    usageMetadata: _Counted | None = None


_decode = msgspec.json.Decoder(_Told).decode


def _write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    wanted = read_wanted(body, f"{model} (Google AI Studio)", may_drop, words=_WORDS, most=_MOST_TEXTS)
    wishes = {_WORDS[key]: value for key, value in wanted.words.items()}
    if wanted.dimensions is not None:
        wishes["outputDimensionality"] = wanted.dimensions
    name = resource(model)
    return Body(requests=[{"model": name, "content": {"parts": [{"text": text}]}, **wishes} for text in wanted.texts]), wanted.dropped


def _read(raw: bytes, headers: httpx.Headers, stamp: Stamp) -> bytes:
    error = error_in(Body.read_reply(raw))
    if error is not None:
        raise error
    try:
        told = _decode(raw)
    except UNREADABLE as fault:
        raise Garbled(f"Google's answer holds no embeddings: {fault}.") from None
    return write_vectors([each.values for each in told.embeddings], told.usageMetadata and told.usageMetadata.promptTokenCount, stamp)


EMBED = Foreign("gemini_embeddings", _write, _read)
