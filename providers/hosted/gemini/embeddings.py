"""Embeddings at AI Studio: batchEmbedContents, with one request per text.

Source: https://ai.google.dev/api/embeddings, read 2026-11; recording google_ai_studio/21. Vertex: hosted/vertex/embeddings.py.
"""

from collections.abc import Callable, Mapping

import httpx2
import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.upstream_errors import find_error
from providers.dialect import ResponseMeta
from providers.host_operation import HostOperation
from providers.hosted.gemini.count_tokens import model_resource
from providers.hosted.rules.openai_embeddings import read_embedding_request, write_embeddings_response

_MAX_TEXTS = 100
# Google's own fields, which callers may send in either spelling.
_HOST_FIELDS: Mapping[str, str] = {**dict.fromkeys(("task_type", "taskType"), "taskType"), "title": "title"}


class _Values(Struct):
    values: Raw


class _UsageMetadata(Struct):
    promptTokenCount: int | None = None


class _EmbeddingsResponse(Struct):
    embeddings: list[_Values]
    usageMetadata: _UsageMetadata | None = None


_decode_response = msgspec.json.Decoder(_EmbeddingsResponse).decode


def _write_embedding_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    embedding_request = read_embedding_request(
        body, f"{model} (Google AI Studio)", may_drop, host_fields=_HOST_FIELDS, max_texts=_MAX_TEXTS
    )
    options = {_HOST_FIELDS[key]: value for key, value in embedding_request.host_fields.items()}
    if embedding_request.dimensions is not None:
        options["outputDimensionality"] = embedding_request.dimensions
    name = model_resource(model)
    return Body(
        requests=[{"model": name, "content": {"parts": [{"text": text}]}, **options} for text in embedding_request.texts]
    ), embedding_request.dropped


def _read_embeddings(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        response = _decode_response(raw)
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"Google's response has no embeddings: {decode_error}.") from None
    return write_embeddings_response(
        [each.values for each in response.embeddings], response.usageMetadata and response.usageMetadata.promptTokenCount, meta
    )


GEMINI_EMBEDDINGS = HostOperation("gemini_embeddings", _write_embedding_request, _read_embeddings)
