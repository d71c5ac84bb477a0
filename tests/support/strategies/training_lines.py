"""The format of a line of a training file for OpenAI's fine-tuning, written down apart from the code that writes it.

Source: in OpenAI's API description FineTuneChatRequestInput, FineTunePreferenceRequestInput and FineTuneCompletionRequestInput, read
2026-11.
"""

import json
import re
from typing import Any, cast

_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
_MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "weight"},
    "tool": {"role", "content", "tool_call_id"},
}
_PARTS = {"system": {"text"}, "user": {"text", "image_url"}, "assistant": {"text", "refusal"}, "tool": {"text"}}


def check_chat_line(line: dict[str, Any]) -> None:
    """Raises AssertionError for a line that supervised fine-tuning refuses."""
    assert line.keys() <= {"messages", "tools", "parallel_tool_calls"}
    _check_context(line)
    trained = [each for each in line["messages"] if each["role"] == "assistant" and each.get("weight", 1)]
    assert trained == line["messages"][-1:], "the last message alone is learned"


def check_preference_line(line: dict[str, Any]) -> None:
    assert line.keys() == {"input", "preferred_output", "non_preferred_output"}
    assert line["input"].keys() <= {"messages", "tools", "parallel_tool_calls"}
    _check_context(line["input"])
    assert line["input"]["messages"][-1]["role"] != "assistant"
    for name in ("preferred_output", "non_preferred_output"):
        [message] = line[name]
        assert message["role"] == "assistant" and "weight" not in message
        _check_message(message, set())
    assert line["preferred_output"] != line["non_preferred_output"]


def check_completion_line(line: dict[str, Any]) -> None:
    assert line.keys() == {"prompt", "completion"}
    assert all(isinstance(each, str) for each in line.values()) and line["completion"]


def _check_context(line: dict[str, Any]) -> None:
    calls: set[str] = set()
    assert line["messages"]
    for message in line["messages"]:
        _check_message(message, calls)
    for tool in line.get("tools", ()):
        assert tool.keys() == {"type", "function"} and tool["type"] == "function"
        assert tool["function"].keys() <= {"name", "description", "parameters", "strict"}
        assert re.match(_NAME, tool["function"]["name"])
        assert isinstance(tool["function"].get("parameters", {}), dict)
    assert isinstance(line.get("parallel_tool_calls", True), bool)
    assert "tools" in line or "parallel_tool_calls" not in line


def _check_message(message: dict[str, Any], calls: set[str]) -> None:
    role = message["role"]
    assert message.keys() <= _MESSAGE_FIELDS[role], message.keys()
    content: Any = message.get("content")
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        assert parts and {part["type"] for part in parts} <= _PARTS[role]
        for part in parts:
            assert part.keys() == {"type", part["type"]}
    elif role != "assistant":
        assert isinstance(content, str)
    if role == "tool":
        assert message["tool_call_id"] in calls
    if role == "assistant":
        assert isinstance(content, str) or message.get("tool_calls") or message.get("refusal")
        assert message.get("weight", 0) in (0, 1)
        for call in message.get("tool_calls", ()):
            assert call.keys() == {"id", "type", "function"} and call["type"] == "function"
            assert call["function"].keys() == {"name", "arguments"}
            assert isinstance(json.dumps(call["function"]["arguments"]), str)
            calls.add(call["id"])
