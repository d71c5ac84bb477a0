"""Embeddings as Cohere is asked for them: texts, and what they are for, which OpenAI's clients do not say.

Source: https://docs.cohere.com/reference/embed, read 2026-11.
"""

from collections.abc import Callable

import httpx
import msgspec
from msgspec import Struct

from providers.dialect import Stamp
from providers.errors import Garbled
from providers.foreign import Foreign
from providers.hosted.embedding import read_wanted, write_vectors
from providers.told import error_in, read_error
from providers.wire import UNREADABLE, Body, mended

_MOST_TEXTS = 96
# What it is told that they are for, of callers who say nothing: Cohere demands it, and what is stored is embedded most.
_INPUT_TYPE = "search_document"
_OWN = ("input_type", "truncate", "max_tokens", "priority")


class _Counts(Struct):
    input_tokens: float | None = None


class _Meta(Struct):
    billed_units: _Counts | None = None


class _Vectors(Struct):
    float: list[msgspec.Raw]


class _Answer(Struct):
    embeddings: _Vectors
    meta: _Meta | None = None


_decode = msgspec.json.Decoder(_Answer).decode


def write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    wanted = read_wanted(body, "Cohere", may_drop, words=_OWN, most=_MOST_TEXTS)
    told = Body({"texts": wanted.texts, "embedding_types": ["float"], "input_type": _INPUT_TYPE, **wanted.words})
    if wanted.dimensions is not None:
        told["output_dimension"] = wanted.dimensions
    return told, wanted.dropped


def read(raw: bytes, headers: httpx.Headers, stamp: Stamp) -> bytes:
    told = _read(raw)
    counted = told.meta.billed_units if told.meta is not None else None
    tokens = None if counted is None or counted.input_tokens is None else int(counted.input_tokens)
    return write_vectors(told.embeddings.float, tokens, stamp)


def _read(raw: bytes) -> _Answer:
    try:
        return _decode(raw)
    except UNREADABLE:
        pass
    body = Body.read_reply(raw)
    error = error_in(body) or (read_error(500, {}, raw) if isinstance(body.value("message"), str) else None)
    if error is not None:
        raise error
    try:
        return _decode(mended(raw))
    except UNREADABLE as fault:
        raise Garbled(f"Cohere's answer holds no embeddings: {fault}.") from None


EMBED = Foreign("cohere_embed", write, read)
