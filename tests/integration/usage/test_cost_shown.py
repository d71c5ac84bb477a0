"""Callers see what a request cost in every dialect, whole and streamed, and records keep by which price."""

import json
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.integration.keys.test_caller_records import wait_for_own_record
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion

# 1,000 input tokens, of which 400 are cached, and 10 of output: 600 * 2 + 400 * 0.5 + 10 * 8 millionths of a dollar.
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "prompt_tokens_details": {"cached_tokens": 400}}
COST, COST_USD = 1480, "0.001480"
CONFIGURATION = """
[providers.priced]
adapter = "ADAPTER"
base_url = "http://127.0.0.1:PORT"

[models.priced]
targets = [{ provider = "priced", model = "vendor/one" }]

[models.unpriced]
targets = [{ provider = "priced", model = "two" }]

[[prices]]
provider = "priced"
model = "vendor/one"
input = 2.0
output = 8.0
cached_input = 0.5
since = "2020-02-01"
"""
PRICE = "priced/vendor%2Fone/2020-02-01"
HI = [{"role": "user", "content": "Hi"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI, "max_tokens": 50},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 50, "store": False},
    "/v1/messages": {"messages": HI, "max_tokens": 50},
}


def answers_with(usage: dict[str, Any]) -> Any:
    async def script(request: ReceivedRequest) -> None:
        if not request.body.get("stream"):
            await request.respond(200, json.dumps({**completion("Hello."), "model": request.body["model"], "usage": usage}).encode())
            return
        request.begin_stream()
        for each in (chunk({"content": "Hello."}), chunk({}, "stop"), chunk(usage=usage)):
            request.send_event({**each, "model": request.body["model"]})
        request.send_event(b"[DONE]")
        request.end_stream()

    return script


def apply(service: Service, engine: ScriptedEngine, adapter: str = "openai") -> None:
    service.apply(CONFIGURATION.replace("PORT", str(engine.port)).replace("ADAPTER", adapter))


def usages(text: str) -> list[Any]:
    """Returns every usage of a stream, in order."""
    events: list[Any] = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    found: list[Any] = [event["response"].get("usage") if "response" in event else event.get("usage") for event in events]
    return [usage for usage in found if usage]


@pytest.mark.parametrize("route", ROUTES)
async def test_cost_is_shown_to_whoever_made_the_call(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, route: str):
    apply(service, engine)
    engine.script = answers_with(USAGE)
    headers = {"idempotency-key": uuid7.mint()}
    whole = await client.post(route, json={"model": "priced", **ROUTES[route]}, headers=headers)
    assert whole.status_code == 200, whole.text
    assert whole.headers["x-narthex-cost-usd"] == COST_USD
    replayed = await client.post(route, json={"model": "priced", **ROUTES[route]}, headers=headers)
    assert "x-narthex-replayed" in replayed.headers and "x-narthex-cost-usd" not in replayed.headers

    streamed = await client.post(route, json={"model": "priced", "stream": True, **ROUTES[route]}, headers={"x-narthex-cost": "true"})
    assert streamed.status_code == 200 and "x-narthex-cost-usd" not in streamed.headers
    assert usages(streamed.text)[-1]["narthex_cost_usd"] == float(COST_USD), streamed.text
    plain = await client.post(route, json={"model": "priced", "stream": True, **ROUTES[route]})
    assert "narthex_cost_usd" not in plain.text

    for answer in (whole, streamed, plain):
        id = answer.headers["x-narthex-inference-id"]
        own = await wait_for_own_record(client, id)
        assert (own["cost_microusd"], own["price"], own["charge_basis"], own["cost_estimated"]) == (COST, PRICE, "reported", False)
        assert own["host_cost_microusd"] is None
        record = await service.wait_for_record(id)
        assert (record["price"], record["charges"]) == (PRICE, None)
        assert 0 < record["served_us"] <= record["duration_us"]
        if answer is streamed:
            assert "narthex_cost_usd" in own["content"]["response"], "what was sent is what is recorded"


@pytest.mark.parametrize("route", ROUTES)
async def test_unknown_cost_is_absent_or_null_and_never_0(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, route: str):
    apply(service, engine)
    engine.script = answers_with(USAGE)
    whole = await client.post(route, json={"model": "unpriced", **ROUTES[route]})
    assert whole.status_code == 200 and "x-narthex-cost-usd" not in whole.headers
    streamed = await client.post(route, json={"model": "unpriced", "stream": True, **ROUTES[route]}, headers={"x-narthex-cost": "true"})
    assert usages(streamed.text)[-1]["narthex_cost_usd"] is None
    own = await wait_for_own_record(client, whole.headers["x-narthex-inference-id"])
    assert (own["cost_microusd"], own["price"]) == (None, None)


async def test_embeddings_and_completions_show_their_cost(service: Service, client: httpx2.AsyncClient):
    service.apply('[[prices]]\nprovider = "sandbox"\nmodel = "sandbox-embed"\ninput = 1000.0\noutput = 0\n')
    embedded = await client.post("/v1/embeddings", json={"model": "sandbox-embed", "input": "Hello there"})
    tokens = embedded.json()["usage"]["prompt_tokens"]
    assert embedded.headers["x-narthex-cost-usd"] == f"{tokens * 1000 / 1e6:.6f}" and tokens > 0


async def test_malformed_wish_for_the_cost_is_refused(client: httpx2.AsyncClient):
    body = {"model": "sandbox", "stream": True, **ROUTES["/v1/chat/completions"]}
    refused = await client.post("/v1/chat/completions", json=body, headers={"x-narthex-cost": "yes"})
    assert refused.status_code == 400 and "x-narthex-cost" in refused.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_cost_that_the_host_reports_is_kept_beside_ours(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool
):
    apply(service, engine, "openrouter")
    engine.script = answers_with({**USAGE, "cost": 0.001234, "is_byok": False})
    answer = await client.post("/v1/chat/completions", json={"model": "priced", "stream": stream, **ROUTES["/v1/chat/completions"]})
    assert answer.status_code == 200, answer.text
    own = await wait_for_own_record(client, answer.headers["x-narthex-inference-id"])
    assert (own["cost_microusd"], own["host_cost_microusd"]) == (COST, 1234)


async def test_estimated_cost_is_marked_and_has_its_charges(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    apply(service, engine)

    async def without_usage(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps({**completion("Hello."), "usage": None}).encode())

    engine.script = without_usage
    answer = await client.post("/v1/chat/completions", json={"model": "priced", **ROUTES["/v1/chat/completions"]})
    own = await wait_for_own_record(client, answer.headers["x-narthex-inference-id"])
    assert (own["charge_basis"], own["cost_estimated"]) == ("received", True) and own["cost_microusd"] > 0
    record = await service.wait_for_record(own["id"])
    (charge,) = record["charges"]
    assert (charge["provider"], charge["model"], charge["price"], charge["basis"]) == ("priced", "vendor/one", PRICE, "received")
    assert charge["usage"] == {"input": record["charged_input"], "output": record["charged_output"], "estimated": False}
    assert charge["cost_microusd"] == record["cost_microusd"] and charge["duration_us"] > 0


async def test_response_that_nobody_gets_is_in_the_cost_of_the_error(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    """The engine violates a constraint at both of two attempts."""
    apply(service, engine, "vllm")
    engine.script = answers_with(USAGE)
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "minProperties": 1}}}
    body = {"model": "priced", "messages": HI, "response_format": schema}
    answer = await client.post("/v1/chat/completions", json=body, headers={"x-narthex-guided-retries": "1"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "constraint_violation"), answer.text
    assert answer.headers["x-narthex-cost-usd"] == f"{2 * COST / 1e6:.6f}"
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["cost_microusd"], record["price"]) == (2 * COST, PRICE)
    assert [(charge["cost_microusd"], charge["usage"]["cached"]) for charge in record["charges"]] == [(COST, 400)] * 2


async def test_caller_who_leaves_has_an_estimated_cost_with_what_is_known_of_it(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    """The charge includes what the engine reported before its end, though the record's usage is unknown."""
    apply(service, engine)

    async def endless(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event({**chunk({"content": "Hello."}), "usage": {**USAGE, "completion_tokens": 1}})
        await request.disconnected.wait()

    engine.script = endless
    async with client.stream("POST", "/v1/chat/completions", json={"model": "priced", "messages": HI, "stream": True}) as answer:
        id = answer.headers["x-narthex-inference-id"]
        await anext(answer.aiter_bytes())
    record = await service.wait_for_record(id)
    assert (record["outcome"], record["input_tokens"], record["price"]) == ("disconnected", None, PRICE)
    (charge,) = record["charges"]
    assert charge["basis"] == record["charge_basis"] != "reported" and charge["usage"]["cached"] == 400
    assert charge["cost_microusd"] == record["cost_microusd"] == 600 * 2 + 200 + charge["usage"]["output"] * 8
