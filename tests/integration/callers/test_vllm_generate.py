"""vLLM's route for token ids, with the sandbox, whose ids are bytes, and with a scripted engine."""

import json
import re
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

PATH = "/inference/v1/generate"
REQUEST: dict[str, Any] = {"model": "sandbox", "token_ids": list(b"Hello"), "sampling_params": {"max_tokens": 40, "seed": 1}}
SCRIPTED: dict[str, Any] = {"model": "vllm", "token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 4}}


def stream_events(answer: httpx2.Response) -> list[Any]:
    *events, done = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(event) for event in events]


def chunk(token_ids: list[int], reason: str | None = None) -> dict[str, Any]:
    return {"request_id": "of-the-engine", "usage": None, "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": reason}]}


def set_stream(engine: ScriptedEngine, *chunks: dict[str, Any]) -> None:
    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        for each in chunks:
            request.send_event(each)
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script = script


async def test_generate_returns_token_ids_usage_and_recorded_ids(service: Service, client: httpx2.AsyncClient):
    episode = uuid7.mint()
    answer = await client.post(
        PATH, json={**REQUEST, "sampling_params": {"max_tokens": 40, "n": 2}, "episode_id": episode, "request_id": "mine"}
    )
    body = answer.json()
    assert answer.status_code == 200, body
    assert body["request_id"] == answer.headers["x-narthex-inference-id"] == answer.headers["x-request-id"]
    assert answer.headers["x-narthex-episode-id"] == episode
    assert [len(choice["token_ids"]) for choice in body["choices"]] == [40, 40]
    assert (body["model"], body["usage"]) == ("sandbox", {"prompt_tokens": 5, "completion_tokens": 80, "total_tokens": 85})
    row = await service.wait_for_record(body["request_id"])
    assert (row["route"], row["input_tokens"], row["output_tokens"], row["finish_reason"]) == ("vllm_generate", 5, 80, "length")


@pytest.mark.parametrize("include_usage", [True, False])
async def test_streamed_token_ids_equal_the_whole_response(client: httpx2.AsyncClient, include_usage: bool):
    whole = (await client.post(PATH, json=REQUEST)).json()
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    answer = await client.post(PATH, json={**REQUEST, "stream": True, **options})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = stream_events(answer)
    assert [id for each in events for choice in each["choices"] for id in choice["token_ids"]] == whole["choices"][0]["token_ids"]
    assert {each["request_id"] for each in events} == {answer.headers["x-narthex-inference-id"]}
    assert [each["usage"] for each in events if each["usage"]] == ([whole["usage"]] if include_usage else [])
    assert bool(events[-1]["choices"]) != include_usage


async def test_request_fields_are_forwarded_unchanged_with_usage_requested(client: httpx2.AsyncClient, engine: ScriptedEngine):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    set_stream(engine, chunk([7]), chunk([8], "stop"), {"request_id": "of-the-engine", "choices": [], "usage": usage})
    body: dict[str, Any] = {
        **SCRIPTED,
        "features": {"mm_hashes": {}},
        "priority": 0,
        "return_token_ids": True,
        "tensorzero::tags": {"a": "b"},
        "stream": True,
    }
    events = stream_events(await client.post(PATH, json=body))
    assert [each["choices"][0]["token_ids"] for each in events] == [[7], [8]]
    assert engine.requests[-1].path == PATH
    del body["tensorzero::tags"]
    salt = engine.requests[-1].body.pop("cache_salt")
    assert re.fullmatch("[0-9a-f]{32}", salt)
    assert engine.requests[-1].body == {**body, "model": "engine-model", "stream_options": {"include_usage": True}}


async def test_each_team_has_a_prefix_cache_of_its_own(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    def salts() -> list[str]:
        return [each.body["cache_salt"] for each in engine.requests]

    keys = [service.run("keys", "create", "--team", team, "--quiet").stdout.strip() for team in ("one", "two", "one")]
    set_stream(engine, chunk([7]), chunk([8], "stop"))
    for key in keys:
        answer = await client.post(PATH, json={**SCRIPTED, "stream": True}, headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
    first, second, third = salts()[-3:]
    assert first == third != second and "one" not in first


async def test_stream_without_usage_is_charged_by_its_token_ids(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    set_stream(engine, chunk([7, 8, 9]), chunk([10], "stop"))
    answer = await client.post(PATH, json={**SCRIPTED, "stream": True})
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["charged_input"], row["charged_output"], row["input_tokens"]) == (3, 4, None)


async def test_broken_stream_ends_with_an_error_event(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk([7]))
        request.end_stream()

    engine.script = script
    answer = await client.post(PATH, json={**SCRIPTED, "stream": True})
    first, last = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert (first["choices"][0]["token_ids"], last["error"]["type"]) == ([7], "backend_error")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({key: value for key, value in REQUEST.items() if key != "model"}, 400, "model"),
        ({**REQUEST, "token_ids": []}, 400, "token_ids"),
        ({**REQUEST, "sampling_params": {"n": 0}}, 400, "sampling_params.n"),
        ({**REQUEST, "stream_options": {"include_usage": True}}, 400, "stream_options"),
        ({**REQUEST, "model": "scripted"}, 501, "model"),
        ({**REQUEST, "model": "no-such-model"}, 404, None),
    ],
    ids=["no model", "no tokens", "no choices", "no stream", "not a vLLM", "unknown"],
)
async def test_invalid_generate_request_error_names_the_field(
    client: httpx2.AsyncClient, engines: Any, body: Any, status: int, param: str | None
):
    refused = await client.post(PATH, json=body)
    assert refused.status_code == status, refused.text
    error = refused.json()["error"]
    assert error["message"]
    assert param is None or error["param"] == param
