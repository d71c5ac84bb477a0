"""Embeddings on Bedrock: InvokeModel, with a body shape per maker.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html, .../model-parameters-embed.html and
.../nova/latest/userguide/embeddings-schema.html; docs/sources.md#host-embeddings; recording aws_bedrock/32; read 2026-11.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse, OperationNotSupported
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialect import ResponseMeta
from providers.drop_policy import unsupported_error
from providers.host_operation import HostOperation
from providers.hosted.rules.openai_embeddings import read_embedding_request, write_embeddings_response
from providers.profiles.bedrock.families import bare_model_id


class EmbeddingFormat(Struct, frozen=True):
    """How one maker's embedding models are called."""

    write_body: Callable[[Sequence[str], int | None, Mapping[str, Any]], dict[str, Any]]
    max_texts: int  # per request
    dimensions: tuple[int, ...] | None  # the allowed vector lengths; None: the length is fixed
    host_fields: frozenset[str] = frozenset()  # the maker's own request fields, which callers may send


def _write_titan_body(texts: Sequence[str], dimensions: int | None, host_fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"inputText": texts[0], **({} if dimensions is None else {"dimensions": dimensions}), **host_fields}


def _write_cohere_body(texts: Sequence[str], dimensions: int | None, host_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Cohere requires `input_type`, which OpenAI's API does not have: search_document by default."""
    body = {"input_type": "search_document", "texts": list(texts), **host_fields}
    return body if dimensions is None else {**body, "output_dimension": dimensions}


def _write_nova_body(texts: Sequence[str], dimensions: int | None, host_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Writes truncationMode NONE, with which Nova refuses a text that is too long instead of cutting it silently."""
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
    embedding_format = next((each for pattern, each in _EMBEDDING_FORMATS if pattern.match(bedrock_id)), None)
    if embedding_format is None:
        raise OperationNotSupported(
            f"Bedrock's {model:.100} is not known to make embeddings: models of Titan, Nova and Cohere do.", param="model"
        )
    target = f"Bedrock's {model}"
    embedding_request = read_embedding_request(
        body, target, may_drop, host_fields=embedding_format.host_fields, max_texts=embedding_format.max_texts
    )
    dimensions, dropped = embedding_request.dimensions, embedding_request.dropped
    if dimensions is not None and dimensions not in (embedding_format.dimensions or ()):
        if not may_drop("dimensions"):
            lengths = embedding_format.dimensions
            allowed = "one length of its own" if lengths is None else "one of " + ", ".join(map(str, lengths))
            raise unsupported_error("dimensions", target, f"its embeddings have {allowed}.")
        dropped.append("dimensions")
        dimensions = None
    return Body(embedding_format.write_body(embedding_request.texts, dimensions, embedding_request.host_fields)), dropped


class _EmbeddingResponse(Struct):
    """The shapes of all makers: Titan has one vector, Cohere a list of vectors or lists by type, Nova a list of objects."""

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


def _read_embeddings(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    try:
        response = _response_decoder.decode(raw)
        vectors = [response.embedding] if response.embedding != NULL else _read_vectors(response.embeddings)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"Bedrock's response has no embeddings: {decode_error}.") from None
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
