"""A collector: a real HTTP server that decodes what it gets with OpenTelemetry's own messages."""

import asyncio
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """A collector of OpenTelemetry."""

    def __init__(self) -> None:
        self.status = 200  # with which it answers; 200 takes what was sent
        self.answer_headers = ""
        self.holds = False  # whether no request is answered
        self.refused = 0  # how many requests were answered otherwise than by 200
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        self.resource: dict[str, Any] = {}
        self.headers: list[dict[str, str]] = []
        self.raw: list[bytes] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Starts the receiver; after stop(), it starts again at the same address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def spans_of(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id.hex() == trace_id]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers["content-length"]))
                if self.holds:
                    await reader.read()  # until the client leaves
                    return
                answer = self._take(head[0].split(" ")[1], headers, body)
                writer.write(f"HTTP/1.1 {self.status} X\r\n{self.answer_headers}content-length: {len(answer)}\r\n\r\n".encode() + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> bytes:
        assert headers["content-type"] == "application/x-protobuf"
        if self.status != 200:
            self.refused += 1
            return b""
        self.headers.append(headers)
        self.raw.append(body)
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for resource_spans in traces.resource_spans:
                self.resource = attributes(resource_spans.resource.attributes)
                self.spans += [span for scope in resource_spans.scope_spans for span in scope.spans]
            return ExportTraceServiceResponse().SerializeToString()
        assert path == "/v1/metrics"
        metrics = ExportMetricsServiceRequest.FromString(body)
        self.metrics = {each.name: each for part in metrics.resource_metrics for scope in part.scope_metrics for each in scope.metrics}
        return ExportMetricsServiceResponse().SerializeToString()


def attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    pair: KeyValue
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        assert kind is not None and pair.key not in found
        value = getattr(pair.value, kind)
        found[pair.key] = tuple(each.string_value for each in value.values) if kind == "array_value" else value
    return found
