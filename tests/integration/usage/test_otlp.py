"""Traces and metrics, as a collector gets them over real HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from app.domain.exchange import Attempt
from app.otel.exporter import Exporter
from app.settings import Settings
from providers.canonical.chat import Usage
from providers.transport.transport import Transport
from tests.support.processes import service as services
from tests.support.processes.otlp_receiver import OtlpReceiver, attributes
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script
from tests.support.spooled_exchanges import make_exchange

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PROMPT = "a prompt that no collector sees"
CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": PROMPT}]}
Kind = Span.SpanKind


@pytest.fixture(scope="module")
def port() -> int:
    return services.free_port()


@pytest.fixture(scope="module")
async def receiver(port: int) -> AsyncGenerator[OtlpReceiver]:
    receiver = OtlpReceiver()
    receiver.port = port
    await receiver.start()
    yield receiver
    await receiver.stop()


@pytest.fixture(scope="module")
def tracing_service(port: int) -> Generator[Service]:
    running = services.start(
        otlp_endpoint=f"http://127.0.0.1:{port}",
        otlp_headers="authorization=Bearer%20of-the-collector",
        otlp_metrics_s=0.5,
        trace_share=1,
        workers=1,
        retries=0,
    )
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def own_engine(tracing_service: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    address = f"http://127.0.0.1:{engine.port}"
    tracing_service.apply(f"""
        [providers]
        first = {{ adapter = "openai", base_url = "{address}" }}
        mistral = {{ adapter = "mistral", base_url = "{address}", credential = "file:{_credential(tracing_service)}" }}
        nowhere = {{ adapter = "openai", base_url = "http://127.0.0.1:9" }}
        [models]
        scripted = {{ targets = [{{ provider = "first", model = "engine-model" }}] }}
        hosted = {{ targets = [{{ provider = "mistral", model = "engine-model" }}] }}
        second-try = {{ targets = [{{ provider = "nowhere", model = "m" }}, {{ provider = "first", model = "engine-model" }}] }}
        [[prices]]
        provider = "first"
        model = "engine-model"
        input = 1000.0
        output = 2000.0
    """)
    yield engine
    await engine.stop()


def _credential(service: Service) -> Path:
    folder = service.home / "credentials"
    folder.mkdir(exist_ok=True)
    (folder / "mistral").write_text("of-no-use")
    return folder / "mistral"


@pytest.fixture
async def client(tracing_service: Service, receiver: OtlpReceiver, own_engine: ScriptedEngine) -> AsyncGenerator[httpx2.AsyncClient]:
    own_engine.requests.clear()
    own_engine.script = ReceivedRequest.respond_completion
    async with tracing_service.client() as client:
        yield client


async def spans_of(receiver: OtlpReceiver, trace_id: str, count: int) -> dict[str, Span]:
    async def have_come() -> bool:
        return len(receiver.spans_of(trace_id)) >= count

    await wait_until(have_come, 30)
    found = receiver.spans_of(trace_id)
    assert len({span.span_id for span in found}) == len(found) == count
    return {span.name: span for span in found}


def traceparent(trace_id: str, flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{trace_id}-{SPAN}-{flags}"}


@pytest.mark.parametrize("stream", [False, True])
async def test_spans_belong_to_the_trace_of_the_caller_and_engines_to_the_span_of_the_attempt(
    client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine, tracing_service: Service, stream: bool
):
    own_engine.script = stream_script(*HELLO) if stream else ReceivedRequest.respond_completion
    trace_id = TRACE[:-1] + str(int(stream))
    began_ns = time.time_ns()
    headers = {**traceparent(trace_id), "x-request-id": "order-17"}
    answer = await client.post("/v1/chat/completions", json={**CHAT, "stream": stream}, headers=headers)
    ended_ns = time.time_ns()
    spans = await spans_of(receiver, trace_id, 3)
    server, inference, attempt = spans["POST /v1/chat/completions"], spans["chat scripted"], spans["attempt first"]
    assert [span.kind for span in (server, inference, attempt)] == [Kind.SPAN_KIND_SERVER, Kind.SPAN_KIND_CLIENT, Kind.SPAN_KIND_CLIENT]
    parents = [span.parent_span_id.hex() for span in (server, inference, attempt)]
    assert parents == [SPAN, server.span_id.hex(), inference.span_id.hex()]
    assert [request.headers["traceparent"] for request in own_engine.requests] == [f"00-{trace_id}-{attempt.span_id.hex()}-01"]
    id = answer.headers["x-narthex-inference-id"]
    assert (
        attributes(server.attributes).items()
        >= {
            "http.request.method": "POST",
            "http.route": "/v1/chat/completions",
            "http.response.status_code": 200,
            "narthex.inference.id": id,
            "narthex.request.id": "order-17",
            "narthex.team": "default",
            "narthex.outcome": "answered",
        }.items()
    )
    generation = attributes(inference.attributes)
    assert generation.pop("gen_ai.response.time_to_first_chunk", None) is not None or not stream
    assert (
        generation.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "scripted",
            "gen_ai.response.model": "engine-model",
            "gen_ai.response.id": id,
            "gen_ai.request.stream": stream,
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 2,
            "server.address": "127.0.0.1",
            "server.port": own_engine.port,
            "narthex.cost.usd": 0.007,
            "narthex.charge.basis": "reported",
        }.items()
    )
    assert not any(key.startswith("gen_ai.") for span in (server, attempt) for key in attributes(span.attributes))
    for child, parent in ((inference, server), (attempt, inference)):
        assert parent.start_time_unix_nano <= child.start_time_unix_nano <= child.end_time_unix_nano <= parent.end_time_unix_nano
    assert began_ns - 10**9 <= server.start_time_unix_nano < server.end_time_unix_nano <= ended_ns + 10**9
    assert not any(span.status.code for span in spans.values())
    assert receiver.resource["service.name"] == "narthex"
    assert {headers["authorization"] for headers in receiver.headers} == {"Bearer of-the-collector"}
    await tracing_service.wait_for_record(id)
    assert not any(PROMPT.encode() in raw or b"Hello." in raw for raw in receiver.raw)


async def test_trace_that_the_caller_does_not_sample_has_no_spans(
    client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine
):
    unsampled, sampled = "a" * 32, "b" * 32
    await client.post("/v1/chat/completions", json=CHAT, headers=traceparent(unsampled, "00"))
    await client.post("/v1/chat/completions", json=CHAT, headers=traceparent(sampled))
    await spans_of(receiver, sampled, 3)  # stored after the other one
    assert receiver.spans_of(unsampled) == []
    assert own_engine.requests[0].headers["traceparent"] == f"00-{unsampled}-{SPAN}-00"


async def test_request_without_a_trace_begins_one_where_the_setting_says_so(
    client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine
):
    answer = await client.post("/v1/chat/completions", json=CHAT)
    trace_id = answer.headers["x-narthex-inference-id"].replace("-", "")
    spans = await spans_of(receiver, trace_id, 3)
    assert spans["POST /v1/chat/completions"].parent_span_id == b""
    assert own_engine.requests[0].headers["traceparent"] == f"00-{trace_id}-{spans['attempt first'].span_id.hex()}-03"


async def test_each_attempt_has_a_span(client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine):
    trace_id = "c" * 32
    assert (
        await client.post("/v1/chat/completions", json={**CHAT, "model": "second-try"}, headers=traceparent(trace_id))
    ).status_code == 200
    spans = await spans_of(receiver, trace_id, 4)
    failed, served = spans["attempt nowhere"], spans["attempt first"]
    assert failed.status.code == Status.StatusCode.STATUS_CODE_ERROR and not served.status.code
    assert attributes(failed.attributes)["error.type"] == "Unreachable"
    assert attributes(served.attributes)["http.request.resend_count"] == 1
    assert failed.parent_span_id == served.parent_span_id == spans["chat second-try"].span_id
    assert own_engine.requests[0].headers["traceparent"].split("-")[2] == served.span_id.hex()


async def test_failed_request_is_an_error_in_its_trace(client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine):
    trace_id = "d" * 32

    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, json.dumps({"error": {"message": PROMPT}}).encode())

    own_engine.script = fail
    await client.post("/v1/chat/completions", json={**CHAT, "model": "hosted"}, headers=traceparent(trace_id))
    spans = await spans_of(receiver, trace_id, 3)
    assert all(span.status.code == Status.StatusCode.STATUS_CODE_ERROR for span in spans.values())
    assert attributes(spans["chat hosted"].attributes)["error.type"] == "UpstreamFailed"
    assert not any(PROMPT.encode() in raw for raw in receiver.raw)
    assert "traceparent" not in own_engine.requests[0].headers  # a host


async def test_metrics_count_each_stored_inference_once(client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine):
    def tokens() -> tuple[int, float]:
        if "gen_ai.client.token.usage" not in receiver.metrics:
            return 0, 0
        points = receiver.metrics["gen_ai.client.token.usage"].histogram.data_points
        wanted = {"gen_ai.token.type": "input", "gen_ai.request.model": "scripted"}
        of_model = [point for point in points if wanted.items() <= attributes(point.attributes).items()]
        return sum(point.count for point in of_model), sum(point.sum for point in of_model)

    await asyncio.sleep(2)  # so that those of earlier tests have come
    count, total = tokens()
    for _ in range(5):
        await client.post("/v1/chat/completions", json=CHAT, headers=traceparent("e" * 32, "00"))

    async def are_counted() -> bool:
        return tokens()[0] >= count + 5

    await wait_until(are_counted, 30)
    assert tokens() == (count + 5, total + 15)
    cost = receiver.metrics["narthex.cost"].sum
    assert cost.is_monotonic and attributes(cost.data_points[0].attributes)["narthex.team"] == "default"
    duration = receiver.metrics["gen_ai.client.operation.duration"]
    assert duration.unit == "s" and len(duration.histogram.data_points[0].explicit_bounds) == 14


async def test_collector_that_is_away_loses_no_record_and_gets_the_spans_later(
    client: httpx2.AsyncClient, receiver: OtlpReceiver, own_engine: ScriptedEngine, tracing_service: Service
):
    trace_id, refused = "f" * 32, receiver.refused
    receiver.status = 503
    try:
        answer = await client.post("/v1/chat/completions", json=CHAT, headers=traceparent(trace_id))
        await tracing_service.wait_for_record(answer.headers["x-narthex-inference-id"])

        async def was_refused() -> bool:
            return receiver.refused >= refused + 2

        await wait_until(was_refused, 30)
    finally:
        receiver.status = 200
    await spans_of(receiver, trace_id, 3)

    async def is_shown() -> bool:
        page = (await client.get("/metrics")).text
        return any(line.startswith("narthex_otlp_spans_exported ") and float(line.split()[1]) >= 3 for line in page.splitlines())

    await wait_until(is_shown, 10)


# The exporter by itself


@pytest.fixture
async def own_receiver() -> AsyncGenerator[OtlpReceiver]:
    receiver = OtlpReceiver()
    await receiver.start()
    yield receiver
    await receiver.stop()


def sampled(**changes: Any) -> Any:
    attempt = Attempt("gpu", "m", "http://10.0.0.5:8000", 5, 10)
    return make_exchange(**{"trace_id": TRACE, "parent_span_id": SPAN, "sampled": True, "attempts": (attempt,), **changes})


async def exported(settings: Settings, *batches: list[Any]) -> Exporter:
    exporter = Exporter(settings, Transport())
    exporter.start()
    for batch in batches:
        exporter.add(batch)
        await asyncio.sleep(0)
    await exporter.close()
    return exporter


def settings_for(receiver: OtlpReceiver, tmp_path: Path, **more: Any) -> Settings:
    endpoint = type(Settings().otlp_endpoint)(receiver.url)
    return Settings(home=tmp_path, otlp_endpoint=endpoint, **more)


async def test_what_waits_is_sent_before_the_writer_ends(own_receiver: OtlpReceiver, tmp_path: Path):
    exporter = await exported(settings_for(own_receiver, tmp_path), [sampled() for _ in range(700)], [make_exchange()])
    assert len(own_receiver.spans) == exporter.counts.exported_spans == 2100
    assert exporter.counts.dropped_spans == 0 and own_receiver.metrics


async def test_spans_beyond_the_queue_are_dropped_and_counted(own_receiver: OtlpReceiver, tmp_path: Path):
    exporter = await exported(settings_for(own_receiver, tmp_path, otlp_queue=10), [sampled() for _ in range(100)])
    assert len(own_receiver.spans) == exporter.counts.exported_spans == 30
    assert exporter.counts.dropped_spans == 270


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_spans_that_the_collector_refuses_are_not_sent_again(own_receiver: OtlpReceiver, tmp_path: Path, status: int):
    own_receiver.status = status
    exporter = await exported(settings_for(own_receiver, tmp_path, otlp_metrics_s=0.0), [sampled()])
    assert own_receiver.refused == 1 and exporter.counts.dropped_spans == 3
    assert exporter.counts.last_error == f"The collector answered {status}."


async def test_spans_are_sent_again_for_a_bounded_time_and_then_dropped(own_receiver: OtlpReceiver, tmp_path: Path):
    await own_receiver.stop()
    settings = settings_for(own_receiver, tmp_path, otlp_retry_s=1.0, otlp_metrics_s=0.0)
    exporter = await exported(settings, [sampled()])
    assert (exporter.counts.exported_spans, exporter.counts.dropped_spans) == (0, 3)
    assert exporter.counts.last_error is not None and "cannot be reached" in exporter.counts.last_error


async def test_collector_says_when_to_come_again(own_receiver: OtlpReceiver, tmp_path: Path):
    own_receiver.status, own_receiver.answer_headers = 429, "retry-after: 3600\r\n"
    exporter = await exported(settings_for(own_receiver, tmp_path, otlp_metrics_s=0.0), [sampled()])
    assert own_receiver.refused == 1 and exporter.counts.dropped_spans == 3


async def test_collector_that_never_answers_delays_the_end_by_seconds_only(own_receiver: OtlpReceiver, tmp_path: Path):
    own_receiver.holds = True
    began = time.monotonic()
    exporter = await exported(settings_for(own_receiver, tmp_path, otlp_metrics_s=0.0), [sampled()])
    assert time.monotonic() - began < 10  # what it may take, with room for a busy machine: an answer is waited for longer
    assert (exporter.counts.exported_spans, exporter.counts.dropped_spans) == (0, 3)


async def test_odd_values_of_engines_make_spans_all_the_same(own_receiver: OtlpReceiver, tmp_path: Path):
    odd = [
        sampled(usage=Usage(input=10**30, output=-5)),
        sampled(model="\ud800" * 3000, finish_reason="\ud800", endpoint="http://[odd", reported_model="x" * 10**5),
        sampled(duration_us=-5),
        sampled(trace_id="f" * 31),
        sampled(received_us=-1),
    ]
    exporter = await exported(settings_for(own_receiver, tmp_path), odd, [sampled()])
    counts = exporter.counts
    assert counts.exported_spans + counts.dropped_spans == 18 and counts.exported_spans >= 12
    assert "otel.metric.overflow" not in str(own_receiver.metrics)


async def test_series_of_metrics_are_bounded(own_receiver: OtlpReceiver, tmp_path: Path):
    await exported(settings_for(own_receiver, tmp_path), [make_exchange(model=f"model-{number}") for number in range(3000)])
    points = own_receiver.metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert len(points) == 2001 and sum(point.count for point in points) == 3000
    assert [point.count for point in points if attributes(point.attributes) == {"otel.metric.overflow": True}] == [1000]
