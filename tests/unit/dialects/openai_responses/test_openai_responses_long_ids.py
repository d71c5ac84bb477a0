"""Ids over 64 characters at the Responses API: a call and its output get the same shorter one, always."""

import json
from typing import Any

import pytest

from providers.hosted.openai.adapter import OpenAI
from tests.support.request_translation import send_to

LONG = ["mcp__" + letter * 60 + "_exec-0190f2ab-6a52" for letter in "ab"]
HOST = OpenAI("o", {"dialects": ["openai_responses", "openai_chat"]}, None, "http://127.0.0.1:1")
FUNCTION = {"name": "f", "arguments": "{}"}
HI = {"role": "user", "content": "Hi"}
REQUESTS: dict[str, dict[str, Any]] = {
    "openai_responses": {
        "input": [
            HI,
            *({"type": "function_call", "call_id": id, "id": "fc_" + id, **FUNCTION} for id in LONG),
            *({"type": "function_call_output", "call_id": id, "output": '{"call_id": "kept"}'} for id in LONG),
        ]
    },
    "openai_chat": {
        "messages": [
            HI,
            {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": FUNCTION} for id in LONG]},
            *({"role": "tool", "tool_call_id": id, "content": "rain"} for id in LONG),
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    },
    "anthropic_messages": {
        "max_tokens": 9,
        "messages": [
            HI,
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in LONG]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "rain"} for id in LONG]},
        ],
    },
}


def _sent_items(caller: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    host = HOST if caller != "openai_chat" else OpenAI("o", {})
    return json.loads(send_to(host, caller, request, "gpt-5.6-sol").raw)["input"]


@pytest.mark.parametrize("caller", REQUESTS)
def test_a_call_and_its_output_get_one_id_of_64_characters(caller: str) -> None:
    items = _sent_items(caller, REQUESTS[caller])
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert calls == [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert len(set(calls)) == 2 and max(map(len, calls)) <= 64 and all(call.startswith("call_") for call in calls)
    assert items == _sent_items(caller, REQUESTS[caller])
    assert all(len(item.get("id", "")) <= 64 for item in items)


def test_short_ids_and_what_only_looks_like_an_id_stay_byte_for_byte() -> None:
    call = {"type": "function_call", "call_id": "call_1", "id": "fc_1", **FUNCTION}
    raw = [HI, call, {"type": "function_call_output", "call_id": "call_1", "output": json.dumps({"id": "x" * 99, "call_id": "y" * 99})}]
    assert _sent_items("openai_responses", {"input": raw}) == raw
    nested = [{"type": "computer_call_output", "call_id": "c", "acknowledged_safety_checks": [{"id": "z" * 99}], "output": {"type": "x"}}]
    assert _sent_items("openai_responses", {"input": [HI, *nested]})[1:] == nested
    wide = [HI, {**call, "call_id": "é" * 64}, {"type": "function_call_output", "call_id": "é" * 64, "output": "x"}]
    assert _sent_items("openai_responses", {"input": wide}) == wide


def test_encrypted_reasoning_goes_without_its_id_rather_than_under_another() -> None:
    reasoning: dict[str, Any] = {"type": "reasoning", "id": "rs_" + "r" * 80, "summary": [], "encrypted_content": "gAAAA"}
    message = {"type": "message", "id": "msg_" + "m" * 80, "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    sent_reasoning, sent_message = _sent_items("openai_responses", {"input": [reasoning, message, HI]})[:2]
    assert sent_reasoning == {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    assert sent_message["id"].startswith("msg_") and len(sent_message["id"]) <= 64
