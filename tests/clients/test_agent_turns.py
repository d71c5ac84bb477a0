"""Requests as a coding agent sends them to /v1/messages work against every engine: what only bears on cost and caching is let go."""

import json
from typing import Any

import httpx
import pytest

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from tests.clients.agent_turns import HEADERS, TOOLS, result, said, turn
from tests.clients.replying import SEAL
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.stories.scripted import ScriptedEngine
from tests.stories.speaking_engines import speaking

CROSSED = {"scripted": CHAT, "responses": RESPONSES}
_READ = ToolCall("toolu_read", "Read", '{"file_path": "/a.txt"}')


async def sent(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[httpx.Response, list[dict[str, Any]]]:
    """The answer and its content blocks, put together from its events as clients do."""
    answer = await client.post("/v1/messages?beta=true", json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    blocks: list[dict[str, Any]] = []
    for line in answer.text.splitlines():
        if not line.startswith("data: "):
            continue
        event: Any = json.loads(line.removeprefix("data: "))
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            index: int = event["index"]
            _grow(blocks[index], event["delta"])
    assert answer.text.rstrip().endswith('"type":"message_stop"}')
    return answer, blocks


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "input_json_delta":
            block["json"] = block.get("json", "") + delta["partial_json"]
        case "text_delta" | "thinking_delta" | "signature_delta":
            key = delta["type"].removesuffix("_delta")
            block[key] = block.get(key, "") + delta[key]
        case _:
            raise AssertionError(delta)


def given_back(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """What the agent sends of an answer with its next turn."""
    content: list[dict[str, Any]] = []
    for block in blocks:
        arguments = json.loads(block.pop("json", "") or "{}")
        content.append({**block, "input": arguments} if block["type"] == "tool_use" else block)
    return {"role": "assistant", "content": content}


async def test_an_agents_turns_work_with_the_sandbox(client: httpx.AsyncClient):
    asked = said("Read the file a.txt, please.")
    answer, blocks = await sent(client, turn(asked))
    assert [block["type"] for block in blocks] == ["thinking", "tool_use"]
    assert blocks[1]["name"] == "Read"
    dropped = answer.headers["x-narthex-dropped"]
    assert all(hint in dropped for hint in ("context_management", "cache_control", "budget_tokens", "anthropic-beta"))
    _, last = await sent(client, turn(asked, given_back(blocks), result(blocks[1], "one line", is_error=False)))
    assert last[-1]["type"] == "text" and last[-1]["text"]


@pytest.mark.parametrize(
    "more",
    [
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "temperature": None},
        {"speed": "fast"},
        {"cache_control": {"type": "ephemeral"}},
        {"mcp_servers": []},
        {"tools": [{**TOOLS[0], "eager_input_streaming": True}]},
        {"tools": [{**TOOLS[0], "type": "custom", "defer_loading": True}]},
        {"tools": [{**TOOLS[0], "strict": True, "allowed_callers": ["direct"]}]},
    ],
    ids=["effort", "adaptive", "speed", "cache_control", "mcp_servers", "eager_input_streaming", "defer_loading", "allowed_callers"],
)
async def test_what_bears_on_cost_and_speed_alone_is_let_go(client: httpx.AsyncClient, more: dict[str, Any]):
    body = {key: value for key, value in turn(said("Hello."), **more).items() if value is not None}
    _, blocks = await sent(client, body)
    assert blocks[-1]["text"]


async def test_what_an_engine_cannot_do_is_named_as_the_agent_calls_it(client: httpx.AsyncClient):
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    answer = await client.post("/v1/messages?beta=true", json=turn(said("Hello."), tools=[*TOOLS, search]), headers=HEADERS)
    assert answer.status_code == 422
    assert "tools[3]" in answer.json()["error"]["message"]


async def test_what_is_let_go_is_told_as_the_agent_calls_it(client: httpx.AsyncClient):
    answer, _ = await sent(client, turn(said("Hello.")))
    dropped = set(answer.headers["x-narthex-dropped"].split(", "))
    assert {"system[0].cache_control", "system[1].cache_control", "messages[0].content[1].cache_control"} <= dropped


async def test_a_long_history_leaves_headers_that_clients_take(client: httpx.AsyncClient):
    """Node refuses more than 16 kB of them."""
    answer, _ = await sent(client, turn(*[said(f"Hello, {number}.") for number in range(400)]))
    assert len(answer.headers["x-narthex-dropped"]) < 4000


@pytest.mark.parametrize("model", CROSSED)
async def test_an_agents_turns_work_with_engines_of_other_dialects(client: httpx.AsyncClient, engine: ScriptedEngine, model: str):
    seal = None if CROSSED[model] == CHAT else OpaqueState(CROSSED[model], SEAL)
    engine.script = speaking(
        Situation(name="calls", parts=(Reasoning("A file.", seal), _READ), finish="tool_calls"),
        Situation(name="ends", parts=(Reasoning("Done.", seal), Text("It has one line."))),
    )
    asked = said("Read a.txt.")
    _, blocks = await sent(client, turn(asked, model=model))
    _, last = await sent(client, turn(asked, given_back(blocks), result(blocks[-1], "one line"), model=model))
    assert [block["type"] for block in last] == ["thinking", "text"]
    second = [asked.raw for asked in engine.asked if asked.body][1]
    assert b"one line" in second
    assert seal is None or SEAL.encode() in second


async def test_an_engine_of_the_agents_own_dialect_gets_all_it_said(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = speaking(
        Situation(name="calls", parts=(Reasoning("A file.", OpaqueState(ANTHROPIC, SEAL)), _READ), finish="tool_calls")
    )
    body = turn(said("Read a.txt."), model="claude")
    answer, blocks = await sent(client, body)
    assert blocks[0]["signature"] == SEAL
    first = next(asked for asked in engine.asked if asked.body)
    assert first.body == {**body, "model": "engine-model"}
    assert first.headers["anthropic-beta"] == HEADERS["anthropic-beta"]
    assert "x-narthex-dropped" not in answer.headers


async def test_an_agent_counts_tokens_and_asks_for_its_quota(client: httpx.AsyncClient):
    body = turn(said("Hello."))
    counting = {key: body[key] for key in ("model", "messages", "tools", "system", "thinking")}
    counted = await client.post("/v1/messages/count_tokens?beta=true", json=counting, headers=HEADERS)
    assert counted.status_code == 200 and counted.json()["input_tokens"] > 100
    quota = {"model": "sandbox", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}], "metadata": body["metadata"]}
    answer = await client.post("/v1/messages?beta=true", json=quota, headers=HEADERS)
    assert (answer.status_code, answer.json()["stop_reason"]) == (200, "max_tokens")


async def test_a_thread_is_refused_as_its_sdk_expects(client: httpx.AsyncClient):
    """Which then goes on without: conversations are not kept for this API."""
    answer = await client.post("/v1/messages?beta=true", json=turn(said("Hello."), thread={"type": "create"}), headers=HEADERS)
    assert answer.status_code in (400, 422)
    details = answer.json()["error"]["details"]
    assert (details["error_code"], details["unsupported"]) == ("thread_unsupported_request", ["thread"])
