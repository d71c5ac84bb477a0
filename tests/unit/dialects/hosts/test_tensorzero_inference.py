"""TensorZero's native dialect: what its blocks mean, and that it reads what it has written."""

import json
from typing import Any

import pytest
from msgspec import Raw

from providers.canonical.chat import (
    Audio,
    ChatResponse,
    Choice,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    Usage,
)
from providers.canonical.errors import InvalidRequest
from providers.canonical.events import assemble_response, response_events
from providers.canonical.output_format import JsonObject, JsonSchema
from providers.dialect import InboundRequest, ResponseMeta
from providers.dialects.tensorzero_inference import TensorZeroInference

DIALECT = TensorZeroInference()
META = ResponseMeta("0195e7f5-0000-7000-8000-000000000001", "0195e7f5-0000-7000-8000-000000000002", "tensorzero::model_name::m", 1, True)
RESPONSES: dict[str, tuple[Part, ...]] = {
    "text": (Text("Hello."),),
    "reasoning": (Reasoning("Hm.", OpaqueState("anthropic_messages", "SIGNED")), Text("Hello.")),
    "unsigned reasoning": (Reasoning("Hm."), Text("Hello.")),
    "calls": (Text("I look."), ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", "not JSON", opaque_state=OpaqueState("gemini", "S"))),
    "opaque": (Opaque("anthropic_messages", Raw(b'{"type":"server_tool_use","id":"1"}')), Text("Found.")),
    "nothing": (),
}


def parse(*blocks: Any, role: str = "user", **fields: Any) -> InboundRequest:
    body = {"model_name": "m", "input": {"messages": [{"role": role, "content": list(blocks)}]}, **fields}
    return DIALECT.parse_request(json.dumps(body).encode())


def read(*blocks: Any, role: str = "user", **fields: Any) -> tuple[Message, ...]:
    return DIALECT.read_request(parse(*blocks, role=role, **fields).body).messages


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "a"}, Text("a")),
        ({"type": "raw_text", "value": "a"}, Text("a")),
        ({"type": "file", "file_type": "url", "url": "https://x/y.png", "detail": "low"}, Image(Url("https://x/y.png"), "low")),
        ({"type": "file", "file_type": "url", "url": "https://x/y.pdf"}, File(Url("https://x/y.pdf"))),
        ({"type": "image", "data": "QUJD", "mime_type": "image/png"}, Image(Inline("image/png", "QUJD"))),
        ({"type": "file", "data": "/9j/4AAQ"}, Image(Inline("image/jpeg", "/9j/4AAQ"))),
        ({"type": "file", "data": "JVBERi0x", "filename": "x.pdf"}, File(Inline("application/pdf", "JVBERi0x"), "x.pdf")),
        ({"type": "file", "data": "QUJD", "mime_type": "audio/mpeg"}, Audio(Inline("audio/mp3", "QUJD"))),
        ({"type": "tool_result", "id": "1", "name": "f", "result": "42"}, ToolResult("1", (Text("42"),))),
        ({"type": "unknown", "data": {"type": "input_image"}}, Opaque("openai_chat", Raw(b'{"type": "input_image"}'))),
    ],
)
def test_block_of_a_user_becomes_a_part(block: Any, part: Any):
    assert read(block)[0] == Message("user", (part,))


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "tool_call", "id": "1", "name": "f", "arguments": '{"a":1}'}, ToolCall("1", "f", '{"a":1}')),
        ({"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}}, ToolCall("1", "f", '{"a":1}')),
        ({"type": "tool_call", "id": "1", "raw_name": "f", "raw_arguments": "{"}, ToolCall("1", "f", "{")),
        # As the model wrote it, unless the caller has changed it.
        (
            {"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}, "raw_arguments": '{ "a": 1 }'},
            ToolCall("1", "f", '{ "a": 1 }'),
        ),
        (
            {"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 2}, "raw_arguments": '{ "a": 1 }'},
            ToolCall("1", "f", '{"a":2}'),
        ),
        ({"type": "thought", "text": "t"}, Reasoning("t")),
        (
            {"type": "thought", "text": "t", "signature": "S", "provider_type": "anthropic"},
            Reasoning("t", OpaqueState("anthropic_messages", "S")),
        ),
        ({"type": "thought", "summary": [{"type": "summary_text", "text": "s"}]}, Reasoning("s")),
    ],
)
def test_block_of_an_assistant_becomes_a_part(block: Any, part: Any):
    assert read(block, role="assistant")[0] == Message("assistant", (part,))


def test_templates_of_functions_are_kept_for_the_function():
    messages = read(
        {"type": "text", "arguments": {"q": 1}},
        {"type": "template", "name": "t", "arguments": {"q": 2}},
        model_name=None,
        function_name="f",
    )
    assert [json.loads(bytes(part.raw)) for part in messages[0].parts if isinstance(part, Opaque)] == [
        {"type": "text", "tensorzero::arguments": {"q": 1}},
        {"type": "tensorzero::template", "name": "t", "arguments": {"q": 2}},
    ]


def test_tools_and_their_choice():
    tools = [
        {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
        {"type": "openai_custom", "name": "g", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}},
    ]
    inbound = parse({"type": "text", "text": "a"}, additional_tools=tools, allowed_tools=["f"], tool_choice="required")
    chat = DIALECT.read_request(inbound.body)
    assert inbound.has_strict_tools and [tool.name for tool in chat.tools if isinstance(tool, Tool)] == ["f", "g"]
    custom = chat.tools[1]
    assert isinstance(custom, Tool) and custom.custom and custom.format is not None
    assert json.loads(bytes(custom.format)) == {"type": "grammar", "syntax": "lark", "definition": "x"}
    assert chat.tool_choice == ToolChoice("required", allowed=("f",))


def test_output_schema_and_json_mode_are_output_formats():
    strict = parse({"type": "text", "text": "a"}, output_schema={"type": "object"}, params={"chat_completion": {"json_mode": "strict"}})
    assert DIALECT.read_request(strict.body).output == JsonSchema(Raw(b'{"type": "object"}'), "output", strict=True)
    free = parse({"type": "text", "text": "a"}, params={"chat_completion": {"json_mode": "on"}})
    assert DIALECT.read_request(free.body).output == JsonObject()


def test_media_count_by_kind_and_not_by_size():
    small, large = ({"type": "file", "data": "A" * size, "mime_type": "image/png"} for size in (4, 400_000))
    assert abs(parse(small).input_tokens - parse(large).input_tokens) < 5


@pytest.mark.parametrize(("parts", "reason"), [(parts, "tool_calls" if name == "calls" else "stop") for name, parts in RESPONSES.items()])
def test_what_was_written_is_read_again(parts: tuple[Part, ...], reason: str):
    response = ChatResponse((Choice(parts, reason),), "m", usage=Usage(3, 2, cached=1))
    assert DIALECT.read_response(DIALECT.write_response(response, META)) == response
    writer, reader = DIALECT.stream_writer(META), DIALECT.stream_reader()
    stream = b"".join([*map(writer.feed, response_events(response)), writer.finish()])
    for size in (1, 7, len(stream)):
        reader = DIALECT.stream_reader()
        events = [event for start in range(0, len(stream), size) for event in reader.feed(stream[start : start + size])]
        assert assemble_response([*events, *reader.finish()]) == response
        assert reader.done


def test_response_goes_back_as_a_message():
    for parts in RESPONSES.values():
        written = json.loads(DIALECT.write_response(ChatResponse((Choice(parts, "stop"),), "m"), META))
        if parts:
            (message,) = read(*written["content"], role="assistant")
            again = DIALECT.write_response(ChatResponse((Choice(tuple(map(as_part, message.parts)), "stop"),), "m"), META)
            assert json.loads(again) == written


def as_part(content: Any) -> Part:
    assert isinstance(content, Part)
    return content


def test_stop_sequence_and_unknown_reasons_are_those_that_the_client_knows():
    def reason(choice: Choice) -> str:
        return json.loads(DIALECT.write_response(ChatResponse((choice,), "m"), META))["finish_reason"]

    assert reason(Choice((), "stop", stop_sequence="x")) == "stop_sequence"
    assert reason(Choice((), "content_filter")) == "content_filter"
    assert reason(Choice((), "something")) == "unknown"


def test_block_for_another_provider_is_refused():
    with pytest.raises(InvalidRequest, match="one model or provider"):
        read({"type": "unknown", "data": {}, "provider_name": "p"})


def test_path_of_a_part_is_that_of_its_block():
    body = json.dumps({"model_name": "m", "input": {"system": "s", "messages": [{"role": "user", "content": "x"}]}}).encode()
    parsed = DIALECT.parse_request(body).body
    assert DIALECT.caller_path(parsed, "messages[0].content[0]") == "input.system"
    assert DIALECT.caller_path(parsed, "messages[1].content[2].extra") == "input.messages[0].content[2].extra"
