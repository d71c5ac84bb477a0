"""Which API an engine is asked in, and what callers of each are told when something is wrong."""

import asyncio
import json
from typing import Any

import anthropic
import httpx
import pytest

from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import Service

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
ASKED: dict[str, Any] = {"max_tokens": 20, "messages": [{"role": "user", "content": "Hi"}]}


async def says_hello(asked: Asked) -> None:
    await asked.answer(200, json.dumps(MESSAGE).encode()) if asked.path.endswith("/messages") else await asked.whole()


def paths(engine: ScriptedEngine) -> list[str]:
    return [asked.path for asked in engine.asked if asked.path != "/version"]


async def test_an_engine_is_asked_in_the_callers_own_api_if_it_speaks_it(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = says_hello
    raw = json.dumps({**ASKED, "model": "claude", "top_k": 5, "unheard_of": {"x": 0}}).replace('"x": 0', '"x": 1.50')
    answer = await client.post("/v1/messages", content=raw)
    assert answer.status_code == 200, answer.text
    sent = next(asked for asked in engine.asked if asked.path == "/v1/messages")
    assert sent.body == {**ASKED, "model": "engine-model", "top_k": 5, "unheard_of": {"x": 1.5}}
    assert b'{"x": 1.50}' in sent.raw
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert answer.json() == {**MESSAGE, "id": f"msg_{answer.headers['x-request-id']}", "model": "claude"}


async def test_an_engine_that_does_not_is_asked_in_its_own(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = says_hello
    answer = await client.post("/v1/messages", json={**ASKED, "model": "scripted"}, headers={"anthropic-beta": "some-2026-01-01"})
    assert answer.json()["content"] == [{"type": "text", "text": "Hello."}] and paths(engine) == ["/v1/chat/completions"]
    assert answer.headers["x-narthex-dropped"] == "anthropic-beta" and "anthropic-beta" not in engine.asked[-1].headers


async def test_betas_reach_an_engine_of_the_same_api(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = says_hello
    answer = await client.post("/v1/messages?beta=true", json={**ASKED, "model": "claude"}, headers={"anthropic-beta": "a,b"})
    assert answer.status_code == 200 and engine.asked[-1].headers["anthropic-beta"] == "a,b" and "x-narthex-dropped" not in answer.headers


async def test_a_target_can_be_pinned_to_one_api(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = says_hello
    for model, path in (("vllm", "/v1/messages"), ("pinned", "/v1/chat/completions")):
        engine.asked.clear()
        assert (await client.post("/v1/messages", json={**ASKED, "model": model})).status_code == 200
        assert paths(engine) == [path]


async def test_an_api_that_no_target_has_is_not_offered(client: httpx.AsyncClient, engine: ScriptedEngine):
    asked: dict[str, dict[str, Any]] = {
        "/v1/embeddings": {"model": "claude", "input": "x"},
        "/v1/completions": {"model": "claude", "prompt": "x"},
        "/inference/v1/generate": {"model": "claude", "token_ids": [1], "sampling_params": {}},
        "/v1/chat/completions": {"model": "claude", "prompt": "x"},
    }
    for path, body in asked.items():
        refused = await client.post(path, json=body)
        assert refused.status_code == 501 and refused.json()["error"]["type"] == "unsupported", (path, refused.text)
        assert "anthropic" in refused.json()["error"]["message"]
    assert engine.asked == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({**ASKED, "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages.0.content"),
        ({"messages": ASKED["messages"]}, "max_tokens"),
        ({**ASKED, "tools": [{"name": "f", "input_schema": 3}]}, "tools.0"),
    ],
)
async def test_anthropics_clients_are_told_in_their_shape(client: httpx.AsyncClient, body: dict[str, Any], path: str):
    refused = await client.post("/v1/messages", json={**body, "model": "claude"})
    told = refused.json()
    assert refused.status_code == 400 and told["type"] == "error" and told["error"]["type"] == "invalid_request_error", told
    assert path in told["error"]["message"]


async def test_anthropics_sdk_raises_its_own_errors(service: Service, engine: ScriptedEngine):
    async def busy(asked: Asked) -> None:
        await asked.answer(429, b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}')

    engine.script = busy
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key=service.key, max_retries=0) as sdk:
        await raises(sdk)


async def raises(sdk: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no model"):
        await sdk.messages.create(model="nothing", **ASKED)
    with pytest.raises(anthropic.RateLimitError, match="slow down"):
        await sdk.messages.create(model="claude", **ASKED)
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="nx-000000000000-x").messages.create(model="claude", **ASKED)
    with pytest.raises(anthropic.NotFoundError):
        await sdk.get("/v1/messages/batches", cast_to=httpx.Response)
    models = await sdk.models.list()
    assert "claude" in [model.id for model in models.data] and (await sdk.models.retrieve("claude")).type == "model"


async def test_limits_are_told_in_anthropics_words_on_its_routes(service: Service, client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = says_hello
    service.apply('[[limits]]\nname = "of claude"\nscope = { model = "claude" }\nresource = "requests"\namount = 1\nper = "hour"\n')
    try:
        first = await client.post("/v1/messages", json={**ASKED, "model": "claude"})
        second = await client.post("/v1/messages", json={**ASKED, "model": "claude"})
    finally:
        service.apply("limits = []\n", "--prune")
    assert first.headers["anthropic-ratelimit-requests-remaining"] == "0" and not [
        name for name in first.headers if name.startswith("x-ratelimit")
    ]
    assert second.status_code == 429 and second.json()["error"]["type"] == "rate_limit_error" and int(second.headers["retry-after"]) > 3000
    assert second.headers["anthropic-ratelimit-requests-limit"] == "1"
    assert second.headers["anthropic-ratelimit-requests-reset"].endswith("Z")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_who_hangs_up_pays_for_what_was_written_though_the_engine_had_counted_one(
    service: Service, client: httpx.AsyncClient, engine: ScriptedEngine, path: str
):
    """Anthropic's streams begin with `output_tokens: 1`."""

    async def on_and_on(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame({"type": "message_start", "message": {**MESSAGE, "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}})
        asked.frame({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        for _ in range(9):
            asked.frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "on and "}})
        await asked.writer.drain()
        await asyncio.wait_for(asked.left.wait(), 5)

    engine.script = on_and_on
    async with client.stream("POST", path, json={**ASKED, "model": "claude", "stream": True}) as answer:
        seen, lines = 0, answer.aiter_lines()
        while seen < 9:
            seen += "on and" in await anext(lines)
    row = await service.recorded(answer.headers["x-request-id"])
    assert row["outcome"] == "hung_up" and row["charged_input"] == 7 and row["charged_output"] >= 9
