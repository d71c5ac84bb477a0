"""vLLM's route for token ids through the gateway, against the sandbox, whose ids are bytes, and an engine that does as it is told."""

import json
from typing import Any

import httpx
import pytest

from app import uuid7
from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import Service

PATH = "/inference/v1/generate"
ASK: dict[str, Any] = {"model": "sandbox", "token_ids": list(b"Hello"), "sampling_params": {"max_tokens": 40, "seed": 1}}
SCRIPTED: dict[str, Any] = {"model": "vllm", "token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 4}}


def frames(answer: httpx.Response) -> list[Any]:
    *events, done = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert done == "[DONE]"
    return [json.loads(event) for event in events]


def chunk(token_ids: list[int], reason: str | None = None) -> dict[str, Any]:
    return {"request_id": "theirs", "usage": None, "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": reason}]}


def streams(engine: ScriptedEngine, *chunks: dict[str, Any]) -> None:
    async def script(asked: Asked) -> None:
        asked.begin_stream()
        for each in chunks:
            asked.frame(each)
        asked.frame(b"[DONE]")
        asked.end_stream()

    engine.script = script


async def test_token_ids_go_in_and_come_out_whole(service: Service, client: httpx.AsyncClient):
    episode = uuid7.mint()
    answer = await client.post(
        PATH, json={**ASK, "sampling_params": {"max_tokens": 40, "n": 2}, "episode_id": episode, "request_id": "mine"}
    )
    told = answer.json()
    assert answer.status_code == 200, told
    assert told["request_id"] == answer.headers["x-narthex-inference-id"] == answer.headers["x-request-id"]
    assert answer.headers["x-narthex-episode-id"] == episode
    assert [len(choice["token_ids"]) for choice in told["choices"]] == [40, 40]
    assert (told["model"], told["usage"]) == ("sandbox", {"prompt_tokens": 5, "completion_tokens": 80, "total_tokens": 85})
    row = await service.recorded(told["request_id"])
    assert (row["route"], row["input_tokens"], row["output_tokens"], row["finish_reason"]) == ("vllm_generate", 5, 80, "length")


@pytest.mark.parametrize("wants", [True, False])
async def test_token_ids_stream_as_they_come_whole(client: httpx.AsyncClient, wants: bool):
    whole = (await client.post(PATH, json=ASK)).json()
    options = {"stream_options": {"include_usage": True}} if wants else {}
    answer = await client.post(PATH, json={**ASK, "stream": True, **options})
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = frames(answer)
    assert [id for each in told for choice in each["choices"] for id in choice["token_ids"]] == whole["choices"][0]["token_ids"]
    assert {each["request_id"] for each in told} == {answer.headers["x-narthex-inference-id"]}
    assert [each["usage"] for each in told if each["usage"]] == ([whole["usage"]] if wants else [])
    assert bool(told[-1]["choices"]) != wants


async def test_an_engine_is_asked_with_the_callers_own_bytes_and_to_tell_usage(client: httpx.AsyncClient, engine: ScriptedEngine):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    streams(engine, chunk([7]), chunk([8], "stop"), {"request_id": "theirs", "choices": [], "usage": usage})
    said: dict[str, Any] = {
        **SCRIPTED,
        "cache_salt": "s",
        "features": {"mm_hashes": {}},
        "priority": 2,
        "tensorzero::tags": {"a": "b"},
        "stream": True,
    }
    told = frames(await client.post(PATH, json=said))
    assert [each["choices"][0]["token_ids"] for each in told] == [[7], [8]]
    assert engine.asked[-1].path == PATH
    del said["tensorzero::tags"]
    assert engine.asked[-1].body == {**said, "model": "engine-model", "stream_options": {"include_usage": True}}


async def test_a_stream_without_usage_is_charged_by_its_ids(service: Service, client: httpx.AsyncClient, engine: ScriptedEngine):
    streams(engine, chunk([7, 8, 9]), chunk([10], "stop"))
    answer = await client.post(PATH, json={**SCRIPTED, "stream": True})
    row = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert (row["charged_input"], row["charged_output"], row["input_tokens"]) == (3, 4, None)


async def test_a_stream_that_breaks_says_so(client: httpx.AsyncClient, engine: ScriptedEngine):
    async def script(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame(chunk([7]))
        asked.end_stream()

    engine.script = script
    answer = await client.post(PATH, json={**SCRIPTED, "stream": True})
    first, last = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert (first["choices"][0]["token_ids"], last["error"]["type"]) == ([7], "backend_error")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({key: value for key, value in ASK.items() if key != "model"}, 400, "model"),
        ({**ASK, "token_ids": []}, 400, "token_ids"),
        ({**ASK, "sampling_params": {"n": 0}}, 400, "sampling_params.n"),
        ({**ASK, "stream_options": {"include_usage": True}}, 400, "stream_options"),
        ({**ASK, "model": "scripted"}, 501, "model"),
        ({**ASK, "model": "no-such-model"}, 404, None),
    ],
    ids=["no model", "no tokens", "no choices", "no stream", "not a vLLM", "unknown"],
)
async def test_errors_name_the_field(client: httpx.AsyncClient, engines: Any, body: Any, status: int, param: str | None):
    refused = await client.post(PATH, json=body)
    assert refused.status_code == status, refused.text
    error = refused.json()["error"]
    assert error["message"]
    assert param is None or error["param"] == param
