"""Spans of a recorded exchange: the request, its inference, and a child of it for each attempt. Never any content."""

from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import urlsplit

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from app.domain.exchange import Attempt, Exchange
from app.domain.inference_paths import PATHS_BY_ROUTE
from app.otel import names
from app.otel.attributes import to_attributes
from app.otel.directory import Directory
from app.otel.trace_context import attempt_span_id, inference_span_id, server_span_id

_DISCONNECTED_STATUS = 499
# The first path of each route stands for the others, which are other names of it.


def spans_of(exchange: Exchange, directory: Directory) -> Iterator[Span]:
    """The spans of an exchange that is sampled, parents first."""
    yield _server_span(exchange, directory)
    yield _inference_span(exchange, directory)
    for number, attempt in enumerate(exchange.attempts):
        if attempt.endpoint:
            yield _attempt_span(exchange, attempt, number)


def error_type_of(exchange: Exchange) -> str | None:
    """The class of the error, or how the request ended without one; None: it was answered."""
    return exchange.error or (None if exchange.outcome == "answered" else exchange.outcome)


@lru_cache(maxsize=4096)
def address_of(endpoint: str | None) -> tuple[str | None, int | None]:
    """Host and port of an endpoint."""
    try:
        parts = urlsplit(endpoint or "")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None, None
    return parts.hostname, port if parts.hostname else None


def response_model_of(exchange: Exchange) -> str | None:
    return exchange.reported_model or exchange.served_model


def _server_span(exchange: Exchange, directory: Directory) -> Span:
    path = PATHS_BY_ROUTE.get(exchange.route, exchange.route)
    error_type = error_type_of(exchange)
    span = _span(
        exchange,
        server_span_id(exchange.id),
        exchange.parent_span_id,
        f"POST {path}",
        Span.SpanKind.SPAN_KIND_SERVER,
        0,
        exchange.duration_us,
        error_type if exchange.status >= 500 or exchange.outcome in ("failed", "aborted") else None,
    )
    span.attributes.extend(
        to_attributes(
            {
                names.HTTP_METHOD: "POST",
                names.HTTP_ROUTE: path,
                names.HTTP_STATUS: None if exchange.status == _DISCONNECTED_STATUS else exchange.status,
                names.ERROR_TYPE: error_type,
                names.INFERENCE_ID: exchange.id,
                names.REQUEST_ID: exchange.request_id,
                names.TEAM: directory.teams.get(exchange.team_id),
                names.TEAM_ID: exchange.team_id,
                names.KEY_ID: exchange.key_id,
                names.OUTCOME: exchange.outcome,
            }
        )
    )
    return span


def _inference_span(exchange: Exchange, directory: Directory) -> Span:
    operation = names.OPERATIONS.get(exchange.route, exchange.route)
    error_type, usage = error_type_of(exchange), exchange.usage
    address, port = address_of(exchange.endpoint)
    finish_reason = "error" if exchange.error is not None and exchange.status == 200 else exchange.finish_reason
    span = _span(
        exchange,
        inference_span_id(exchange.id),
        server_span_id(exchange.id),
        f"{operation} {exchange.model}",
        Span.SpanKind.SPAN_KIND_CLIENT,
        min([attempt.started_us for attempt in exchange.attempts], default=0),
        exchange.duration_us,
        error_type,
    )
    span.attributes.extend(
        to_attributes(
            {
                names.OPERATION: operation,
                names.PROVIDER: directory.provider_of(exchange.served_provider),
                names.REQUEST_MODEL: exchange.model,
                names.REQUEST_STREAM: exchange.streamed,
                names.SERVER_ADDRESS: address,
                names.SERVER_PORT: port,
                names.RESPONSE_MODEL: response_model_of(exchange),
                names.RESPONSE_ID: exchange.id,
                names.FINISH_REASONS: None if finish_reason is None else (finish_reason,),
                names.TIME_TO_FIRST_CHUNK: None if exchange.first_token_us is None else exchange.first_token_us / 1e6,
                names.CONVERSATION_ID: exchange.episode_id,
                names.PROMPT_NAME: exchange.function,
                names.PROMPT_VERSION: exchange.variant,
                names.INPUT_TOKENS: usage.input,
                names.OUTPUT_TOKENS: usage.output,
                names.CACHE_READ_TOKENS: usage.cached,
                names.CACHE_WRITE_TOKENS: usage.cache_written,
                names.REASONING_TOKENS: usage.reasoning,
                names.ERROR_TYPE: error_type,
                names.TEAM: directory.teams.get(exchange.team_id),
                names.ROUTE: exchange.route,
                names.SNAPSHOT: exchange.snapshot,
                names.SERVED_PROVIDER: exchange.served_provider,
                names.SERVED_MODEL: exchange.served_model,
                names.COST_USD: None if exchange.cost_microusd is None else exchange.cost_microusd / 1e6,
                names.CHARGE_BASIS: exchange.charge_basis,
            }
        )
    )
    return span


def _attempt_span(exchange: Exchange, attempt: Attempt, number: int) -> Span:
    address, port = address_of(attempt.endpoint)
    # What is recorded of an attempt ends where its response begins; a stream goes on until the end of the request.
    served = attempt.error is None
    ends_us = exchange.duration_us if served and exchange.streamed else attempt.started_us + attempt.duration_us
    span = _span(
        exchange,
        attempt_span_id(exchange.id, attempt.started_us),
        inference_span_id(exchange.id),
        f"attempt {attempt.provider}",
        Span.SpanKind.SPAN_KIND_CLIENT,
        attempt.started_us,
        ends_us,
        attempt.error,
    )
    span.attributes.extend(
        to_attributes(
            {
                names.HTTP_METHOD: "POST",
                names.HTTP_STATUS: attempt.status,
                names.HTTP_RESEND_COUNT: number or None,
                names.SERVER_ADDRESS: address,
                names.SERVER_PORT: port,
                names.ERROR_TYPE: attempt.error,
                names.ATTEMPT_PROVIDER: attempt.provider,
                names.ATTEMPT_MODEL: attempt.model,
                names.ATTEMPT_SERVED: served,
                names.ATTEMPT_REQUEST_ID: attempt.request_id,
            }
        )
    )
    return span


def _span(
    exchange: Exchange,
    id: str,
    parent_id: str | None,
    name: str,
    kind: Span.SpanKind.ValueType,
    starts_us: int,
    ends_us: int,
    error_type: str | None,
) -> Span:
    assert exchange.trace_id is not None
    ns = exchange.received_us * 1000
    return Span(
        trace_id=bytes.fromhex(exchange.trace_id),
        span_id=bytes.fromhex(id),
        parent_span_id=b"" if parent_id is None else bytes.fromhex(parent_id),
        flags=0x01,
        name=name[:255].encode("utf-8", "replace").decode(),
        kind=kind,
        start_time_unix_nano=ns + starts_us * 1000,
        end_time_unix_nano=ns + max(starts_us, ends_us) * 1000,
        status=None if error_type is None else Status(code=Status.StatusCode.STATUS_CODE_ERROR),
    )
