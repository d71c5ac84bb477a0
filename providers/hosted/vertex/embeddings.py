"""Embeddings on Vertex: :predict with instances for older models, :embedContent with one input for gemini-embedding-2.

Sources: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api and .../rest/v1/projects.locations
.publishers.models/embedContent; docs/sources.md#host-embeddings; recording gcp_vertex_gemini/17; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import msgspec
from msgspec import Struct, field

from providers.canonical.errors import InvalidUpstreamResponse, OperationNotSupported
from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta
from providers.host_operation import HostOperation
from providers.hosted.rules.openai_embeddings import read_embedding_request, write_embeddings_response
from providers.hosted.vertex.models import EMBEDDINGS, parse_model

# Vertex's own fields, which callers may send.
_HOST_FIELDS = ("task_type", "title")


def _write_embedding_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    vertex_model = parse_model(model)
    if vertex_model.publisher != "google":
        raise OperationNotSupported(f"Vertex's {model:.100} has no API for embeddings.", param="model")
    max_texts = 1 if vertex_model.name.startswith("gemini-embedding-") else None
    embedding_request = read_embedding_request(body, f"Vertex's {model}", may_drop, host_fields=_HOST_FIELDS, max_texts=max_texts)
    write_body = _write_embed_content_body if vertex_model.uses_embed_content else _write_predict_body
    request_body = write_body(embedding_request.texts, embedding_request.host_fields, embedding_request.dimensions)
    return request_body, embedding_request.dropped


def _write_predict_body(texts: list[str], host_fields: Mapping[str, Any], dimensions: int | None) -> Body:
    # The default is to cut a text that is too long, silently.
    parameters: dict[str, Any] = {"autoTruncate": False}
    if dimensions is not None:
        parameters["outputDimensionality"] = dimensions
    return Body({"instances": [{"content": text, **host_fields} for text in texts], "parameters": parameters})


def _write_embed_content_body(texts: list[str], host_fields: Mapping[str, Any], dimensions: int | None) -> Body:
    body = Body({"content": {"parts": [{"text": texts[0]}]}, "autoTruncate": False})
    for option, key in (("task_type", "taskType"), ("title", "title")):
        if option in host_fields:
            body[key] = host_fields[option]
    if dimensions is not None:
        body["outputDimensionality"] = dimensions
    return body


class _Statistics(Struct):
    token_count: int | None = None
    truncated: bool = False


class _Embedding(Struct):
    values: msgspec.Raw
    statistics: _Statistics = field(default_factory=_Statistics)


class _Prediction(Struct):
    embeddings: _Embedding


class _UsageMetadata(Struct):
    promptTokenCount: int | None = None


class _EmbeddingsResponse(Struct):
    """A response of :predict or of :embedContent."""

    predictions: list[_Prediction] = []
    embedding: _Embedding | None = None
    truncated: bool = False
    usageMetadata: _UsageMetadata | None = None


_response_decoder = msgspec.json.Decoder(_EmbeddingsResponse)


def _read_embeddings(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    try:
        response = _response_decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as decode_error:
        raise InvalidUpstreamResponse(f"Vertex's response has no embeddings: {decode_error}.") from None
    embeddings = [each.embeddings for each in response.predictions] if response.embedding is None else [response.embedding]
    if response.truncated or any(each.statistics.truncated for each in embeddings):
        raise InvalidUpstreamResponse("Vertex truncated an input although autoTruncate was false.")
    return write_embeddings_response([each.values for each in embeddings], _count_input_tokens(response, embeddings), meta)


def _count_input_tokens(response: _EmbeddingsResponse, embeddings: list[_Embedding]) -> int | None:
    """Input tokens of all texts; None unless the response counts every one."""
    if response.usageMetadata is not None and response.usageMetadata.promptTokenCount is not None:
        return response.usageMetadata.promptTokenCount
    counts = [each.statistics.token_count for each in embeddings]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


VERTEX_EMBEDDINGS = HostOperation(EMBEDDINGS, _write_embedding_request, _read_embeddings)
