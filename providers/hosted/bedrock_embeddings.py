"""Embeddings on Bedrock: each maker's own shape, by InvokeModel.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html, .../model-parameters-embed.html and
.../nova/latest/userguide/embeddings-schema.html; /reference/providers.md part 6; recording aws_bedrock/32; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import msgspec
from msgspec import Raw, Struct

from providers.dialect import Stamp
from providers.dialects.bedrock_converse.families import plain_id
from providers.errors import Garbled, NotOffered
from providers.foreign import Foreign
from providers.hosted.embedding import read_wanted, unsupported, write_vectors
from providers.wire import NULL, UNREADABLE, Body


class Maker(Struct, frozen=True):
    """`most`: texts in one request. `sizes`: that `dimensions` may ask for; None: it cannot. `words`: its own, which callers may send."""

    write: Callable[[Sequence[str], int | None, Mapping[str, Any]], dict[str, Any]]
    most: int
    sizes: tuple[int, ...] | None
    words: frozenset[str] = frozenset()


def _titan(texts: Sequence[str], dimensions: int | None, words: Mapping[str, Any]) -> dict[str, Any]:
    return {"inputText": texts[0], **({} if dimensions is None else {"dimensions": dimensions}), **words}


def _cohere(texts: Sequence[str], dimensions: int | None, words: Mapping[str, Any]) -> dict[str, Any]:
    """It wants to be told what texts are for, which OpenAI's callers need not say."""
    body = {"input_type": "search_document", "texts": list(texts), **words}
    return body if dimensions is None else {**body, "output_dimension": dimensions}


def _nova(texts: Sequence[str], dimensions: int | None, words: Mapping[str, Any]) -> dict[str, Any]:
    """What is too long is refused and not cut without a word."""
    text = {"truncationMode": "NONE", "value": texts[0]}
    params: dict[str, Any] = {"embeddingPurpose": words.get("embedding_purpose", "GENERIC_INDEX"), "text": text}
    if dimensions is not None:
        params["embeddingDimension"] = dimensions
    return {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": params}


_OF_COHERE = frozenset({"input_type", "truncate"})
_MAKERS: Sequence[tuple[re.Pattern[str], Maker]] = (
    (re.compile(r"amazon\.titan-embed-text-v1|amazon\.titan-embed-g1"), Maker(_titan, 1, None)),
    (re.compile(r"amazon\.titan-embed-text"), Maker(_titan, 1, (256, 512, 1024), frozenset({"normalize"}))),
    (re.compile(r"cohere\.embed-v4"), Maker(_cohere, 96, (256, 512, 1024, 1536), _OF_COHERE)),
    (re.compile(r"cohere\.embed"), Maker(_cohere, 96, None, _OF_COHERE)),
    (re.compile(r"amazon\.nova.*embed"), Maker(_nova, 1, (256, 384, 1024, 3072), frozenset({"embedding_purpose"}))),
)


def _write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    id = plain_id(model)
    maker = next((maker for pattern, maker in _MAKERS if pattern.match(id)), None)
    if maker is None:
        raise NotOffered(f"Bedrock's {model:.100} is not known to make embeddings: Titan, Nova and Cohere's models do.", param="model")
    who = f"Bedrock's {model}"
    wanted = read_wanted(body, who, may_drop, words=maker.words, most=maker.most)
    dimensions, dropped = wanted.dimensions, wanted.dropped
    if dimensions is not None and dimensions not in (maker.sizes or ()):
        if not may_drop("dimensions"):
            sizes = "one length of its own" if maker.sizes is None else "one of " + ", ".join(map(str, maker.sizes))
            raise unsupported("dimensions", who, f"its embeddings have {sizes}.")
        dropped.append("dimensions")
        dimensions = None
    return Body(maker.write(wanted.texts, dimensions, wanted.words)), dropped


class _Told(Struct):
    """Any of the shapes: Titan tells one vector, Cohere a list of them or one by type, Nova one in a list of objects."""

    embedding: Raw = NULL
    embeddings: Raw = NULL
    inputTextTokenCount: int | None = None


class _ByType(Struct):
    float: list[Raw]


class _OfNova(Struct):
    embedding: Raw


_told = msgspec.json.Decoder(_Told)
_shapes = msgspec.json.Decoder(_ByType)
_of_nova = msgspec.json.Decoder(list[_OfNova])
_vectors = msgspec.json.Decoder(list[Raw])


def _read(raw: bytes, headers: httpx.Headers, stamp: Stamp) -> bytes:
    try:
        told = _told.decode(raw)
        vectors = [told.embedding] if told.embedding != NULL else _of(told.embeddings)
    except UNREADABLE as fault:
        raise Garbled(f"Bedrock's answer holds no embeddings: {fault}.") from None
    counted = told.inputTextTokenCount
    header = headers.get("x-amzn-bedrock-input-token-count", "")
    if counted is None and header.isdecimal():
        counted = int(header[:15])
    return write_vectors(vectors, counted, stamp)


def _of(told: Raw) -> list[Raw]:
    if bytes(told).startswith(b"{"):
        return _shapes.decode(told).float
    vectors = _vectors.decode(told)
    return [each.embedding for each in _of_nova.decode(told)] if vectors and bytes(vectors[0]).startswith(b"{") else vectors


BEDROCK_EMBEDDINGS = Foreign("bedrock_embeddings", _write, _read)
