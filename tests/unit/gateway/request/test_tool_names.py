"""Names of tools that a host does not take are mapped to such, and calls get the caller's names back."""

import json
from typing import Any

import pytest

from app.gateway.emulation.response_trimmer import trim_response
from providers.adapters.provider import Provider
from providers.adapters.tool_names import ToolNames
from providers.canonical.chat import ChatResponse, Choice, ToolCall
from providers.catalogue import build_provider
from tests.support.request_translation import send_to

LONG = ["mcp__a_server_with_a_long_name__" + "tool_" * 16 + end for end in ("one", "two")]
DOTTED = "files.read all"
SHORT = "get_weather"
NAMES = [*LONG, DOTTED, SHORT]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string", "examples": ["John Smith"]}}}
HI = {"role": "user", "content": "Hi"}
HISTORY = [*NAMES, "gone_" + "x" * 80]
# The Messages API takes no other names, so that its callers never have any.
MESSAGES_NAMES, MESSAGES_HISTORY = ([name for name in names if name != DOTTED] for names in (NAMES, HISTORY))


def _messages_call(name: str) -> list[dict[str, Any]]:
    call: dict[str, Any] = {"type": "tool_use", "id": f"c{len(name)}", "name": name, "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{len(name)}", "content": "ok"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


REQUESTS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": [
            HI,
            *(
                message
                for name in HISTORY
                for message in (
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": f"c{len(name)}", "type": "function", "function": {"name": name, "arguments": "{}"}}],
                    },
                    {"role": "tool", "tool_call_id": f"c{len(name)}", "content": "ok"},
                )
            ),
        ],
        "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES],
        "tool_choice": {"type": "function", "function": {"name": LONG[0]}},
    },
    "anthropic_messages": {
        "max_tokens": 9,
        "messages": [HI, *(message for name in MESSAGES_HISTORY for message in _messages_call(name))],
        "tools": [{"name": name, "input_schema": SCHEMA} for name in MESSAGES_NAMES],
        "tool_choice": {"type": "tool", "name": LONG[0]},
    },
    "openai_responses": {
        "input": [
            HI,
            *(
                item
                for name in HISTORY
                for item in (
                    {"type": "function_call", "call_id": f"c{len(name)}", "name": name, "arguments": "{}"},
                    {"type": "function_call_output", "call_id": f"c{len(name)}", "output": "ok"},
                )
            ),
        ],
        "tools": [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES],
        "tool_choice": {"type": "function", "name": LONG[0]},
    },
}

HOSTS: dict[str, tuple[Provider, str]] = {
    "openai": (build_provider("openai", "o", {}), "gpt-4o"),
    "openai, tools at Responses": (build_provider("openai", "o", {}), "gpt-5.6-sol"),
    "azure": (build_provider("azure", "az", {"resource": "r"}), "gpt-5-mini"),
    "groq": (build_provider("groq", "g", {}), "openai/gpt-oss-120b"),
    "deepseek": (build_provider("deepseek", "d", {}), "deepseek-chat"),
    "anthropic": (build_provider("anthropic", "a", {}), "claude-sonnet-4-5"),
    "gemini": (build_provider("gemini", "g", {}), "gemini-2.5-flash"),
    "bedrock": (build_provider("bedrock", "b", {"region": "us-east-1"}), "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
}


def _names_in(value: Any) -> set[str]:
    """Returns every tool's name in a body of any dialect: each text under `name`, but for examples of arguments."""
    match value:
        case {"name": str(name), **rest}:
            return {name} | _names_in(rest)
        case dict():
            return set[str]().union(*map(_names_in, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        case list():
            return set[str]().union(*map(_names_in, value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return set()


@pytest.mark.parametrize("caller", REQUESTS)
@pytest.mark.parametrize("host", HOSTS)
def test_names_are_valid_different_always_the_same_and_mapped_back(caller: str, host: str) -> None:
    provider, model = HOSTS[host]
    assert provider.tool_names is not None
    sent = send_to(provider, caller, REQUESTS[caller], model, lambda field: field == "tool_choice")
    names, history = _names_in(json.loads(sent.raw)), MESSAGES_HISTORY if caller == "anthropic_messages" else HISTORY
    # The names of the tools, and of calls whose tool is gone.
    assert len(names) == len(history) and SHORT in names and all(map(provider.tool_names.is_valid, names))
    again = send_to(provider, caller, REQUESTS[caller], model, lambda field: field == "tool_choice")
    assert again.raw == sent.raw
    emulation = sent.emulation
    if caller == "anthropic_messages" and host == "anthropic":
        assert emulation is None and names == set(history)  # it takes 128 characters
        return
    assert emulation is not None and emulation.edits and "tools (names)" in emulation.fields
    calls = tuple(ToolCall(f"c{at}", name, "{}") for at, name in enumerate(sorted(names)))
    answered = trim_response(ChatResponse((Choice(calls, "tool_calls"),), "m"), emulation)
    assert {part.name for part in answered.choices[0].parts if isinstance(part, ToolCall)} == set(history)


@pytest.mark.parametrize("host", ["openai", "groq", "deepseek", "azure"])
def test_names_that_the_host_takes_stay_in_the_callers_bytes(host: str) -> None:
    provider, model = HOSTS[host]
    request = {"messages": [HI], "tools": [REQUESTS["openai_chat"]["tools"][-1]]}
    sent = send_to(provider, "openai_chat", request, model)
    assert sent.emulation is None and json.loads(sent.raw)["tools"] == request["tools"]


def test_a_server_without_a_known_rule_gets_names_as_they_are() -> None:
    provider = build_provider("openai", "o", {}, "http://10.0.0.5:8000")
    assert json.loads(send_to(provider, "openai_chat", REQUESTS["openai_chat"], "m").raw)["tools"] == REQUESTS["openai_chat"]["tools"]


def test_a_body_is_read_for_its_names_only_where_one_may_be_invalid() -> None:
    names = ToolNames()
    assert not names.may_be_violated(b'{"tools": [{"name": "get_weather"}], "name": {"type": "string"}}')
    assert names.may_be_violated(b'{"name": "a b"}') and names.may_be_violated(b'{"name" : "' + b"x" * 65 + b'"}')


@pytest.mark.parametrize("caller", ["openai_chat", "openai_responses", "anthropic_messages"])
def test_calls_of_a_history_are_renamed_without_tools_too(caller: str) -> None:
    """A client sends a history without tools when it has an old conversation summed up."""
    fields = {key: value for key, value in REQUESTS[caller].items() if key not in ("tools", "tool_choice")}
    translated = send_to(build_provider("openai", "openai", {}, None), caller, fields, "gpt-5.1")
    assert translated.raw.count(b"_server_with_a_long_name_") == 2
    assert not any(name.encode() in translated.raw for name in LONG)
