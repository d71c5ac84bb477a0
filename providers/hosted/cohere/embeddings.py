"""Cohere's /v2/embed for callers of OpenAI's embeddings: it also requires `input_type`, the purpose of the texts.

Source: https://docs.cohere.com/reference/embed, read 2026-11.
"""

from collections.abc import Callable

import httpx2
import msgspec
from msgspec import Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, Body, repair_unicode
from providers.canonical.token_counts import plausible_count
from providers.canonical.upstream_errors import UNNAMED_STATUS, find_error, read_error
from providers.dialect import ResponseMeta
from providers.host_operation import HostOperation
from providers.hosted.rules.openai_embeddings import read_embedding_request, write_embeddings_response

_MAX_TEXTS = 96
# Cohere requires an input type, and most texts that are embedded are documents to store.
_DEFAULT_INPUT_TYPE = "search_document"
_HOST_FIELDS = ("input_type", "truncate", "max_tokens", "priority")


class _Counts(Struct):
    input_tokens: float | None = None


_NO_COUNTS = _Counts()


class _Meta(Struct):
    billed_units: _Counts | None = None
    tokens: _Counts | None = None


class _Vectors(Struct):
    float: list[msgspec.Raw]


class _EmbedResponse(Struct):
    embeddings: _Vectors
    meta: _Meta | None = None


_decode_response = msgspec.json.Decoder(_EmbedResponse).decode


def write_embedding_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    embedding_request = read_embedding_request(body, "Cohere", may_drop, host_fields=_HOST_FIELDS, max_texts=_MAX_TEXTS)
    request_body = Body(
        {"texts": embedding_request.texts, "embedding_types": ["float"], "input_type": _DEFAULT_INPUT_TYPE, **embedding_request.host_fields}
    )
    if embedding_request.dimensions is not None:
        request_body["output_dimension"] = embedding_request.dimensions
    return request_body, embedding_request.dropped


def read_embeddings(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    response = _decode_or_raise(raw)
    billed, processed = _input_counts(response.meta)
    return write_embeddings_response(response.embeddings.float, billed if processed is None else processed, meta)


def read_billed_input(raw: bytes) -> int | None:
    """Returns the billed input tokens of a response that read_embeddings() can read.

    None means that the response does not report the processed tokens beside them.
    """
    billed, processed = _input_counts(_decode_or_raise(raw).meta)
    return None if processed is None else billed


def _input_counts(meta: _Meta | None) -> tuple[int | None, int | None]:
    """The billed and the processed tokens; None: not reported. Most responses report only the billed ones."""
    if meta is None:
        return None, None
    billed, processed = meta.billed_units or _NO_COUNTS, meta.tokens or _NO_COUNTS
    return plausible_count(billed.input_tokens), plausible_count(processed.input_tokens)


def _decode_or_raise(raw: bytes) -> _EmbedResponse:
    try:
        return _decode_response(raw)
    except DECODE_ERRORS:
        pass
    body = Body.read_response(raw)
    error = find_error(body) or (read_error(UNNAMED_STATUS, {}, raw) if isinstance(body.value("message"), str) else None)
    if error is not None:
        raise error
    try:
        return _decode_response(repair_unicode(raw))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"Cohere's response has no embeddings: {decode_error}.") from None


COHERE_EMBEDDINGS = HostOperation("cohere_embed", write_embedding_request, read_embeddings, read_billed_input)
