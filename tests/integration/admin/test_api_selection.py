"""The API of an engine that serves a request, and the errors, headers and charges in the caller's API."""

import asyncio
import json
from typing import Any

import anthropic
import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

MESSAGE: dict[str, Any] = {
    "id": "msg_engine",
    "type": "message",
    "role": "assistant",
    "model": "engine-model",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
REQUEST: dict[str, Any] = {"max_tokens": 20, "messages": [{"role": "user", "content": "Hi"}]}


async def answer_hello(request: ReceivedRequest) -> None:
    await request.respond(200, json.dumps(MESSAGE).encode()) if request.path.endswith("/messages") else await request.respond_completion()


def requested_paths(engine: ScriptedEngine) -> list[str]:
    return [request.path for request in engine.requests if request.path != "/version"]


async def test_engine_is_called_in_the_caller_api_if_it_supports_it(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = answer_hello
    raw = json.dumps({**REQUEST, "model": "claude", "top_k": 5, "unheard_of": {"x": 0}}).replace('"x": 0', '"x": 1.50')
    answer = await client.post("/v1/messages", content=raw)
    assert answer.status_code == 200, answer.text
    sent = next(request for request in engine.requests if request.path == "/v1/messages")
    assert sent.body == {**REQUEST, "model": "engine-model", "top_k": 5, "unheard_of": {"x": 1.5}}
    assert b'{"x": 1.50}' in sent.raw
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert answer.json() == {**MESSAGE, "id": f"msg_{answer.headers['x-request-id']}", "model": "claude"}


async def test_request_is_translated_for_an_engine_without_the_caller_api(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = answer_hello
    answer = await client.post("/v1/messages", json={**REQUEST, "model": "scripted"}, headers={"anthropic-beta": "some-2026-01-01"})
    assert answer.json()["content"] == [{"type": "text", "text": "Hello."}] and requested_paths(engine) == ["/v1/chat/completions"]
    assert answer.headers["x-narthex-dropped"] == "anthropic-beta" and "anthropic-beta" not in engine.requests[-1].headers


async def test_anthropic_betas_reach_an_engine_of_the_same_api(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = answer_hello
    answer = await client.post("/v1/messages?beta=true", json={**REQUEST, "model": "claude"}, headers={"anthropic-beta": "a,b"})
    assert (
        answer.status_code == 200 and engine.requests[-1].headers["anthropic-beta"] == "a,b" and "x-narthex-dropped" not in answer.headers
    )


async def test_target_can_be_pinned_to_one_api(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = answer_hello
    for model, path in (("vllm", "/v1/messages"), ("pinned", "/v1/chat/completions")):
        engine.requests.clear()
        assert (await client.post("/v1/messages", json={**REQUEST, "model": model})).status_code == 200
        assert requested_paths(engine) == [path]


async def test_api_that_no_target_supports_is_501(client: httpx2.AsyncClient, engine: ScriptedEngine):
    requests: dict[str, dict[str, Any]] = {
        "/v1/embeddings": {"model": "claude", "input": "x"},
        "/inference/v1/generate": {"model": "claude", "token_ids": [1], "sampling_params": {}},
    }
    for path, body in requests.items():
        refused = await client.post(path, json=body)
        assert refused.status_code == 501 and refused.json()["error"]["type"] == "unsupported", (path, refused.text)
        assert "anthropic" in refused.json()["error"]["message"]
    assert engine.requests == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({**REQUEST, "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages.0.content"),
        ({"messages": REQUEST["messages"]}, "max_tokens"),
        ({**REQUEST, "tools": [{"name": "f", "input_schema": 3}]}, "tools.0"),
    ],
)
async def test_invalid_messages_request_is_refused_in_the_anthropic_envelope(client: httpx2.AsyncClient, body: dict[str, Any], path: str):
    refused = await client.post("/v1/messages", json={**body, "model": "claude"})
    error_body = refused.json()
    assert refused.status_code == 400 and error_body["type"] == "error" and error_body["error"]["type"] == "invalid_request_error", (
        error_body
    )
    assert path in error_body["error"]["message"]


async def test_anthropic_sdk_raises_its_typed_errors(service: Service, engine: ScriptedEngine):
    async def busy(request: ReceivedRequest) -> None:
        await request.respond(429, b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}')

    engine.script = busy
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key=service.key, max_retries=0) as sdk:
        await assert_typed_errors(sdk)


async def assert_typed_errors(sdk: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no model"):
        await sdk.messages.create(model="nothing", **REQUEST)
    with pytest.raises(anthropic.RateLimitError, match="slow down"):
        await sdk.messages.create(model="claude", **REQUEST)
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="nx-000000000000-x").messages.create(model="claude", **REQUEST)
    with pytest.raises(anthropic.NotFoundError):
        await sdk.get("/v1/messages/batches", cast_to=httpx2.Response)
    models = await sdk.models.list()
    assert "claude" in [model.id for model in models.data] and (await sdk.models.retrieve("claude")).type == "model"


async def test_rate_limits_are_reported_in_anthropic_headers_on_messages(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    engine.script = answer_hello
    service.apply('[[limits]]\nname = "of claude"\nscope = { model = "claude" }\nresource = "requests"\namount = 1\nper = "hour"\n')
    try:
        first = await client.post("/v1/messages", json={**REQUEST, "model": "claude"})
        second = await client.post("/v1/messages", json={**REQUEST, "model": "claude"})
    finally:
        service.apply("limits = []\n", "--prune")
    assert first.headers["anthropic-ratelimit-requests-remaining"] == "0" and not [
        name for name in first.headers if name.startswith("x-ratelimit")
    ]
    assert second.status_code == 429 and second.json()["error"]["type"] == "rate_limit_error" and int(second.headers["retry-after"]) > 3000
    assert second.headers["anthropic-ratelimit-requests-limit"] == "1"
    assert second.headers["anthropic-ratelimit-requests-reset"].endswith("Z")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_client_disconnect_is_charged_the_output_that_was_reserved(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, path: str
):
    """Anthropic's streams begin with `output_tokens: 1`, which is not what is charged."""

    async def keep_streaming(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(
            {"type": "message_start", "message": {**MESSAGE, "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}}
        )
        request.send_event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        for _ in range(9):
            request.send_event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "on and "}})
        await request.writer.drain()
        await asyncio.wait_for(request.disconnected.wait(), GENEROUS_S)

    engine.script = keep_streaming
    async with client.stream("POST", path, json={**REQUEST, "model": "claude", "stream": True}) as answer:
        seen, lines = 0, answer.aiter_lines()
        while seen < 9:
            seen += "on and" in await anext(lines)
    record = await service.wait_for_record(answer.headers["x-request-id"])
    assert record["outcome"] == "disconnected" and (record["charged_input"], record["charged_output"]) == (7, REQUEST["max_tokens"])
