"""Requests as a coding agent sends them to /v1/messages work with every engine: fields that affect only cost and caching are dropped."""

import json
from typing import Any

import httpx2
import pytest

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from tests.clients.coding_agent_requests import HEADERS, TOOLS, messages_body, tool_result_message, user_message
from tests.clients.scripted_model import SIGNATURE
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ScriptedEngine

TRANSLATED_MODELS = {"scripted": CHAT, "responses": RESPONSES}
_READ_CALL = ToolCall("toolu_read", "Read", '{"file_path": "/a.txt"}')


async def post_message(client: httpx2.AsyncClient, body: dict[str, Any]) -> tuple[httpx2.Response, list[dict[str, Any]]]:
    """The response and its content blocks, assembled from its events as clients do."""
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


def assistant_message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """The response as the agent sends it with its next turn."""
    content: list[dict[str, Any]] = []
    for block in blocks:
        arguments = json.loads(block.pop("json", "") or "{}")
        content.append({**block, "input": arguments} if block["type"] == "tool_use" else block)
    return {"role": "assistant", "content": content}


async def test_agent_turns_work_with_the_sandbox(client: httpx2.AsyncClient):
    question = user_message("Read the file a.txt, please.")
    answer, blocks = await post_message(client, messages_body(question))
    assert [block["type"] for block in blocks] == ["thinking", "tool_use"]
    assert blocks[1]["name"] == "Read"
    dropped = answer.headers["x-narthex-dropped"]
    assert all(hint in dropped for hint in ("context_management", "cache_control", "budget_tokens", "anthropic-beta"))
    _, last = await post_message(
        client, messages_body(question, assistant_message(blocks), tool_result_message(blocks[1], "one line", is_error=False))
    )
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
async def test_fields_that_bear_only_on_cost_and_speed_are_accepted(client: httpx2.AsyncClient, more: dict[str, Any]):
    body = {key: value for key, value in messages_body(user_message("Hello."), **more).items() if value is not None}
    _, blocks = await post_message(client, body)
    assert blocks[-1]["text"]


async def test_tool_of_the_host_is_refused_by_its_path_in_the_agents_request(client: httpx2.AsyncClient):
    execution = {"type": "code_execution_20250825", "name": "code_execution"}
    answer = await client.post(
        "/v1/messages?beta=true", json=messages_body(user_message("Hello."), tools=[*TOOLS, execution]), headers=HEADERS
    )
    assert answer.status_code == 422
    assert "tools[3]" in answer.json()["error"]["message"]


async def test_web_search_that_no_engine_has_is_left_out_and_reported(client: httpx2.AsyncClient):
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    answer, blocks = await post_message(client, messages_body(user_message("Hello."), tools=[*TOOLS, search]))
    assert blocks[-1]["text"]
    assert "tools[3]" in answer.headers["x-narthex-dropped"].split(", ")


async def test_dropped_fields_are_reported_by_their_path_in_the_agents_request(client: httpx2.AsyncClient):
    answer, _ = await post_message(client, messages_body(user_message("Hello.")))
    dropped = set(answer.headers["x-narthex-dropped"].split(", "))
    assert {"system[0].cache_control", "system[1].cache_control", "messages[0].content[1].cache_control"} <= dropped


async def test_dropped_header_stays_short_for_a_long_history(client: httpx2.AsyncClient):
    """Node refuses more than 16 kB of headers."""
    answer, _ = await post_message(client, messages_body(*[user_message(f"Hello, {number}.") for number in range(400)]))
    assert len(answer.headers["x-narthex-dropped"]) < 4000


@pytest.mark.parametrize("model", TRANSLATED_MODELS)
async def test_agent_turns_work_with_engines_of_other_dialects(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    signature = None if TRANSLATED_MODELS[model] == CHAT else OpaqueState(TRANSLATED_MODELS[model], SIGNATURE)
    engine.script = respond_with(
        Situation(name="calls", parts=(Reasoning("A file.", signature), _READ_CALL), finish="tool_calls"),
        Situation(name="ends", parts=(Reasoning("Done.", signature), Text("It has one line."))),
    )
    question = user_message("Read a.txt.")
    _, blocks = await post_message(client, messages_body(question, model=model))
    _, last = await post_message(
        client, messages_body(question, assistant_message(blocks), tool_result_message(blocks[-1], "one line"), model=model)
    )
    assert [block["type"] for block in last] == ["thinking", "text"]
    second = [request.raw for request in engine.requests if request.body][1]
    assert b"one line" in second
    assert signature is None or SIGNATURE.encode() in second


async def test_engine_of_the_agents_dialect_receives_the_whole_request(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(
        Situation(name="calls", parts=(Reasoning("A file.", OpaqueState(ANTHROPIC, SIGNATURE)), _READ_CALL), finish="tool_calls")
    )
    body = messages_body(user_message("Read a.txt."), model="claude")
    answer, blocks = await post_message(client, body)
    assert blocks[0]["signature"] == SIGNATURE
    first = next(request for request in engine.requests if request.body)
    assert first.body == {**body, "model": "engine-model"}
    assert first.headers["anthropic-beta"] == HEADERS["anthropic-beta"]
    assert "x-narthex-dropped" not in answer.headers


async def test_agent_counts_tokens_and_sends_its_quota_request(client: httpx2.AsyncClient):
    body = messages_body(user_message("Hello."))
    counting = {key: body[key] for key in ("model", "messages", "tools", "system", "thinking")}
    counted = await client.post("/v1/messages/count_tokens?beta=true", json=counting, headers=HEADERS)
    assert counted.status_code == 200 and counted.json()["input_tokens"] > 100
    quota = {"model": "sandbox", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}], "metadata": body["metadata"]}
    answer = await client.post("/v1/messages?beta=true", json=quota, headers=HEADERS)
    assert (answer.status_code, answer.json()["stop_reason"]) == (200, "max_tokens")


async def test_thread_is_refused_with_the_error_its_sdk_expects(client: httpx2.AsyncClient):
    """The SDK then continues without threads, which the gateway does not store for this API."""
    answer = await client.post(
        "/v1/messages?beta=true", json=messages_body(user_message("Hello."), thread={"type": "create"}), headers=HEADERS
    )
    assert answer.status_code in (400, 422)
    details = answer.json()["error"]["details"]
    assert (details["error_code"], details["unsupported"]) == ("thread_unsupported_request", ["thread"])
