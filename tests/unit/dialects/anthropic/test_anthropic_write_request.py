"""Chats of other dialects written for Anthropic: fields are renamed, refused, or dropped and reported; its own fields are read back."""

import base64
from typing import Any

import pytest
from msgspec import Raw

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Citation,
    Content,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Reasoning,
    Refusal,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Uploaded,
    Url,
)
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonObject, JsonSchema, Regex
from providers.canonical.raw_json import Body
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.drop_policy import DropPolicy
from tests.support.processes.cpu_time import cpu_time_growth
from tests.support.strategies.anthropic_strategies import raw_json

DIALECT = AnthropicMessages()
PNG = Inline("image/png", "iVBO")
F, G = Tool("f", parameters=raw_json({"type": "object"})), Tool("g")


def chat(*messages: Message, **more: Any) -> ChatRequest:
    return ChatRequest("openai_chat", "m", messages or (message("user", Text("Hi")),), **more)


def message(role: Role, *parts: Content, **more: Any) -> Message:
    return Message(role, parts, **more)


def write_body(request: ChatRequest, *dropped: str) -> dict[str, Any]:
    """The body for the engine where everything may be dropped. Asserts that exactly `dropped` is reported, in order."""
    drop_policy = DropPolicy(lambda _: True, {}, "a host")
    body = DIALECT.write_request(request, drop_policy)
    assert drop_policy.dropped == list(dropped)
    # Anthropic must accept it, too.
    DIALECT.parse_request(Body({**body, "max_tokens": 9000}).write())
    parsed = Body.read(body.write())
    return {key: parsed.value(key) for key in parsed}


def refused_field(request: ChatRequest) -> str | None:
    """The field for which the request is refused where nothing may be dropped; None if it is accepted."""
    try:
        DIALECT.write_request(request, DropPolicy(lambda _: False, {}, "a host"))
    except Unsupported as refusal:
        return refusal.param
    return None


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (chat(n=2), "n"),
        (chat(logit_bias=raw_json({"1": 2})), "logit_bias"),
        (chat(logprobs=True), "logprobs"),
        (chat(frequency_penalty=0.5), "frequency_penalty"),
        (chat(presence_penalty=-0.5), "presence_penalty"),
        (chat(temperature=1.5), "temperature"),
        (chat(output=JsonObject()), "output"),
        (chat(output=Regex("a")), "output"),
        (chat(extra={"min_p": Raw(b"0.1")}), "min_p"),
        (chat(prompt="Once"), "prompt"),
        (chat(message("user", Image(Inline("image/png", "iVBORw==")), name="Ada")), "messages[0].name"),
        (chat(message("user", Text("Hi")), message("user", Audio(PNG), Text("Hi"))), "messages[1].content[0]"),
        (chat(message("user", Text("Hi"), Image(Uploaded("openai_responses", "file-1")))), "messages[0].content[1]"),
        (chat(message("user", Text("Hi"), File(Uploaded("openai_responses", "file-1")))), "messages[0].content[1]"),
        (chat(message("user", Text("Hi"), File(Inline("application/msword", "AA==")))), "messages[0].content[1]"),
        (chat(message("user", Text("Hi", extra={"new": Raw(b"1")}))), "messages[0].content[0].new"),
        (chat(message("user", Text("Hi"), extra={"new": Raw(b"1")})), "messages[0].new"),
        (
            chat(message("user", Text("Hi")), message("assistant", Opaque("openai_responses", raw_json({"type": "file_search_call"})))),
            "messages[1].content[0]",
        ),
        (chat(tools=(Tool("f", custom=True),)), "tools[0]"),
        (chat(tools=(F, HostTool("openai_responses", "web_search", raw_json({"type": "web_search"})))), "tools[1]"),
        (chat(tools=(Tool("f", extra={"new": Raw(b"1")}),)), "tools[0].new"),
        (chat(tool_choice=ToolChoice("required")), "tool_choice"),
    ],
)
def test_unsupported_field_is_refused_or_dropped_and_reported(request_: ChatRequest, field: str) -> None:
    assert refused_field(request_) == field
    body = write_body(request_, field)
    assert field not in body


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (chat(metadata={"a": "b"}), "metadata"),
        (chat(store=True), "store"),
        (chat(seed=1), "seed"),
        (chat(verbosity="low"), "verbosity"),
        (chat(cache_key="k"), "cache_key"),
        (chat(safety_identifier="s"), "safety_identifier"),
        (chat(service_tier="flex"), "service_tier"),
        (chat(message("user", Image(PNG, detail="low"))), "messages[0].content[0].detail"),
        (chat(message("user", Text("Hi"), extra={"cache_control": raw_json({"type": "ephemeral"})})), "messages[0].cache_control"),
        (chat(message("user", Text("Hi")), message("assistant", Reasoning("hm"), Text("Ho"))), "reasoning"),
        (chat(message("user", Text("Hi")), message("assistant", Text("Ho"), extra={"parsed": raw_json({"a": 1})})), "messages[1].parsed"),
        (
            chat(
                message("user", Text("Hi")), message("assistant", ToolCall("c", "f", "{}", extra={"parsed_arguments": raw_json({"a": 1})}))
            ),
            "messages[1].content[0].parsed_arguments",
        ),
        (
            chat(message("user", Text("Hi")), message("assistant", Text("Ho"), Opaque("x", raw_json({"type": "redacted_thinking"})))),
            "reasoning.signature",
        ),
        (
            chat(message("user", Text("Hi")), message("assistant", Text("Ho", (Citation("x", raw_json({})),)))),
            "messages[1].content[0].citations",
        ),
    ],
)
def test_hint_fields_are_dropped_and_reported(request_: ChatRequest, field: str) -> None:
    assert refused_field(request_) is None
    write_body(request_, field)


def test_reasoning_signed_by_another_provider_is_left_out() -> None:
    request = chat(message("user", Text("Hi")), message("assistant", Reasoning("hm", OpaqueState("gemini", "s")), Text("Ho")))
    assert write_body(request, "reasoning.signature", "reasoning")["messages"][1] == {"role": "assistant", "content": "Ho"}


def test_neutral_values_are_not_sent() -> None:
    request = chat(n=1, frequency_penalty=0.0, presence_penalty=0.0, logprobs=False, tool_choice=ToolChoice("auto"), parallel_calls=True)
    assert write_body(request) == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_fields_are_written_with_anthropic_names() -> None:
    request = chat(
        max_tokens=5,
        temperature=0.5,
        top_p=0.5,
        stop=("a",),
        user="u",
        service_tier="default",
        output=JsonSchema(raw_json({"type": "object"}), "n"),
    )
    body = write_body(request)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    assert (body["stop_sequences"], body["metadata"], body["service_tier"]) == (["a"], {"user_id": "u"}, "standard_only")
    assert (body["max_tokens"], body["temperature"], body["top_p"]) == (5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (Thinking("none"), {"thinking": {"type": "disabled"}}),
        (Thinking("minimal"), {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (Thinking("xhigh"), {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}),
        (
            Thinking("low", summary="concise"),
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        (Thinking(budget_tokens=2048), {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (Thinking(), {}),
    ],
)
def test_thinking_effort_is_written_as_anthropic_thinking(thinking: Thinking, expected: dict[str, Any]) -> None:
    body = write_body(chat(thinking=thinking))
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == expected


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("required"), None, {"type": "any"}),
        (ToolChoice("named", "f"), False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        (ToolChoice("none"), False, {"type": "none"}),
    ],
)
def test_tool_choice_and_parallel_calls_are_written_as_anthropic_tool_choice(
    choice: ToolChoice | None, parallel: bool | None, expected: Any
) -> None:
    assert write_body(chat(tools=(F, G), tool_choice=choice, parallel_calls=parallel)).get("tool_choice") == expected


def test_only_allowed_tools_are_sent() -> None:
    body = write_body(chat(tools=(F, G), tool_choice=ToolChoice("auto", allowed=("g",))))
    assert body["tools"] == [{"name": "g", "input_schema": {"type": "object", "properties": {}}}]


def test_thinking_summary_without_thinking_is_a_hint() -> None:
    assert "thinking" not in write_body(chat(thinking=Thinking(summary="auto")), "thinking.summary")
    assert write_body(chat(thinking=Thinking("none", summary="auto")), "thinking.summary")["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("output", "schema", "dropped"),
    [
        (JsonSchema(raw_json({"type": "object"}), "n", "D", True), {"description": "D", "type": "object"}, ()),
        (JsonSchema(raw_json({"description": "E"}), description="D"), {"description": "E"}, ("output",)),
        (JsonSchema(raw_json({"type": "object"}), strict=False), {"type": "object"}, ("output.strict",)),
    ],
)
def test_schema_description_and_strict_go_into_the_schema_or_are_reported(
    output: JsonSchema, schema: dict[str, Any], dropped: tuple[str, ...]
) -> None:
    assert write_body(chat(output=output), *dropped)["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


def test_description_of_a_boolean_schema_is_reported() -> None:
    drop_policy = DropPolicy(lambda _: False, {}, "a host")
    DIALECT.write_request(chat(output=JsonSchema(Raw(b"true"), description="D")), drop_policy)
    assert drop_policy.dropped == ["output"]


def test_selecting_allowed_tools_takes_linear_time() -> None:
    def select(count: int) -> None:
        names = tuple(str(at) for at in range(count))
        request = chat(tools=tuple(Tool(name) for name in names), tool_choice=ToolChoice("auto", allowed=names))
        DIALECT.write_request(request, DropPolicy(lambda _: False, {}, "a host"))

    # Sixteen times the tools: sixteen times the time if it is linear, 256 times if it is quadratic.
    assert cpu_time_growth(select, 1_250, 20_000) < 100


def test_leading_instructions_become_system_and_later_ones_stay_in_place() -> None:
    messages = [message("system", Text("A")), message("developer", Text("B")), message("user", Text("Hi")), message("developer", Text("C"))]
    body = write_body(chat(*messages))
    assert body["system"] == [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert body["messages"] == [{"role": "user", "content": "Hi"}, {"role": "system", "content": "C"}]


def test_instructions_alone_send_the_last_one_as_a_user_message() -> None:
    body = write_body(chat(message("system", Text("A")), message("system", Text("B"))))
    assert (body["system"], body["messages"]) == ("A", [{"role": "user", "content": "B"}])


def test_adjacent_user_messages_merge_and_empty_texts_are_left_out() -> None:
    body = write_body(
        chat(
            message("user", Text("A")),
            message("user", Text("")),
            message("user", Text("B")),
            message("assistant", Text("")),
            message("user", Text("C")),
        )
    )
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": text} for text in "ABC"]}]


def test_tool_results_are_written_before_other_user_content() -> None:
    calls = message("assistant", Text("Let me"), ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "f", ""))
    results_message = message("user", Text("And?"), ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"), Image(PNG)), is_error=True))
    body = write_body(chat(message("user", Text("Hi")), calls, results_message))
    assert body["messages"][1]["content"][1:] == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {}},
    ]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}, image], "is_error": True},
        {"type": "text", "text": "And?"},
    ]


def test_invalid_call_ids_are_replaced_alike_in_call_and_result() -> None:
    call, result = message("assistant", ToolCall("fc:1.2", "f", "{}")), message("user", ToolResult("fc:1.2", (Text("1"),)))
    body = write_body(chat(message("user", Text("Hi")), call, result))
    new_id = body["messages"][1]["content"][0]["id"]
    assert new_id == body["messages"][2]["content"][0]["tool_use_id"]
    assert new_id.replace("_", "").isalnum()


def test_unparsable_arguments_are_sent_under_the_unparsed_key() -> None:
    body = write_body(chat(message("user", Text("Hi")), message("assistant", ToolCall("c", "f", "[1"))))
    assert body["messages"][1]["content"][0]["input"] == {"_unparsed": "[1"}


def test_images_documents_and_refusals_become_anthropic_blocks() -> None:
    text = Inline("text/markdown", base64.b64encode(b"# Hi").decode())
    parts = [Image(Url("https://a/b.png")), File(Inline("application/pdf", "JVBE"), "a.pdf"), File(text), File(Url("https://a/b.pdf"))]
    body = write_body(chat(message("user", *parts, Refusal("No."))))
    assert body["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}, "title": "a.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# Hi"}},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
        {"type": "text", "text": "No."},
    ]


def test_cache_hints_on_parts_and_tools_are_honoured_for_any_caller_dialect() -> None:
    hint = {"cache_control": raw_json({"type": "ephemeral"})}
    body = write_body(chat(message("user", Text("Hi", extra=hint)), tools=(Tool("f", extra=hint),)))
    assert body["messages"][0]["content"][0]["cache_control"] == body["tools"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, Thinking(budget_tokens=1024)),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Thinking(adaptive=True, summary="omitted")),
        ({"thinking": {"type": "disabled"}}, Thinking("none")),
        ({"thinking": {"type": "between_tools"}}, Thinking("none", between_tools=True)),
        ({"output_config": {"effort": "max"}}, Thinking("max")),
        ({"thinking": None}, None),
    ],
)
def test_thinking_and_effort_are_read_as_canonical_thinking(fields: dict[str, Any], expected: Thinking | None) -> None:
    assert read_chat(fields).thinking == expected


def read_chat(fields: dict[str, Any]) -> ChatRequest:
    body = {"model": "m", "max_tokens": 9000, "messages": [{"role": "user", "content": "Hi"}], **fields}
    return DIALECT.read_request(DIALECT.parse_request(bytes(raw_json(body))).body)


ANTHROPIC_ONLY_FIELDS: list[dict[str, Any]] = [
    {"thinking": {"type": "disabled"}, "output_config": {"effort": "low", "task_budget": {"total": 9}}},
    {"thinking": {"type": "between_tools"}},
    {"thinking": {"type": "adaptive", "new": 1}},
    {"metadata": {"user_id": "u", "more": "m"}},
    {"metadata": {"user_id": "u", "more": 1}},
    {"container": {"id": "c"}, "mcp_servers": [{"type": "url", "url": "u", "name": "n"}], "context_management": {"edits": []}},
    {"messages": [{"role": "user", "content": "Hi", "new": 1}]},
    {"tools": [{"name": "f", "input_schema": {"type": "object"}, "defer_loading": True, "input_examples": [{}]}]},
    {"tool_choice": {"type": "auto", "new": 1}, "tools": [{"name": "f", "input_schema": {"type": "object"}}]},
    {"output_config": {"format": {"type": "json_schema", "schema": {}, "new": 1}}},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a/b", "new.er": 1}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "", "media_type": "text/html"}}]}]},
    {"thinking": {"type": "between_tools", "display": "omitted", "new": 1}},
]


@pytest.mark.parametrize("fields", ANTHROPIC_ONLY_FIELDS)
def test_anthropic_only_fields_round_trip_to_anthropic(fields: dict[str, Any]) -> None:
    drop_policy = DropPolicy(lambda _: False, DIALECT.field_names, "a host")
    body = Body.read(DIALECT.write_request(read_chat(fields), drop_policy).write())
    assert {key: body.value(key) for key in fields} == fields


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"thinking": {"type": "adaptive", "new": 1}}, "thinking.new"),
        ({"tool_choice": {"type": "auto", "new": 1}}, "tool_choice.new"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}, "new": 1}}}, "output_config.format.new"),
        ({"output_format": {"type": "json_schema", "schema": {}, "new": 1}}, "output_format.new"),
    ],
)
def test_unknown_keys_of_known_objects_are_kept_by_path(fields: dict[str, Any], field: str) -> None:
    assert read_chat(fields).extra == {field: Raw(b"1")}


def test_unknown_keys_of_media_sources_are_kept_by_path() -> None:
    sources: list[dict[str, Any]] = [
        {"type": "base64", "media_type": "image/png", "data": "AA=="},
        {"type": "url", "url": "u"},
        {"type": "file", "file_id": "f"},
    ]
    blocks = [{"type": kind, "source": {**source, "new": 1}} for kind in ("image", "document") for source in sources]
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}}
    *parts, plain = read_chat({"messages": [{"role": "user", "content": [*blocks, text]}]}).messages[0].parts
    assert [getattr(part, "extra", None) for part in parts] == [{"source.new": Raw(b"1")}] * 6
    assert getattr(plain, "extra", None) == {}


def test_deprecated_output_format_field_is_read() -> None:
    schema = {"type": "object"}
    assert read_chat({"output_format": {"type": "json_schema", "schema": schema}}).output == JsonSchema(raw_json(schema))


def test_stream_episode_and_tags_are_not_part_of_the_canonical_chat() -> None:
    assert read_chat({"stream": True, "episode_id": "e", "tensorzero::tags": {"a": "b"}}) == read_chat({})
