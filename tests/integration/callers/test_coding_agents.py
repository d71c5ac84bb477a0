"""Coding agents beyond their APIs: their sessions stay with an account, and the contract of Claude Code with gateways holds."""

import itertools
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

SESSION = {"x-claude-code-session-id": "3f0c8a52-7c53-4b1e-9f1c-2f6f0f6d5f2a"}
HI: list[Any] = [{"role": "user", "content": "Hello"}]
# As Claude Code 2.1.332 sends it with its default model, shortened.
TURN: dict[str, Any] = {
    "model": "scripted",
    "max_tokens": 128_000,
    "system": [{"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [*HI, {"role": "system", "content": [{"type": "text", "text": "It is noon."}], "output_config": {"effort": "medium"}}],
    "tools": [{"name": "Read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
    "thinking": {"type": "adaptive", "display": "updates", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": "u"},
}


@pytest.fixture(scope="module")
async def weighted(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> AsyncGenerator[Service]:
    """The service with a model of two accounts by weight, and with budgets of a day."""
    first, second = engines
    service.apply(f"""
        [providers]
        ca-one = {{ adapter = "openai", base_url = "http://127.0.0.1:{first.port}" }}
        ca-two = {{ adapter = "openai", base_url = "http://127.0.0.1:{second.port}" }}
        [models]
        ca-weighted = {{ targets = [
            {{ provider = "ca-one", model = "engine-model", weight = 1 }}, {{ provider = "ca-two", model = "engine-model", weight = 1 }}
        ] }}
        ca-priced = {{ targets = [{{ provider = "ca-one", model = "priced" }}] }}
        [[prices]]
        provider = "ca-one"
        model = "priced"
        input = 0.0
        output = 1000.0
        [[limits]]
        name = "ca-budget"
        scope = {{ model = "ca-priced" }}
        resource = "cost_usd"
        amount = 0.01
        per = "day"
    """)
    yield service


@pytest.fixture(autouse=True)
def answering(engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    """Lets both engines answer, whatever an earlier test made of them."""
    for engine in engines:
        engine.script = ReceivedRequest.respond_completion


async def send(client: httpx2.AsyncClient, body: Mapping[str, Any], headers: Mapping[str, str] = SESSION) -> httpx2.Response:
    return await client.post("/v1/messages", json=body, headers=headers)


async def test_usual_turn_of_claude_code_is_answered_by_an_openai_model(weighted: Service, client: httpx2.AsyncClient):
    response = await send(client, TURN)
    assert response.status_code == 200, response.text
    assert "thinking.block_binding" in response.headers["x-narthex-dropped"]


async def test_fields_that_nobody_knows_are_dropped_for_claude_code_alone(weighted: Service, client: httpx2.AsyncClient):
    newest = {**TURN, "messages": [{**HI[0], "shade": 1}], "brand_new": {"x": 1}, "tags": {"team": "a"}}
    response = await send(client, newest)
    assert response.status_code == 200, response.text
    assert {"brand_new", "tags", "messages[0].shade"} <= set(response.headers["x-narthex-dropped"].split(", "))
    assert (await send(client, newest, {})).status_code == 422
    assert (await send(client, newest, {**SESSION, "x-narthex-drop": "none"})).status_code == 400


@pytest.mark.parametrize(
    "field", [{"safeguards": {"x": 1}}, {"container": "c"}, {"tools": [{"type": "tool_search_tool_regex_20251119", "name": "search"}]}]
)
async def test_what_matters_is_refused_with_the_400_after_which_claude_code_goes_on_without(
    weighted: Service, client: httpx2.AsyncClient, field: dict[str, Any]
):
    response = await send(client, {**TURN, **field})
    assert response.status_code == 400 and next(iter(field)) in response.json()["error"]["message"]
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_error_of_a_prompt_that_does_not_fit_has_the_words_that_make_claude_code_compact(
    weighted: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    async def refuse(request: ReceivedRequest) -> None:
        await request.respond(400, b'{"error":{"message":"This model\'s maximum context length is 9 tokens.","code":"x"}}')

    engine.script = refuse
    response = await send(client, TURN)
    message = response.json()["error"]["message"]
    assert response.status_code == 400 and message.startswith("prompt is too long: ") and "maximum context length is 9" in message
    assert (await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI})).json()["error"]["message"] in message


async def test_wrong_key_is_not_to_be_tried_again(weighted: Service):
    async with weighted.keyless_client() as stranger:
        response = await send(stranger, TURN, {**SESSION, "x-api-key": "nx-nobody"})
    assert (response.status_code, response.headers["x-should-retry"]) == (401, "false")


async def test_budget_is_shown_while_it_lasts_and_refuses_as_a_billing_error(
    weighted: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    """An answer of the scripted engine has two tokens of 0.001 dollars; what a request reserves counts as used."""
    unified = "anthropic-ratelimit-unified-"
    body = {"model": "ca-priced", "messages": HI}
    first = await send(client, {**body, "max_tokens": 4})
    assert first.status_code == 200, first.text
    assert first.headers[unified + "status"] == first.headers[unified + "overage-status"] == "allowed"
    assert first.headers[unified + "overage-utilization"] == "0.40" and unified + "overage-surpassed-threshold" not in first.headers
    await weighted.wait_for_record(first.headers["x-narthex-inference-id"])
    warned = await send(client, {**body, "max_tokens": 6})
    assert warned.headers[unified + "status"] == "allowed_warning" and warned.headers[unified + "overage-surpassed-threshold"] == "0.75"
    await weighted.wait_for_record(warned.headers["x-narthex-inference-id"])
    refused = await send(client, {**body, "max_tokens": 9})
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "billing_error")
    assert refused.headers["x-should-retry"] == "false" and refused.headers[unified + "status"] == "rejected"
    assert refused.headers[unified + "overage-period"] == "daily" and unified + "representative-claim" not in refused.headers
    resets = {int(each.headers[unified + "reset"]) // 60 for each in (first, warned, refused)}
    assert len(resets) == 1 or max(resets) - min(resets) == 1
    of_openai = await client.post("/v1/chat/completions", json={**body, "max_tokens": 9})
    assert of_openai.status_code == 429 and not any(name.startswith(unified) for name in of_openai.headers)


@pytest.mark.parametrize("name", ["x-narthex-session", "x-claude-code-session-id", "session-id", "session_id", "x-session-affinity"])
async def test_requests_of_a_session_stay_with_the_account_that_the_first_one_got(
    weighted: Service, client: httpx2.AsyncClient, engines: tuple[ScriptedEngine, ScriptedEngine], name: str
):
    served: dict[int, set[str]] = {}
    for turn in range(36):
        body = {"model": "ca-weighted", "messages": HI}
        response = await client.post("/v1/chat/completions", json=body, headers={name: f"session-{turn % 12}"})
        served.setdefault(turn % 12, set()).add(response.headers["x-narthex-served"])
    assert all(len(accounts) == 1 for accounts in served.values())
    assert set(itertools.chain(*served.values())) == {"ca-one/engine-model", "ca-two/engine-model"}


async def test_key_of_prompt_caches_is_a_session(weighted: Service, client: httpx2.AsyncClient):
    served: dict[int, set[str]] = {}
    for turn in range(36):
        body = {"model": "ca-weighted", "messages": HI, "prompt_cache_key": f"cache-{turn % 12}"}
        response = await client.post("/v1/chat/completions", json=body)
        served.setdefault(turn % 12, set()).add(response.headers["x-narthex-served"])
    assert all(len(accounts) == 1 for accounts in served.values())
    assert set(itertools.chain(*served.values())) == {"ca-one/engine-model", "ca-two/engine-model"}


async def test_session_moves_on_when_its_account_fails(
    weighted: Service, client: httpx2.AsyncClient, engines: tuple[ScriptedEngine, ScriptedEngine]
):
    body = {"model": "ca-weighted", "messages": HI}
    before = (await client.post("/v1/chat/completions", json=body, headers=SESSION)).headers["x-narthex-served"]
    failing = engines[0] if before.startswith("ca-one") else engines[1]

    async def refuse(request: ReceivedRequest) -> None:
        await request.respond(429, b'{"error":{"message":"busy"}}', "content-type: application/json\r\nretry-after: 60\r\n")

    failing.script = refuse
    after = await client.post("/v1/chat/completions", json=body, headers=SESSION)
    assert after.status_code == 200 and {before, after.headers["x-narthex-served"]} == {"ca-one/engine-model", "ca-two/engine-model"}
