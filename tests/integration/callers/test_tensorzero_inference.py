"""TensorZero's native API over HTTP, with the sandbox and with scripted engines of several dialects."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, stream_script

HI: Any = {"messages": [{"role": "user", "content": "Hello!"}]}
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
# What the client 2026.6.0 sends beside the input if nothing is set.
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("function_name", "episode_id", "namespace", "stream", "variant_name", "dryrun", "output_schema"), None),
    **dict.fromkeys(("include_original_response", "include_raw_response", "include_raw_usage", "include_aggregated_response"), False),
    **{"params": {"chat_completion": dict[str, Any]()}, "internal": False, "tags": {}, "provider_tools": list[Any](), "credentials": {}},
    **{"cache_options": {"max_age_s": None, "enabled": "off"}, "extra_body": [], "extra_headers": []},
    "internal_dynamic_variant_config": None,
}


async def _infer(client: httpx2.AsyncClient, model: str = "scripted", **fields: Any) -> httpx2.Response:
    return await client.post("/inference", json={"model_name": model, "input": HI, **fields})


def _frames(body: bytes) -> list[Any]:
    data = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert data[-1] == "[DONE]"
    return [json.loads(each) for each in data[:-1]]


async def test_inference_has_content_blocks_usage_and_ids(client: httpx2.AsyncClient, engine: ScriptedEngine):
    response = await _infer(client, **DEFAULTS)
    body = response.json()
    assert response.status_code == 200, body
    assert (body["content"], body["finish_reason"]) == ([{"type": "text", "text": "Hello."}], "stop")
    assert body["usage"] == {"input_tokens": 3, "output_tokens": 2, "cost": None}
    assert body["variant_name"] == "scripted"
    assert uuid7.is_uuid7(body["inference_id"]) and uuid7.is_uuid7(body["episode_id"])
    assert body["inference_id"] == response.headers["x-narthex-inference-id"]
    assert body["episode_id"] == response.headers["x-narthex-episode-id"]
    assert engine.requests[0].body["messages"] == [{"role": "user", "content": "Hello!"}]


async def test_parameters_and_system_reach_the_engine(client: httpx2.AsyncClient, engine: ScriptedEngine):
    chat = {
        **{"temperature": 0.5, "max_tokens": 7, "seed": 1, "top_p": 0.25, "presence_penalty": 0.1, "frequency_penalty": 0.2},
        **{"stop_sequences": ["x"], "reasoning_effort": "low"},
    }
    await _infer(client, input={"system": "Be brief.", **HI}, params={"chat_completion": chat})
    sent = engine.requests[0].body
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert {key: sent[key] for key in ("temperature", "seed", "top_p", "presence_penalty", "frequency_penalty", "reasoning_effort")} == {
        **{"temperature": 0.5, "seed": 1, "top_p": 0.25, "presence_penalty": 0.1, "frequency_penalty": 0.2, "reasoning_effort": "low"}
    }
    assert sent["stop"] == ["x"] and 7 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


async def test_stream_has_chunks_with_usage_at_the_end(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO)
    response = await _infer(client, stream=True)
    frames = _frames(response.content)
    assert [frame["content"] for frame in frames] == [
        [{"type": "text", "id": "0", "text": "Hel"}],
        [{"type": "text", "id": "0", "text": "lo."}],
        [],
    ]
    assert {frame["inference_id"] for frame in frames} == {response.headers["x-narthex-inference-id"]}
    assert (frames[-1]["usage"], frames[-1]["finish_reason"]) == ({"input_tokens": 3, "output_tokens": 2, "cost": None}, "stop")
    assert all("usage" not in frame for frame in frames[:-1])


async def test_tool_calls_go_and_come_back_in_the_next_turn(client: httpx2.AsyncClient, engine: ScriptedEngine):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}

    async def script(request: ReceivedRequest) -> None:
        await request.respond_completion(None, tool_calls=[call])  # pyright: ignore[reportArgumentType]

    engine.script = script
    first = (await _infer(client, additional_tools=[WEATHER], tool_choice={"specific": "get_weather"})).json()
    sent = engine.requests[0].body
    assert sent["tools"][0]["function"]["name"] == "get_weather"
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert first["finish_reason"] == "tool_call"
    assert first["content"] == [
        {
            **{"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": {"city": "Rome"}},
            **{"raw_name": "get_weather", "raw_arguments": '{"city": "Rome"}'},
        }
    ]
    engine.script = ReceivedRequest.respond_completion
    result = {"type": "tool_result", "id": "call_1", "name": "get_weather", "result": "Sunny"}
    messages = [*HI["messages"], {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    await _infer(client, input={"messages": messages}, additional_tools=[WEATHER])
    assert engine.requests[1].body["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
    ] or engine.requests[1].body["messages"][1]["tool_calls"] == [call]


async def test_streamed_tool_call_has_its_name_once(client: httpx2.AsyncClient, engine: ScriptedEngine):
    def delta(arguments: str, **more: Any) -> dict[str, Any]:
        return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments, **more.pop("function", {})}, **more}]})

    engine.script = stream_script(
        delta("", id="call_1", type="function", function={"name": "get_weather"}),
        delta('{"city":'),
        delta('"Rome"}'),
        chunk({}, "tool_calls"),
    )
    frames = _frames((await _infer(client, additional_tools=[WEATHER], stream=True)).content)
    calls = [frame["content"][0] for frame in frames if frame["content"]]
    assert [each["raw_name"] for each in calls] == ["get_weather", "", ""]
    assert "".join(each["raw_arguments"] for each in calls) == '{"city":"Rome"}' and {each["id"] for each in calls} == {"call_1"}
    assert frames[-1]["finish_reason"] == "tool_call"


@pytest.mark.parametrize("model", ["scripted", "claude", "responses", "vllm"])
async def test_files_reach_engines_of_every_dialect(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "file", "file_type": "base64", "source_url": None, "mime_type": None, "data": "iVBORw0KGgoAAAA="},
    ]
    response = await _infer(client, model, input={"messages": [{"role": "user", "content": content}]})
    assert engine.requests, response.json()
    assert b"iVBORw0KGgoAAAA=" in engine.requests[0].raw and b"image/png" in engine.requests[0].raw


async def test_output_schema_makes_a_json_response(client: httpx2.AsyncClient):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    whole = (await _infer(client, "sandbox", output_schema=schema, params={"chat_completion": {"json_mode": "strict"}})).json()
    assert set(whole["output"]) == {"raw", "parsed"} and json.loads(whole["output"]["raw"]) == whole["output"]["parsed"]
    assert set(whole["output"]["parsed"]) == {"city"} and "content" not in whole
    frames = _frames((await _infer(client, "sandbox", output_schema=schema, stream=True)).content)
    assert set(json.loads("".join(frame["raw"] for frame in frames))) == {"city"}


async def test_episode_and_tags_are_recorded(client: httpx2.AsyncClient, engine: ScriptedEngine):
    first = (await _infer(client)).json()
    second = (await _infer(client, episode_id=first["episode_id"], tags={"tz-tag": "yes"}, namespace="eu")).json()
    assert second["episode_id"] == first["episode_id"]
    record = await _record(client, second["inference_id"])
    assert record["tags"] == {"tz-tag": "yes", "tensorzero::namespace": "eu"} and record["episode_id"] == first["episode_id"]


async def _record(client: httpx2.AsyncClient, id: str) -> Any:
    for _ in range(200):
        response = await client.get(f"/v1/inferences/{id}")
        if response.status_code == 200:
            return response.json()
        await asyncio.sleep(0.05)
    raise AssertionError("the inference is not recorded")


WRONG: list[Any] = [
    ({"input": {"messages": []}}, 400, "input.messages"),
    ({"function_name": "f"}, 400, "function_name"),
    ({"model_name": None}, 400, "model_name"),
    ({"model_name": "no-such-model"}, 404, "no-such-model"),
    ({"temperature": 0.5}, 400, "temperature"),
    ({"params": {"chat_completion": {"top_k": 5}}}, 400, "top_k"),
    ({"variant_name": "v"}, 400, "variant_name"),
    ({"tags": {"tensorzero::x": "y"}}, 400, "tags"),
    ({"input": {"system": {"name": "x"}, **HI}}, 400, "input.system"),
    ({"input": {"messages": [{"role": "user", "content": [{"type": "template", "name": "t", "arguments": {}}]}]}}, 400, "template"),
    ({"input": {"messages": [{"role": "system", "content": "x"}]}}, 400, "role"),
    ({"input": {"messages": [{"role": "assistant", "content": [{"type": "tool_result", "id": "1", "result": ""}]}]}}, 400, "user"),
    ({"additional_tools": [WEATHER], "allowed_tools": ["other"]}, 400, "allowed_tools"),
    ({"output_schema": {"type": "object"}, "additional_tools": [WEATHER]}, 400, "additional_tools"),
    ({"output_schema": {"type": "nonsense"}}, 400, "output_schema"),
    ({"dryrun": True}, 422, "dryrun"),
    ({"include_raw_response": True}, 422, "include_raw_response"),
    ({"include_raw_usage": True}, 422, "include_raw_usage"),
    ({"internal_dynamic_variant_config": {"type": "chat_completion"}}, 422, "internal_dynamic_variant_config"),
]


@pytest.mark.parametrize(("fields", "status", "named"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
async def test_wrong_request_gets_a_message_that_names_what_is_wrong(client: httpx2.AsyncClient, fields: Any, status: int, named: str):
    response = await _infer(client, **fields)
    body = response.json()
    assert response.status_code == status, body
    assert isinstance(body["error"], str) and named in body["error"]
    assert body["error_json"]["message"] == body["error"]


@pytest.mark.parametrize("field", ["model_name", "function_name"])
async def test_unknown_name_is_reported_at_its_own_field(client: httpx2.AsyncClient, field: str):
    response = await client.post("/inference", json={field: "no-such", "input": HI})
    assert (response.status_code, response.json()["error_json"]["param"]) == (404, field)
    assert "'no-such'" in response.json()["error"]


async def test_engine_that_breaks_off_ends_the_stream_with_an_error(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(HELLO[1])
        await request.writer.drain()
        request.reset_connection()

    engine.script = script
    lines = [line for line in (await _infer(client, stream=True)).text.split("\n\n") if line]
    assert json.loads(lines[0].removeprefix("data: "))["content"][0]["text"] == "Hel"
    assert isinstance(json.loads(lines[-1].removeprefix("data: "))["error"], str)


async def test_paths_below_openai_are_those_of_openai(client: httpx2.AsyncClient):
    chat = {"model": "tensorzero::model_name::sandbox", "messages": HI["messages"]}
    assert (await client.post("/openai/v1/chat/completions", json=chat)).json()["object"] == "chat.completion"
    embeddings = await client.post("/openai/v1/embeddings", json={"model": "sandbox-embed", "input": "x"})
    assert embeddings.json()["object"] == "list"


async def test_health_and_status_need_no_key(service: Service):
    async with httpx2.AsyncClient(base_url=service.url) as anyone:
        health, status = await anyone.get("/health"), await anyone.get("/status")
        assert (health.status_code, health.json()) == (200, {"gateway": "ok", "postgres": "ok", "valkey": "ok"})
        assert status.json()["status"] == "ok" and status.json()["version"] and status.json()["config_hash"]
        refused = await anyone.post("/inference", json={"model_name": "sandbox", "input": HI})
        assert refused.status_code == 401 and isinstance(refused.json()["error"], str)
        unknown = await anyone.post("/batch_inference", json={})
        assert unknown.status_code == 404 and isinstance(unknown.json()["error"], str)
