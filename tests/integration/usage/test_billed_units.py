"""Cohere bills other tokens than it processes: callers, limits and records have those it processed, the cost is of those it bills."""

import json
from typing import Any

import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, Script, ScriptedEngine, stream_script

# 04-tool-stream of Cohere's recordings.
USAGE = {
    "billed_units": {"input_tokens": 84, "output_tokens": 314},
    "cached_tokens": 1008,
    "tokens": {"input_tokens": 1501, "output_tokens": 346, "reasoning_tokens": 304},
}
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message-start", "id": "x", "delta": {"message": {"role": "assistant", "content": []}}},
    {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
    {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hello."}}}},
    {"type": "content-end", "index": 0},
    {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": USAGE}},
)
EXPECTED_USAGE = {
    "prompt_tokens": 1501,
    "completion_tokens": 346,
    "total_tokens": 1847,
    "prompt_tokens_details": {"cached_tokens": 1008},
    "completion_tokens_details": {"reasoning_tokens": 304},
}


@pytest.fixture(scope="session")
def cohere_model(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> str:
    service.apply(f"""
        [providers]
        cohere = {{ adapter = "cohere", base_url = "http://127.0.0.1:{engines[0].port}" }}
        [models]
        command = {{ targets = [{{ provider = "cohere", model = "command-a" }}] }}
        [[prices]]
        provider = "cohere"
        model = "command-a"
        input = 2.5
        cached_input = 0.5
        output = 10
    """)
    return "command"


async def respond_whole(request: ReceivedRequest) -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    await request.respond(200, json.dumps({"id": "x", "message": message, "finish_reason": "COMPLETE", "usage": USAGE}).encode())


@pytest.mark.parametrize(("stream", "script"), [(False, respond_whole), (True, stream_script(*EVENTS))], ids=["whole", "stream"])
async def test_callers_and_limits_see_processed_tokens_and_the_cost_is_of_billed_ones(
    service: Service, engine: ScriptedEngine, cohere_model: str, stream: bool, script: Script
):
    engine.script = script
    body = {"model": cohere_model, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    async with service.client() as client:
        answer = await client.post("/v1/chat/completions", json={**body, "stream_options": {"include_usage": True}} if stream else body)
    if stream:
        frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        (usage,) = [frame["usage"] for frame in frames if frame.get("usage")]
    else:
        usage = answer.json()["usage"]
    assert usage == EXPECTED_USAGE
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"], row["reasoning_tokens"]) == (1501, 346, 1008, 304)
    assert (row["charged_input"], row["charged_output"], row["charge_basis"]) == (1501, 346, "reported")
    assert row["usage_details"] == {"billed_input": 84, "billed_output": 314}
    assert row["cost_microusd"] == 84 * 2.5 + 314 * 10
