"""Unknown fields of OpenAI chat's nested objects: on the way to another dialect none is lost without a report."""

import functools
import json
from typing import Any

import pytest
from msgspec import Raw

from providers.canonical.chat import ChatRequest, Citation, Text, Thinking, Tool, ToolChoice
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.events import ChoiceFinished, PartDelta, PartFinished, PartStarted
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.openai_chat import OpenAIChat
from providers.drop_policy import DropPolicy
from tests.support.processes.cpu_time import cpu_time_growth
from tests.support.strategies.chat_strategies import META

DIALECT = OpenAIChat()
OTHER_DIALECTS = ["openai_responses", "anthropic_messages"]
HI = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def translate_request(fields: dict[str, Any], dialect: str, *, may_drop: bool = False) -> tuple[dict[str, Any], list[str]]:
    body = DIALECT.parse_request(json.dumps({"model": "m", "messages": HI, **fields}).encode()).body
    drop_policy = DropPolicy(lambda field: may_drop, DIALECT.field_names, "an engine", functools.partial(DIALECT.caller_path, body))
    out = CHAT_DIALECTS[dialect].write_request(DIALECT.read_request(body), drop_policy)
    return json.loads(out.write()), drop_policy.dropped


def user_message(part: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [part]}]}


PDF = "data:application/pdf;base64,AAAA"
FORMAT: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
CHOICE = {"type": "function", "function": {"name": "f"}}
DEMANDS: list[tuple[dict[str, Any], str]] = [
    (user_message({"type": "file", "file": {"file_data": PDF, "odd": 1}}), "messages[0].content[0].file.odd"),
    (
        user_message({"type": "image_url", "image_url": {"url": "https://example.com/a.png", "odd": 1}}),
        "messages[0].content[0].image_url.odd",
    ),
    ({"tools": TOOLS, "tool_choice": {**CHOICE, "odd": 1}}, "tool_choice.odd"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f", "odd": 1}}}, "tool_choice.function.odd"),
    ({"response_format": {**FORMAT, "odd": 1}}, "response_format.odd"),
    ({"response_format": {"type": "json_schema", "json_schema": {**FORMAT["json_schema"], "odd": 1}}}, "response_format.json_schema.odd"),
    ({"response_format": {"type": "text", "odd": 1}}, "response_format"),
    ({"stream": True, "stream_options": {"odd": 1}}, "stream_options.odd"),
    ({"do_preprocess": False}, "do_preprocess"),
    ({"min_new_tokens": 3}, "min_new_tokens"),
    ({"tools": [{"type": "function", "function": {"name": "f", "odd": 1}}]}, "tools[0].function.odd"),
]
HINTS: list[tuple[dict[str, Any], str]] = [
    ({"stream": True, "stream_options": {"include_obfuscation": False}}, "stream_options.include_obfuscation"),
    ({"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}, "stream_options.continuous_usage_stats"),
    (
        {"messages": [*HI, {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{}", "odd": 1}}]}]},
        "messages[1].tool_calls[0].function.odd",
    ),
]


@pytest.mark.parametrize("dialect", OTHER_DIALECTS)
@pytest.mark.parametrize(("fields", "path"), DEMANDS, ids=[path for _, path in DEMANDS])
def test_unknown_nested_field_is_refused_by_path_or_dropped_and_reported(fields: dict[str, Any], path: str, dialect: str) -> None:
    with pytest.raises(Unsupported) as refused:
        translate_request(fields, dialect)
    assert refused.value.param == path
    assert translate_request(fields, dialect, may_drop=True)[1] == [path]


@pytest.mark.parametrize("dialect", OTHER_DIALECTS)
@pytest.mark.parametrize(("fields", "path"), HINTS, ids=[path for _, path in HINTS])
def test_nested_hint_is_dropped_and_reported(fields: dict[str, Any], path: str, dialect: str) -> None:
    assert translate_request(fields, dialect)[1] == [path]


@pytest.mark.parametrize("fields", [fields for fields, _ in (*DEMANDS, *HINTS)], ids=[path for _, path in (*DEMANDS, *HINTS)])
def test_unknown_nested_fields_survive_a_round_trip_in_place(fields: dict[str, Any]) -> None:
    body, dropped = translate_request(fields, "openai_chat")
    assert dropped == []
    for key, value in fields.items():
        if key == "messages":
            assert body[key] == [{"content": None, **each} for each in value]
        elif key == "stream_options":
            assert body[key] == {name: option for name, option in value.items() if name != "include_usage"}
        elif key != "stream":
            assert body[key] == value


@pytest.mark.parametrize("dialect", OTHER_DIALECTS)
@pytest.mark.parametrize("role", ["tool", "function"])
def test_redundant_tool_result_name_is_not_reported_as_dropped(role: str, dialect: str) -> None:
    first = {"function_call": CALL["function"]} if role == "function" else {"tool_calls": [CALL]}
    result = {"role": role, "name": "f", "content": "x", **({"tool_call_id": "a"} if role == "tool" else {})}
    assert translate_request({"messages": [*HI, {"role": "assistant", **first}, result]}, dialect)[1] == []


def test_file_with_both_data_and_id_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        translate_request(user_message({"type": "file", "file": {"file_data": PDF, "file_id": "f1"}}), "openai_responses")
    assert refused.value.param == "messages[0].content[0].file.file_id"


def dropped_fields(chat: ChatRequest) -> list[str]:
    drop_policy = DropPolicy(lambda field: False, {}, "an engine")
    DIALECT.write_request(chat, drop_policy)
    return drop_policy.dropped


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("named", "f")], ids=lambda choice: choice.mode)
def test_forced_tool_choice_without_tools_is_refused(choice: ToolChoice) -> None:
    with pytest.raises(Unsupported) as refused:
        dropped_fields(ChatRequest("anthropic_messages", "m", tool_choice=choice))
    assert refused.value.param == "tool_choice"
    assert dropped_fields(ChatRequest("anthropic_messages", "m", tool_choice=ToolChoice("auto"))) == []


def test_adaptive_thinking_without_effort_is_dropped_and_reported() -> None:
    assert dropped_fields(ChatRequest("anthropic_messages", "m", thinking=Thinking(adaptive=True))) == ["thinking"]
    assert dropped_fields(ChatRequest("anthropic_messages", "m", thinking=Thinking("low", adaptive=True))) == []


@pytest.mark.parametrize("format", [b"7", b"[]", b'"x"'])
def test_custom_tool_format_that_is_not_an_object_is_refused(format: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        dropped_fields(ChatRequest("openai_responses", "m", tools=(Tool("sql", custom=True, format=Raw(format)),)))
    assert refused.value.param == "tools[0].format"


def test_citation_offsets_take_linear_time() -> None:
    def write_parts(parts: int) -> None:
        citation = Citation("anthropic_messages", Raw(b"{}"), url="https://example.com", start=0, end=1)
        writer = DIALECT.stream_writer(META)
        last = b""
        for at in range(parts):
            writer.feed(PartStarted(0, at, Text("")))
            writer.feed(PartDelta(0, at, "ab"))
            last = writer.feed(PartFinished(0, at, citations=(citation,)))
        url_citation = json.loads(last.removeprefix(b"data: "))["choices"][0]["delta"]["annotations"][0]["url_citation"]
        assert url_citation["start_index"] == 2 * (parts - 1)
        writer.feed(ChoiceFinished(0, "stop"))

    # Sixteen times the parts: more than a hundred times the time if each looks at all parts before it.
    assert cpu_time_growth(write_parts, 400, 6400) < 60
