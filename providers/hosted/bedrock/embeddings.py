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

from providers.canonical.errors import InvalidUpstreamResponse, OperationNotSupported
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialect import ResponseMeta
from providers.host_operation import HostOperation
from providers.hosted.rules.openai_embeddings import read_embedding_request, unsupported, write_embeddings_response
from providers.profiles.bedrock_families import bare_model_id


class EmbeddingFormat(Struct, frozen=True):
    """`most`: texts in one request. `sizes`: that `dimensions` may ask for; None: it cannot. `words`: its own, which callers may send."""

    write_body: Callable[[Sequence[str], int | None, Mapping[str, Any]], dict[str, Any]]
    max_texts: int
    dimensions: tuple[int, ...] | None
    host_fields: frozenset[str] = frozenset()


def _write_titan_body(texts: Sequence[str], dimensions: int | None, host_fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"inputText": texts[0], **({} if dimensions is None else {"dimensions": dimensions}), **host_fields}


def _write_cohere_body(texts: Sequence[str], dimensions: int | None, host_fields: Mapping[str, Any]) -> dict[str, Any]:
    """It wants to be told what texts are for, which OpenAI's callers need not say."""
    body = {"input_type": "search_document", "texts": list(texts), **host_fields}
    return body if dimensions is None else {**body, "output_dimension": dimensions}


def _write_nova_body(texts: Sequence[str], dimensions: int | None, host_fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is too long is refused and not cut without a word."""
    text = {"truncationMode": "NONE", "value": texts[0]}
    params: dict[str, Any] = {"embeddingPurpose": host_fields.get("embedding_purpose", "GENERIC_INDEX"), "text": text}
    if dimensions is not None:
        params["embeddingDimension"] = dimensions
    return {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": params}


_COHERE_FIELDS = frozenset({"input_type", "truncate"})
_EMBEDDING_FORMATS: Sequence[tuple[re.Pattern[str], EmbeddingFormat]] = (
    (re.compile(r"amazon\.titan-embed-text-v1|amazon\.titan-embed-g1"), EmbeddingFormat(_write_titan_body, 1, None)),
    (re.compile(r"amazon\.titan-embed-text"), EmbeddingFormat(_write_titan_body, 1, (256, 512, 1024), frozenset({"normalize"}))),
    (re.compile(r"cohere\.embed-v4"), EmbeddingFormat(_write_cohere_body, 96, (256, 512, 1024, 1536), _COHERE_FIELDS)),
    (re.compile(r"cohere\.embed"), EmbeddingFormat(_write_cohere_body, 96, None, _COHERE_FIELDS)),
    (re.compile(r"amazon\.nova.*embed"), EmbeddingFormat(_write_nova_body, 1, (256, 384, 1024, 3072), frozenset({"embedding_purpose"}))),
)


def _write_embedding_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    bedrock_id = bare_model_id(model)
    maker = next((maker for pattern, maker in _EMBEDDING_FORMATS if pattern.match(bedrock_id)), None)
    if maker is None:
        raise OperationNotSupported(
            f"Bedrock's {model:.100} is not known to make embeddings: Titan, Nova and Cohere's models do.", param="model"
        )
    target = f"Bedrock's {model}"
    embedding_request = read_embedding_request(body, target, may_drop, host_fields=maker.host_fields, max_texts=maker.max_texts)
    dimensions, dropped = embedding_request.dimensions, embedding_request.dropped
    if dimensions is not None and dimensions not in (maker.dimensions or ()):
        if not may_drop("dimensions"):
            sizes = "one length of its own" if maker.dimensions is None else "one of " + ", ".join(map(str, maker.dimensions))
            raise unsupported("dimensions", target, f"its embeddings have {sizes}.")
        dropped.append("dimensions")
        dimensions = None
    return Body(maker.write_body(embedding_request.texts, dimensions, embedding_request.host_fields)), dropped


class _EmbeddingResponse(Struct):
    """Any of the shapes: Titan tells one vector, Cohere a list of them or one by type, Nova one in a list of objects."""

    embedding: Raw = NULL
    embeddings: Raw = NULL
    inputTextTokenCount: int | None = None


class _VectorsByType(Struct):
    float: list[Raw]


class _NovaEmbedding(Struct):
    embedding: Raw


_response_decoder = msgspec.json.Decoder(_EmbeddingResponse)
_by_type_decoder = msgspec.json.Decoder(_VectorsByType)
_nova_decoder = msgspec.json.Decoder(list[_NovaEmbedding])
_vectors_decoder = msgspec.json.Decoder(list[Raw])


def _read_embeddings(raw: bytes, headers: httpx.Headers, meta: ResponseMeta) -> bytes:
    try:
        response = _response_decoder.decode(raw)
        vectors = [response.embedding] if response.embedding != NULL else _read_vectors(response.embeddings)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"Bedrock's answer holds no embeddings: {decode_error}.") from None
    input_tokens = response.inputTextTokenCount
    header = headers.get("x-amzn-bedrock-input-token-count", "")
    if input_tokens is None and header.isdecimal():
        input_tokens = int(header[:15])
    return write_embeddings_response(vectors, input_tokens, meta)


def _read_vectors(embeddings: Raw) -> list[Raw]:
    if bytes(embeddings).startswith(b"{"):
        return _by_type_decoder.decode(embeddings).float
    vectors = _vectors_decoder.decode(embeddings)
    return [each.embedding for each in _nova_decoder.decode(embeddings)] if vectors and bytes(vectors[0]).startswith(b"{") else vectors


BEDROCK_EMBEDDINGS = HostOperation("bedrock_embeddings", _write_embedding_request, _read_embeddings)
