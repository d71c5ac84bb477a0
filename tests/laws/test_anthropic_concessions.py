"""What chats of other dialects become at Anthropic's: what is said in its words, what is refused, and what is let go and reported."""

import base64
import time
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
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.structured_output import JsonObject, JsonSchema, Regex
from tests.laws.anthropics import raw

DIALECT = AnthropicMessages()
PNG = Inline("image/png", "iVBO")
F, G = Tool("f", parameters=raw({"type": "object"})), Tool("g")


def chat(*messages: Message, **more: Any) -> ChatRequest:
    return ChatRequest("openai_chat", "m", messages or (said("user", Text("Hi")),), **more)


def said(role: Role, *parts: Content, **more: Any) -> Message:
    return Message(role, parts, **more)


def sent(request: ChatRequest, *dropped: str) -> dict[str, Any]:
    """What goes to the engine, all that must be let go being let go; and that this is reported, in order."""
    concessions = DropPolicy(lambda _: True, {}, "a host")
    body = DIALECT.write_request(request, concessions)
    assert concessions.dropped == list(dropped)
    # It must be what Anthropic takes, too.
    DIALECT.parse_request(Body({**body, "max_tokens": 9000}).write())
    told = Body.read(body.write())
    return {key: told.value(key) for key in told}


def refused(request: ChatRequest) -> str | None:
    """The field for whose sake it is refused where nothing may be let go; None if it is not."""
    try:
        DIALECT.write_request(request, DropPolicy(lambda _: False, {}, "a host"))
    except Unsupported as refusal:
        return refusal.param
    return None


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (chat(n=2), "n"),
        (chat(seed=1), "seed"),
        (chat(logit_bias=raw({"1": 2})), "logit_bias"),
        (chat(logprobs=True), "logprobs"),
        (chat(frequency_penalty=0.5), "frequency_penalty"),
        (chat(presence_penalty=-0.5), "presence_penalty"),
        (chat(verbosity="low"), "verbosity"),
        (chat(temperature=1.5), "temperature"),
        (chat(output=JsonObject()), "output"),
        (chat(output=Regex("a")), "output"),
        (chat(extra={"min_p": Raw(b"0.1")}), "min_p"),
        (chat(prompt="Once"), "prompt"),
        (chat(said("user", Text("Hi"), name="Ada")), "messages[0].name"),
        (chat(said("user", Text("Hi")), said("user", Audio(PNG), Text("Hi"))), "messages[1].content[0]"),
        (chat(said("user", Text("Hi"), Image(Uploaded("openai_responses", "file-1")))), "messages[0].content[1]"),
        (chat(said("user", Text("Hi"), File(Uploaded("openai_responses", "file-1")))), "messages[0].content[1]"),
        (chat(said("user", Text("Hi"), File(Inline("application/msword", "AA==")))), "messages[0].content[1]"),
        (chat(said("user", Text("Hi", extra={"new": Raw(b"1")}))), "messages[0].content[0].new"),
        (chat(said("user", Text("Hi"), extra={"new": Raw(b"1")})), "messages[0].new"),
        (
            chat(said("user", Text("Hi")), said("assistant", Opaque("openai_responses", raw({"type": "web_search_call"})))),
            "messages[1].content[0]",
        ),
        (chat(said("user", Text("Hi")), said("assistant", ToolCall("c", "f", "x", custom=True))), "messages[1].content[0]"),
        (chat(tools=(Tool("f", custom=True),)), "tools[0]"),
        (chat(tools=(F, HostTool("openai_responses", "web_search", raw({"type": "web_search"})))), "tools[1]"),
        (chat(tools=(Tool("f", extra={"new": Raw(b"1")}),)), "tools[0].new"),
        (chat(tool_choice=ToolChoice("required")), "tool_choice"),
    ],
)
def test_what_anthropic_cannot_do_is_refused_or_reported(request_: ChatRequest, field: str) -> None:
    assert refused(request_) == field
    body = sent(request_, field)
    assert field not in body


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (chat(metadata={"a": "b"}), "metadata"),
        (chat(store=True), "store"),
        (chat(cache_key="k"), "cache_key"),
        (chat(safety_identifier="s"), "safety_identifier"),
        (chat(service_tier="flex"), "service_tier"),
        (chat(said("user", Image(PNG, detail="low"))), "messages[0].content[0].detail"),
        (chat(said("user", Text("Hi"), extra={"cache_control": raw({"type": "ephemeral"})})), "messages[0].cache_control"),
        (chat(said("user", Text("Hi")), said("assistant", Reasoning("hm"), Text("Ho"))), "reasoning"),
        (chat(said("user", Text("Hi")), said("assistant", Text("Ho"), extra={"parsed": raw({"a": 1})})), "messages[1].parsed"),
        (
            chat(said("user", Text("Hi")), said("assistant", ToolCall("c", "f", "{}", extra={"parsed_arguments": raw({"a": 1})}))),
            "messages[1].content[0].parsed_arguments",
        ),
        (chat(said("user", Text("Hi")), said("assistant", Text("Ho"), Opaque("x", raw({"type": "redacted_thinking"})))), "reasoning.seal"),
        (chat(said("user", Text("Hi")), said("assistant", Text("Ho", (Citation("x", raw({})),)))), "messages[1].content[0].citations"),
    ],
)
def test_hints_are_let_go_and_reported(request_: ChatRequest, field: str) -> None:
    assert refused(request_) is None
    sent(request_, field)


def test_reasoning_that_others_sealed_is_left_out() -> None:
    request = chat(said("user", Text("Hi")), said("assistant", Reasoning("hm", OpaqueState("gemini", "s")), Text("Ho")))
    assert sent(request, "reasoning.seal", "reasoning")["messages"][1] == {"role": "assistant", "content": "Ho"}


def test_what_is_no_demand_is_not_said() -> None:
    request = chat(n=1, frequency_penalty=0.0, presence_penalty=0.0, logprobs=False, tool_choice=ToolChoice("auto"), parallel_calls=True)
    assert sent(request) == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_fields_are_said_in_anthropics_words() -> None:
    request = chat(
        max_tokens=5,
        temperature=0.5,
        top_p=0.5,
        stop=("a",),
        user="u",
        service_tier="default",
        output=JsonSchema(raw({"type": "object"}), "n"),
    )
    body = sent(request)
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
def test_how_much_to_think_is_said_in_anthropics_words(thinking: Thinking, expected: dict[str, Any]) -> None:
    body = sent(chat(thinking=thinking))
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
def test_the_choice_of_tools(choice: ToolChoice | None, parallel: bool | None, expected: Any) -> None:
    assert sent(chat(tools=(F, G), tool_choice=choice, parallel_calls=parallel)).get("tool_choice") == expected


def test_of_tools_that_may_be_called_only_those_are_sent() -> None:
    body = sent(chat(tools=(F, G), tool_choice=ToolChoice("auto", allowed=("g",))))
    assert body["tools"] == [{"name": "g", "input_schema": {"type": "object", "properties": {}}}]


def test_how_to_tell_reasoning_that_is_not_asked_for_is_a_hint() -> None:
    assert "thinking" not in sent(chat(thinking=Thinking(summary="auto")), "thinking.summary")
    assert sent(chat(thinking=Thinking("none", summary="auto")), "thinking.summary")["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("output", "schema", "dropped"),
    [
        (JsonSchema(raw({"type": "object"}), "n", "D", True), {"description": "D", "type": "object"}, ()),
        (JsonSchema(raw({"description": "E"}), description="D"), {"description": "E"}, ("output",)),
        (JsonSchema(raw({"type": "object"}), strict=False), {"type": "object"}, ("output.strict",)),
    ],
)
def test_what_is_said_of_a_schema_is_said_in_it_or_reported(output: JsonSchema, schema: dict[str, Any], dropped: tuple[str, ...]) -> None:
    assert sent(chat(output=output), *dropped)["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


def test_a_description_of_a_schema_that_is_no_object_is_reported() -> None:
    concessions = DropPolicy(lambda _: False, {}, "a host")
    DIALECT.write_request(chat(output=JsonSchema(Raw(b"true"), description="D")), concessions)
    assert concessions.dropped == ["output"]


def test_thousands_of_tools_are_picked_out_in_no_time() -> None:
    names = tuple(str(at) for at in range(20_000))
    request = chat(tools=tuple(Tool(name) for name in names), tool_choice=ToolChoice("auto", allowed=names))
    begun = time.process_time()
    DIALECT.write_request(request, DropPolicy(lambda _: False, {}, "a host"))
    assert time.process_time() - begun < 1


def test_instructions_at_the_head_are_the_systems_and_later_ones_stay() -> None:
    messages = [said("system", Text("A")), said("developer", Text("B")), said("user", Text("Hi")), said("developer", Text("C"))]
    body = sent(chat(*messages))
    assert body["system"] == [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert body["messages"] == [{"role": "user", "content": "Hi"}, {"role": "system", "content": "C"}]


def test_instructions_alone_are_answered() -> None:
    body = sent(chat(said("system", Text("A")), said("system", Text("B"))))
    assert (body["system"], body["messages"]) == ("A", [{"role": "user", "content": "B"}])


def test_roles_take_turns_and_empty_texts_are_left_out() -> None:
    body = sent(
        chat(said("user", Text("A")), said("user", Text("")), said("user", Text("B")), said("assistant", Text("")), said("user", Text("C")))
    )
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": text} for text in "ABC"]}]


def test_results_come_first_after_their_calls() -> None:
    calls = said("assistant", Text("Let me"), ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "f", ""))
    back = said("user", Text("And?"), ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"), Image(PNG)), is_error=True))
    body = sent(chat(said("user", Text("Hi")), calls, back))
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


def test_ids_that_anthropic_refuses_are_made_anew_the_same_in_call_and_result() -> None:
    call, result = said("assistant", ToolCall("fc:1.2", "f", "{}")), said("user", ToolResult("fc:1.2", (Text("1"),)))
    body = sent(chat(said("user", Text("Hi")), call, result))
    made = body["messages"][1]["content"][0]["id"]
    assert made == body["messages"][2]["content"][0]["tool_use_id"]
    assert made.replace("_", "").isalnum()


def test_arguments_that_are_no_object_are_sent_whole() -> None:
    body = sent(chat(said("user", Text("Hi")), said("assistant", ToolCall("c", "f", "[1"))))
    assert body["messages"][1]["content"][0]["input"] == {"_unparsed": "[1"}


def test_media_and_documents() -> None:
    text = Inline("text/markdown", base64.b64encode(b"# Hi").decode())
    parts = [Image(Url("https://a/b.png")), File(Inline("application/pdf", "JVBE"), "a.pdf"), File(text), File(Url("https://a/b.pdf"))]
    body = sent(chat(said("user", *parts, Refusal("No."))))
    assert body["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}, "title": "a.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# Hi"}},
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
        {"type": "text", "text": "No."},
    ]


def test_cache_hints_on_parts_and_tools_are_honoured_whoever_says_them() -> None:
    hint = {"cache_control": raw({"type": "ephemeral"})}
    body = sent(chat(said("user", Text("Hi", extra=hint)), tools=(Tool("f", extra=hint),)))
    assert body["messages"][0]["content"][0]["cache_control"] == body["tools"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, Thinking(budget_tokens=1024)),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Thinking(adaptive=True, summary="omitted")),
        ({"thinking": {"type": "disabled"}}, Thinking("none")),
        ({"output_config": {"effort": "max"}}, Thinking("max")),
        ({"thinking": None}, None),
    ],
)
def test_how_much_to_think_is_read(asked: dict[str, Any], expected: Thinking | None) -> None:
    assert read(asked).thinking == expected


def read(asked: dict[str, Any]) -> ChatRequest:
    body = {"model": "m", "max_tokens": 9000, "messages": [{"role": "user", "content": "Hi"}], **asked}
    return DIALECT.read_request(DIALECT.parse_request(bytes(raw(body))).body)


OF_ITS_OWN: list[dict[str, Any]] = [
    {"thinking": {"type": "disabled"}, "output_config": {"effort": "low", "task_budget": {"total": 9}}},
    {"thinking": {"type": "between_tools"}},
    {"thinking": {"type": "adaptive", "new": 1}},
    {"metadata": {"user_id": "u", "more": "m"}},
    {"metadata": {"user_id": "u", "more": 1}},
    {"container": {"id": "c"}, "mcp_servers": [{"type": "url", "url": "u", "name": "n"}], "context_management": {"edits": []}},
    {"messages": [{"role": "user", "content": "Hi", "new": 1}]},
    {"tools": [{"name": "f", "input_schema": {}, "defer_loading": True, "input_examples": [{}]}]},
    {"tool_choice": {"type": "auto", "new": 1}, "tools": [{"name": "f", "input_schema": {}}]},
    {"output_config": {"format": {"type": "json_schema", "schema": {}, "new": 1}}},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a/b", "new.er": 1}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "", "media_type": "text/html"}}]}]},
    {"thinking": {"type": "between_tools"}, "thinking.new": 1},
]


@pytest.mark.parametrize("asked", OF_ITS_OWN)
def test_what_no_other_dialect_has_is_said_again_to_anthropic(asked: dict[str, Any]) -> None:
    concessions = DropPolicy(lambda _: False, DIALECT.field_names, "a host")
    body = Body.read(DIALECT.write_request(read(asked), concessions).write())
    assert {key: body.value(key) for key in asked} == asked


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"thinking": {"type": "adaptive", "new": 1}}, "thinking.new"),
        ({"tool_choice": {"type": "auto", "new": 1}}, "tool_choice.new"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}, "new": 1}}}, "output_config.format.new"),
        ({"output_format": {"type": "json_schema", "schema": {}, "new": 1}}, "output_format.new"),
    ],
)
def test_unknown_keys_of_objects_that_are_understood_are_kept_by_their_paths(asked: dict[str, Any], field: str) -> None:
    assert read(asked).extra == {field: Raw(b"1")}


def test_unknown_keys_of_sources_are_kept_by_their_paths() -> None:
    sources: list[dict[str, Any]] = [
        {"type": "base64", "media_type": "image/png", "data": "AA=="},
        {"type": "url", "url": "u"},
        {"type": "file", "file_id": "f"},
    ]
    blocks = [{"type": kind, "source": {**source, "new": 1}} for kind in ("image", "document") for source in sources]
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}}
    *parts, plain = read({"messages": [{"role": "user", "content": [*blocks, text]}]}).messages[0].parts
    assert [getattr(part, "extra", None) for part in parts] == [{"source.new": Raw(b"1")}] * 6
    assert getattr(plain, "extra", None) == {}


def test_the_older_word_for_a_schema_is_understood() -> None:
    schema = {"type": "object"}
    assert read({"output_format": {"type": "json_schema", "schema": schema}}).output == JsonSchema(raw(schema))


def test_what_the_road_handles_is_not_meant() -> None:
    assert read({"stream": True, "episode_id": "e", "tensorzero::tags": {"a": "b"}}) == read({})
