"""Bills of a scripted Claude through the whole service: recorded, shown to the caller, and the same when costs are recomputed."""

import json
from typing import Any

import httpx2
import pytest

from tests.integration.keys.test_caller_records import wait_for_own_record
from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, completion

USAGE = {
    "input_tokens": 412,
    "output_tokens": 531,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
    "speed": "fast",
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 5},
    "iterations": [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
        {"type": "advisor_message", "model": "claude-adviser", "input_tokens": 823, "output_tokens": 1612, "cache_read_input_tokens": 7},
        {
            **{"type": "message", "input_tokens": 412, "output_tokens": 531, "cache_creation_input_tokens": 30},
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
        },
    ],
}
# In microdollars: all in fast mode, at twice the price; the searches are not.
OWN = 2 * ((180_000 + 412) * 1 + 20 * 1.25 + 10 * 2 + (3500 + 531) * 5) + 2 * 10_000
ADVISER = 2 * (823 * 4 + 7 * 0.2 + 1612 * 20)
COST = int(OWN + ADVISER + 0.5)


@pytest.fixture
def billed(service: Service, engine: ScriptedEngine) -> None:
    service.apply(f"""
        [providers.billed]
        adapter = "anthropic"
        base_url = "http://127.0.0.1:{engine.port}"
        [providers.uncounted]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.billed]
        targets = [{{ provider = "billed", model = "claude-worker" }}]
        [models.uncounted]
        targets = [{{ provider = "uncounted", model = "m" }}]
        [[prices]]
        provider = "billed"
        model = "claude-worker"
        input = 1
        output = 5
        cached_input = 0.1
        cache_write = 1.25
        cache_write_hour = 2
        tiers = {{ fast = 2 }}
        tool_uses = {{ web_search = 10 }}
        [[prices]]
        provider = "billed"
        model = "claude-adviser"
        input = 4
        output = 20
        cached_input = 0.2
        tiers = {{ fast = 2 }}
        [[prices]]
        provider = "uncounted"
        model = "m"
        input = 1
        output = 100
        hours = [{{ factor = 2 }}]
    """)


async def answer(request: ReceivedRequest) -> None:
    head: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-worker", "stop_sequence": None}
    if not request.body.get("stream"):
        body = {**head, "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "usage": USAGE}
        await request.respond(200, json.dumps(body).encode())
        return
    request.begin_stream()
    started: dict[str, Any] = {
        **head,
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 412, "output_tokens": 1, "speed": "fast"},
    }
    request.send_event({"type": "message_start", "message": started})
    request.send_event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    request.send_event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}})
    request.send_event({"type": "content_block_stop", "index": 0})
    usage = {name: value for name, value in USAGE.items() if name != "speed"}
    request.send_event({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage})
    request.send_event({"type": "message_stop"})
    request.end_stream()


@pytest.mark.usefixtures("billed")
@pytest.mark.parametrize("route", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
async def test_runs_of_models_and_searches_are_in_the_cost(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
):
    engine.script = answer
    body = {"model": "billed", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    answered = await client.post(route, json=body, headers={"x-narthex-cost": "true"})
    assert answered.status_code == 200, answered.text
    shown = answered.headers.get("x-narthex-cost-usd")
    if stream:
        assert f'"narthex_cost_usd":{COST / 1e6:.6f}'.rstrip("0") in answered.text.replace(" ", ""), answered.text
    else:
        assert shown == f"{COST / 1e6:.6f}"
    own = await wait_for_own_record(client, answered.headers["x-narthex-inference-id"])
    assert (own["cost_microusd"], own["price"]) == (COST, "billed/claude-worker/always")
    record = await service.wait_for_record(own["id"])
    assert (record["input_tokens"], record["output_tokens"]) == (180_000 + 412 + 30 + 823 + 7, 3500 + 531 + 1612)
    charges = json.loads(record["charges"]) if isinstance(record["charges"], str) else record["charges"]
    assert [(each.get("reported_model"), each["continues"]) for each in charges] == [(None, False), ("claude-adviser", True)]
    assert sum(each["cost_microusd"] for each in charges) == COST
    recomputed = service.run("prices", "recompute", "--since", "1h", "--provider", "billed", "--json").stdout
    again = json.loads(recomputed)
    assert (again["changed"], again["skipped"]) == (0, 0) and again["matched"] >= 1


@pytest.mark.usefixtures("billed")
@pytest.mark.parametrize("stream", [False, True])
async def test_host_that_counts_nothing_is_charged_by_its_text_as_the_caller_is_shown(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, stream: bool
):
    async def count_nothing(request: ReceivedRequest) -> None:
        if not stream:
            await request.respond(200, json.dumps({**completion("word"), "usage": None}).encode())
            return
        request.begin_stream()
        for delta, reason in (
            ({"role": "assistant", "content": ""}, None),
            *(({"content": letter}, None) for letter in "word"),
            ({}, "stop"),
        ):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            request.send_event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
        request.end_stream()

    engine.script = count_nothing
    body: dict[str, Any] = {"model": "uncounted", "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    answered = await client.post("/v1/chat/completions", json={**body, **({"stream_options": {"include_usage": True}} if stream else {})})
    text = answered.text.replace(" ", "")
    assert '"completion_tokens":1,' in text, answered.text
    record = await service.wait_for_record(answered.headers["x-narthex-inference-id"])
    assert (record["charged_output"], record["charge_basis"]) == (1, "received")
    assert f'"prompt_tokens":{record["charged_input"]},' in text
    assert record["cost_microusd"] == 2 * (record["charged_input"] + 100)
