"""A host that says which model answered: callers learn it, and the record and the cost are of that model."""

import json
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion

CHAT = "/v1/chat/completions"
USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
PRICES = """
[providers.rerouting]
adapter = "openai"
base_url = "http://127.0.0.1:PORT"

[models.rerouted]
targets = [{ provider = "rerouting", model = "cheap" }]

[[prices]]
provider = "rerouting"
model = "cheap"
input = 1.0
output = 1.0

[[prices]]
provider = "rerouting"
model = "dear"
input = 10.0
output = 10.0
"""


def answers_as(model: str) -> Any:
    async def script(request: ReceivedRequest) -> None:
        if not request.body.get("stream"):
            await request.respond(200, json.dumps({**completion("Hello."), "model": model, "usage": USAGE}).encode())
            return
        request.begin_stream()
        for each in (chunk({"content": "Hello."}), chunk({}, "stop"), chunk(usage=USAGE)):
            request.send_event({**each, "model": model})
        request.send_event(b"[DONE]")
        request.end_stream()

    return script


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_host_that_answers_with_another_model_is_reported_recorded_and_priced_as_that(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool
):
    service.apply(PRICES.replace("PORT", str(engine.port)))
    for name, cost in (("cheap", 1_000_000), ("cheap-2026-01-01", 1_000_000), ("dear", 10_000_000)):
        engine.script = answers_as(name)
        reported = None if name == "cheap" else name
        body = {"model": "rerouted", "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
        headers = {"idempotency-key": uuid7.mint()}
        for is_replay in (False, True):
            answer = await client.post(CHAT, json=body, headers=headers)
            assert answer.status_code == 200 and ("x-narthex-replayed" in answer.headers) == is_replay, answer.text
            assert answer.headers["x-narthex-served"] == "rerouting/cheap"
            assert answer.headers.get("x-narthex-reported-model") == reported
            assert "rerouted" in answer.text and '"dear"' not in answer.text
        record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
        assert (record["served_model"], record["reported_model"], record["cost_microusd"]) == ("cheap", reported, cost)


async def test_response_that_nobody_gets_is_priced_as_the_model_that_wrote_it(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    """It violates its constraint, which the gateway checks: no grammar of an engine is known to enforce `minProperties`."""
    service.apply(PRICES.replace("PORT", str(engine.port)).replace('"openai"', '"vllm"'))
    schema = {"type": "object", "minProperties": 1}
    constraint = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    body = {"model": "rerouted", "messages": [{"role": "user", "content": "Hi"}], "response_format": constraint}
    for name, cost in (("cheap", 1_000_000), ("dear", 10_000_000)):
        engine.script = answers_as(name)
        answer = await client.post(CHAT, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "constraint_violation"), answer.text
        record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
        assert (record["charged_input"], record["cost_microusd"]) == (1_000_000, cost)
