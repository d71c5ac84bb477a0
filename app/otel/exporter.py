"""The exporter: sends spans and metrics to a collector, beside the writer's own work, which it never holds up.

What waits is bounded, and so is how long a batch is sent again; what is dropped is counted. Losing spans loses nothing that was recorded.

Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp, read 2026-11.
"""

import asyncio
import collections
import contextlib
import logging
import os
import random
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version

import httpx2
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from app.domain.exchange import Exchange
from app.otel import names
from app.otel.attributes import to_attributes
from app.otel.directory import Directory
from app.otel.export_counts import ExportCounts
from app.otel.metrics import ExchangeMetrics
from app.otel.spans import spans_of
from app.process.background_tasks import BackgroundTask
from app.process.home_id import identify_home
from app.settings import Settings
from providers.transport.read_body import read_body
from providers.transport.response_stream import ResponseTooLarge

log = logging.getLogger(__name__)

_BATCH_SPANS = 512
_FLUSH_EVERY_S = 1.0
# Spans are made in small bites, and then for twice as long nothing: storing comes first.
_BITE = 20
_PAUSE_FACTOR = 2.0
_TIMEOUT = {"connect": 5.0, "first": 10.0, "read": 10.0, "write": 10.0, "pool": 5.0, "total": 15.0}
_MAX_RESPONSE_BYTES = 64 * 1024
_RETRYABLE = (429, 502, 503, 504)
_FIRST_RETRY_S = 0.5
_MAX_RETRY_S = 10.0
_CLOSE_TIMEOUT_S = 3.0


class _Refused(Exception):
    """The collector does not take it. It should be sent again after `retry_after_s`; None means never."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Exporter:
    """Sends spans and metrics to a collector: `add` takes what is stored, and two background tasks send it.

    `transport` is the exporter's own, which it closes.
    """

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport) -> None:
        self.directory = Directory()  # replaced by whoever reads it from the database
        self.counts = ExportCounts()
        self._settings = settings
        self._transport = transport
        self._metrics = ExchangeMetrics()
        self._waiting: collections.deque[Exchange] = collections.deque()
        self._has_work = asyncio.Event()
        self._closing = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._resource = Resource(
            attributes=to_attributes(
                {
                    names.SERVICE_NAME: settings.otlp_service_name,
                    names.SERVICE_VERSION: version("narthex"),
                    names.SERVICE_INSTANCE_ID: identify_home(settings.home),
                    names.HOST_NAME: os.uname().nodename,
                }
            )
        )
        self._scope = InstrumentationScope(name=names.SCOPE, version=version("narthex"))
        self._span_task = BackgroundTask("export of spans", self._keep_sending_spans)
        self._metric_task = BackgroundTask("export of metrics", self._keep_sending_metrics)

    def start(self) -> None:
        self._span_task.start()
        if self._settings.otlp_metrics_s:
            self._metric_task.start()

    async def close(self) -> None:
        """Sends what waits, unless that takes too long."""
        self._closing.set()
        await self._metric_task.stop()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._idle.wait()
                if self._settings.otlp_metrics_s:
                    await self._send_metrics()
        except TimeoutError:
            log.warning("telemetry was not sent before the end", extra={"inferences": len(self._waiting)})
        await self._span_task.stop()
        self._drop(self._waiting)
        self._waiting.clear()
        await self._transport.aclose()

    def add(self, exchanges: Iterable[Exchange]) -> None:
        """Exchanges that were stored, each once."""
        for exchange in exchanges:
            try:
                self._metrics.count(exchange, self.directory)
            except Exception:  # whatever it is, it must not keep the writer from storing
                log.exception("an exchange was not counted", extra={"inference": exchange.id})
            if not exchange.sampled or exchange.trace_id is None:
                continue
            if len(self._waiting) >= self._settings.otlp_queue:
                self._drop((exchange,))
            else:
                self._waiting.append(exchange)
        if self._waiting:
            self._idle.clear()
            self._has_work.set()

    async def _keep_sending_spans(self) -> None:
        while True:
            await self._has_work.wait()
            while self._waiting:
                await self._send_spans(await self._take_spans())
                if len(self._waiting) < _BATCH_SPANS // 2:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), _FLUSH_EVERY_S)
            self._has_work.clear()
            self._idle.set()

    async def _take_spans(self) -> list[Span]:
        spans: list[Span] = []
        try:
            while self._waiting and len(spans) < _BATCH_SPANS:
                began = time.perf_counter()
                for _ in range(min(_BITE, len(self._waiting))):
                    spans += self._spans_of(self._waiting.popleft())
                await asyncio.sleep(0 if self._closing.is_set() else (time.perf_counter() - began) * _PAUSE_FACTOR)
        except asyncio.CancelledError:
            self.counts.dropped_spans += len(spans)
            raise
        return spans

    def _spans_of(self, exchange: Exchange) -> Sequence[Span]:
        try:
            return list(spans_of(exchange, self.directory))
        except (ValueError, TypeError):  # a value that no message can hold, such as a time before 1970
            log.exception("no spans can be made of an exchange", extra={"inference": exchange.id})
            self._drop((exchange,))
            return ()

    async def _send_spans(self, spans: list[Span]) -> None:
        if not spans:
            return
        scope_spans = ScopeSpans(scope=self._scope, spans=spans, schema_url=names.SCHEMA_URL)
        request = ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=self._resource, scope_spans=[scope_spans], schema_url=names.SCHEMA_URL)]
        )
        sent = False
        try:
            answer = await self._send_until_taken("/v1/traces", request.SerializeToString())
            sent = answer is not None
            rejected = 0 if answer is None else _rejected_spans(answer)
            self.counts.exported_spans += len(spans) - rejected if sent else 0
            self.counts.dropped_spans += rejected
        finally:
            if not sent:
                self.counts.dropped_spans += len(spans)

    async def _keep_sending_metrics(self) -> None:
        while True:
            await asyncio.sleep(self._settings.otlp_metrics_s)
            await self._send_metrics()

    async def _send_metrics(self) -> None:
        """Once: the next ones hold all that these do."""
        metrics = self._metrics.to_metrics()
        if not metrics:
            return
        scope_metrics = ScopeMetrics(scope=self._scope, metrics=metrics, schema_url=names.SCHEMA_URL)
        request = ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=self._resource, scope_metrics=[scope_metrics], schema_url=names.SCHEMA_URL)]
        )
        try:
            answer = await self._post("/v1/metrics", request.SerializeToString())
        except _Refused as refused:
            self.counts.dropped_metrics += 1
            self._note_error(str(refused))
            return
        self._note_partial_success(_metrics_message(answer))

    async def _send_until_taken(self, path: str, body: bytes) -> bytes | None:
        """The collector's answer. None: it is not taken, or was not within `otlp_retry_s`."""
        deadline = time.monotonic() + self._settings.otlp_retry_s
        wait_s = _FIRST_RETRY_S
        while True:
            try:
                answer = await self._post(path, body)
            except _Refused as refused:
                self._note_error(str(refused))
                if refused.retry_after_s is None:
                    return None
                pause_s = max(refused.retry_after_s, wait_s * random.uniform(0.5, 1.0))
                if time.monotonic() + pause_s > deadline:
                    return None
                await asyncio.sleep(pause_s)
                wait_s = min(_MAX_RETRY_S, wait_s * 2)
            else:
                self._note_partial_success(_traces_message(answer))
                return answer

    async def _post(self, path: str, body: bytes) -> bytes:
        """Raises _Refused."""
        headers = {**self._settings.otlp_headers.parsed, "content-type": "application/x-protobuf", "user-agent": "narthex"}
        request = httpx2.Request(
            "POST", self._settings.otlp_endpoint + path, headers=headers, content=body, extensions={"timeout": _TIMEOUT}
        )
        try:
            response = await self._transport.handle_async_request(request)
            try:
                answer = await read_body(response, _MAX_RESPONSE_BYTES)
            finally:
                await response.aclose()
        except ResponseTooLarge:
            raise _Refused("The collector's answer is too large.", None) from None
        except httpx2.TransportError as fault:
            raise _Refused(f"The collector cannot be reached: {type(fault).__name__}.", 0.0) from None
        if 200 <= response.status_code < 300:
            return answer
        retry_after = response.headers.get("retry-after", "")
        retry_after_s = (float(retry_after) if retry_after.isdigit() else 0.0) if response.status_code in _RETRYABLE else None
        raise _Refused(f"The collector answered {response.status_code}.", retry_after_s)

    def _drop(self, exchanges: Iterable[Exchange]) -> None:
        self.counts.dropped_spans += sum([2 + len(exchange.attempts) for exchange in exchanges])

    def _note_error(self, message: str) -> None:
        if message != self.counts.last_error:
            log.warning("telemetry cannot be sent at the moment", extra={"fault": message})
        self.counts.last_error = message

    def _note_partial_success(self, message: str) -> None:
        """Notes why the collector did not take all; an empty message means that it took all."""
        if message:
            self._note_error(f"The collector did not take all: {message[:200]}")
        else:
            self.counts.last_error = None


def _rejected_spans(answer: bytes) -> int:
    return max(0, _parse_traces(answer).partial_success.rejected_spans)


def _traces_message(answer: bytes) -> str:
    return _parse_traces(answer).partial_success.error_message


def _parse_traces(answer: bytes) -> ExportTraceServiceResponse:
    response = ExportTraceServiceResponse()
    try:
        response.ParseFromString(answer)
    except DecodeError:  # a collector that answers in another format has taken it all the same
        return ExportTraceServiceResponse()
    return response


def _metrics_message(answer: bytes) -> str:
    response = ExportMetricsServiceResponse()
    try:
        response.ParseFromString(answer)
    except DecodeError:
        return ""
    return response.partial_success.error_message
