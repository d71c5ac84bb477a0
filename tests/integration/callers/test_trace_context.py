"""The caller's trace and its id of a request: engines, records, logs and answers have them."""

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.process.logs import JsonLines, RequestIds, current_request
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1", "baggage": "user=somebody"}
CHAT: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}


def sent_trace(engine: ScriptedEngine) -> list[dict[str, str]]:
    names = ("traceparent", "tracestate", "baggage")
    return [{name: request.headers[name] for name in names if name in request.headers} for request in engine.requests]


@pytest.mark.parametrize("stream", [False, True])
async def test_engine_and_record_get_the_trace_of_the_caller(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool
):
    if stream:
        engine.script = stream_script(*HELLO)
    answer = await client.post("/v1/chat/completions", json={**CHAT, "stream": stream}, headers=TRACED)
    assert answer.status_code == 200
    assert sent_trace(engine) == [{"traceparent": TRACED["traceparent"], "tracestate": "vendor=1"}]
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["trace_id"], record["parent_span_id"], record["sampled"]) == (TRACE, SPAN, True)


async def test_request_without_a_trace_has_none(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    for headers in ({}, {"traceparent": "of no kind", "tracestate": "vendor=1"}):
        answer = await client.post("/v1/chat/completions", json=CHAT, headers=headers)
        record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
        assert (record["trace_id"], record["parent_span_id"], record["sampled"]) == (None, None, False)
    assert sent_trace(engine) == [{}, {}]


async def test_retries_and_split_requests_carry_the_trace(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    """A request with `n` that is sent as several, and attempts at another target."""
    service.apply(f"""
        [providers]
        splitting = {{ adapter = "llamacpp", base_url = "http://127.0.0.1:{engine.port}" }}
        [models]
        splitting = {{ targets = [{{ provider = "splitting", model = "engine-model" }}] }}
    """)
    answer = await client.post("/v1/chat/completions", json={**CHAT, "model": "splitting", "n": 2}, headers=TRACED)
    assert answer.status_code == 200, answer.text
    assert len(sent_trace(engine)) == 2 and all(each["traceparent"] == TRACED["traceparent"] for each in sent_trace(engine))


@pytest.fixture
async def traced_host(service: Service, engine: ScriptedEngine) -> AsyncGenerator[ScriptedEngine]:
    service.apply(f"""
        [providers]
        traced-host = {{ adapter = "anthropic", base_url = "http://127.0.0.1:{engine.port}", trace = true }}
        untraced = {{ adapter = "openai", base_url = "http://127.0.0.1:{engine.port}", trace = false }}
        [models]
        traced-host = {{ targets = [{{ provider = "traced-host", model = "engine-model" }}] }}
        untraced = {{ targets = [{{ provider = "untraced", model = "engine-model" }}] }}
    """)
    yield engine


async def respond_message(request: ReceivedRequest) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    await request.respond(200, json.dumps(message).encode())


async def test_hosts_get_the_trace_only_where_their_provider_says_so(client: httpx2.AsyncClient, traced_host: ScriptedEngine):
    traced_host.script = respond_message
    for model in ("claude", "traced-host"):
        answer = await client.post("/v1/chat/completions", json={**CHAT, "model": model, "max_tokens": 5}, headers=TRACED)
        assert answer.status_code == 200, answer.text
    traced_host.script = ReceivedRequest.respond_completion
    assert (await client.post("/v1/chat/completions", json={**CHAT, "model": "untraced"}, headers=TRACED)).status_code == 200
    assert sent_trace(traced_host) == [{}, {"traceparent": TRACED["traceparent"], "tracestate": "vendor=1"}, {}]


async def test_id_of_the_caller_is_in_answers_and_in_the_record(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await client.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "order-17"})
    id = answer.headers["x-narthex-inference-id"]
    assert (answer.headers["x-request-id"], answer.headers["request-id"], answer.json()["id"]) == ("order-17", "order-17", id)
    assert (await service.wait_for_record(id))["request_id"] == "order-17"
    assert (await client.get(f"/v1/inferences/{id}")).json()["request_id"] == "order-17"
    refused = await client.post("/v1/chat/completions", json={**CHAT, "model": "nothing"}, headers={"x-request-id": "order-18"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (404, "order-18")
    unsafe = await client.post("/v1/chat/completions", json=CHAT, headers={"x-request-id": "a b"})
    assert unsafe.headers["x-request-id"] == unsafe.headers["x-narthex-inference-id"]
    assert (await service.wait_for_record(unsafe.headers["x-narthex-inference-id"]))["request_id"] is None


async def test_replayed_response_has_the_id_of_the_retry(client: httpx2.AsyncClient, engine: ScriptedEngine):
    """Retries of one request differ in their ids and spans."""
    first, retry = [
        await client.post(
            "/v1/chat/completions",
            json=CHAT,
            headers={"idempotency-key": "of-two-spans", "x-request-id": f"try-{n}", "traceparent": f"00-{TRACE}-{n}0f067aa0ba902b7-01"},
        )
        for n in (1, 2)
    ]
    assert (first.status_code, retry.status_code, retry.headers["x-narthex-replayed"]) == (200, 200, "true")
    assert (first.headers["x-request-id"], retry.headers["x-request-id"]) == ("try-1", "try-2")
    assert retry.headers["x-narthex-inference-id"] == first.headers["x-narthex-inference-id"] and len(engine.requests) == 1


async def test_other_routes_take_the_id_over_too(service: Service, client: httpx2.AsyncClient):
    for path in ("/v1/models", "/nowhere", "/v1/usage"):
        answer = await client.get(path, headers={"x-request-id": "order-17"})
        assert answer.headers["x-request-id"] == answer.headers["request-id"] == "order-17", path
    async with service.admin_client() as admin:
        changed = await admin.post("/admin/v1/teams", json={"name": "with-a-request-id"}, headers={"x-request-id": "change-9"})
        assert changed.status_code == 201 and changed.headers["x-request-id"] == "change-9"
        events = (await admin.get("/admin/v1/audit", params={"name": "with-a-request-id"})).json()["data"]
        assert [event["request_id"] for event in events] == ["change-9"]
        without = await admin.get("/admin/v1/teams")
        assert len(without.headers["x-request-id"]) == 36


async def test_log_lines_about_a_request_carry_its_ids(service: Service, client: httpx2.AsyncClient):
    headers = {**TRACED, "x-request-id": "logged-1"}
    answer = await client.post("/v1/chat/completions", json={**CHAT, "model": "unreachable"}, headers=headers)
    assert answer.status_code == 502
    wanted = {"request_id": "logged-1", "trace_id": TRACE, "inference": answer.headers["x-narthex-inference-id"]}

    async def is_logged() -> bool:
        lines = [line for log in (service.home / "logs").glob("gateway-*.log") for line in log.read_text().splitlines()]
        found = [json.loads(line) for line in lines if '"logged-1"' in line]
        return any(wanted.items() <= line.items() and line["message"] == "a connection to an engine failed" for line in found)

    await wait_until(is_logged, 10)


def test_log_lines_after_the_end_of_a_request_are_not_of_it():
    ids = RequestIds("i", "r", None)
    token = current_request.set(ids)
    try:
        record = logging.LogRecord("name", logging.INFO, "path", 1, "text", None, None)
        assert {"inference": "i", "request_id": "r"}.items() <= json.loads(JsonLines().format(record)).items()
        ids.is_over = True
        assert "request_id" not in json.loads(JsonLines().format(record))
    finally:
        current_request.reset(token)
