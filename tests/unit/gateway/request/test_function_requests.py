"""Requests to functions: in each caller's API, the variant's prompt, parameters, tools and format go in, and the rest stays as it is."""

import itertools
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from app.domain.functions import FunctionConfig, FunctionTool, VariantConfig
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.functions.function_table import compile_function
from app.gateway.request.reserved_fields import function_fields
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, CALLER_DIALECTS
from tests.support.strategies.chat_strategies import bounded

NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}
SYSTEM = VariantConfig("m", system_template="Answer {{ name }}.")
TOOL = FunctionTool("look_up", "Looks up.", {"type": "object", "properties": {"q": {"type": "string"}}})
CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def function_of(variant: VariantConfig, **fields: Any) -> FunctionConfig:
    return FunctionConfig({"v": variant}, **fields)


def make(function: FunctionConfig, dialect: str, body: dict[str, Any], input: Any = None) -> dict[str, Any]:
    spoken = CALLER_DIALECTS[dialect]
    raw = None if input is None else Raw(msgspec.json.encode(input))
    request = FunctionRequest(
        compile_function("f", function), spoken, spoken.parse_request(json.dumps({"model": "f", **body}).encode()), raw
    )
    return json.loads(request.write("v")[1])


def chat(function: FunctionConfig, messages: Any, input: Any = None, **fields: Any) -> dict[str, Any]:
    return make(function, "openai_chat", {"messages": messages, **fields}, input)


HI = [{"role": "user", "content": "Hi"}]
BODIES = {
    "openai_chat": {"messages": HI},
    "openai_responses": {"input": "Hi"},
    "anthropic_messages": {"messages": HI, "max_tokens": 9},
    "anthropic_count_tokens": {"messages": HI},
}

values = st.recursive(st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3))


@bounded
@given(
    st.sampled_from(sorted(BODIES)),
    st.dictionaries(st.text(min_size=1, max_size=9).map(lambda name: f"x-{name}"), values, max_size=4),
    st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=30)}), max_size=4),
)
def test_variant_without_templates_and_params_changes_nothing(dialect: str, fields: dict[str, Any], history: list[Any]):
    body = {**BODIES[dialect], **fields}
    key = "input" if dialect == "openai_responses" else "messages"
    if history:
        body[key] = [*history, *HI]
    raw = json.dumps({"model": "f", **body}, ensure_ascii=False).encode()
    request = FunctionRequest(
        compile_function("f", function_of(VariantConfig("m"))), CALLER_DIALECTS[dialect], CALLER_DIALECTS[dialect].parse_request(raw), None
    )
    assert json.loads(request.write("v")[1]) == {"model": "f", **body}


@pytest.mark.parametrize(
    ("dialect", "body", "key", "expected"),
    [
        ("openai_chat", {"messages": HI}, "messages", [{"role": "system", "content": "Answer Ada."}, *HI]),
        ("openai_responses", {"input": "Hi"}, "instructions", "Answer Ada."),
        ("openai_responses", {"input": HI}, "instructions", "Answer Ada."),
        ("anthropic_messages", {"messages": HI, "max_tokens": 9}, "system", "Answer Ada."),
        ("anthropic_count_tokens", {"messages": HI}, "system", "Answer Ada."),
    ],
)
def test_system_template_is_rendered_with_the_input_field(dialect: str, body: dict[str, Any], key: str, expected: Any):
    function = function_of(SYSTEM, schemas={"system": NAMED})
    made = make(function, dialect, {**body, "unknown": {"a": 1}}, {"system": {"name": "Ada"}})
    assert made == {"model": "f", **body, "unknown": {"a": 1}, key: expected}


BLOCKS: Any = [
    {"type": "text", "narthex::arguments": {"name": "Ada"}},
    {"type": "text", "tensorzero::arguments": {"name": "Ada"}},
    {"type": "narthex::template", "arguments": {"name": "Ada"}},
    {"type": "tensorzero::template", "name": "system", "arguments": {"name": "Ada"}},
]


@pytest.mark.parametrize("block", BLOCKS)
def test_system_template_is_rendered_with_a_block_of_the_system_message(block: Any):
    function = function_of(SYSTEM, schemas={"system": NAMED})
    assert chat(function, [{"role": "developer", "content": [block]}, *HI])["messages"] == [
        {"role": "developer", "content": "Answer Ada."},
        *HI,
    ]
    made = make(function, "openai_responses", {"input": [{"role": "system", "content": [block]}, *HI]})
    assert made["input"] == [{"role": "system", "content": "Answer Ada."}, *HI] and "instructions" not in made
    # The blocks of Messages' `system` are of type text, and have one.
    written = {"text": "", **block, "type": "text"} if "::template" not in block["type"] else None
    if written is not None:
        assert make(function, "anthropic_messages", {"system": [written], "messages": HI, "max_tokens": 9})["system"] == "Answer Ada."
    made = make(
        function, "anthropic_messages", {"messages": [{"role": "system", "content": [{"text": "", **block}]}, *HI], "max_tokens": 9}
    )
    assert made["messages"] == [{"role": "system", "content": "Answer Ada."}, *HI] and "system" not in made


def test_templates_of_roles_and_names_are_rendered_in_their_blocks():
    variant = VariantConfig(
        "m", user_template="<{{ user_text }}>", assistant_template="[{{ assistant_text }}]", templates={"greet": "Hello {{ name }}!"}
    )
    function = function_of(variant, schemas={"greet": NAMED})
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "x", "arguments": "{}"}}],
    }
    messages = [
        {"role": "user", "content": "a", "name": "Bob"},
        {"role": "assistant", "content": "b"},
        call,
        {"role": "tool", "tool_call_id": "1", "content": "c"},
        {"role": "user", "content": [{"type": "text", "text": "d"}, image, {"type": "narthex::raw_text", "value": "e"}]},
        {"role": "user", "content": [{"type": "narthex::template", "name": "greet", "arguments": {"name": "Ada"}}]},
    ]
    assert chat(function, messages)["messages"] == [
        {"role": "user", "content": "<a>", "name": "Bob"},
        {"role": "assistant", "content": "[b]"},
        call,
        {"role": "tool", "tool_call_id": "1", "content": "c"},
        {"role": "user", "content": [{"type": "text", "text": "<d>"}, image, {"type": "text", "text": "e"}]},
        {"role": "user", "content": "Hello Ada!"},
    ]
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "d"}, {"type": "narthex::raw_text", "value": "e"}]},
        {"type": "reasoning", "summary": []},
    ]
    assert make(function, "openai_responses", {"input": items})["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "<d>"}, {"type": "input_text", "text": "e"}]},
        {"type": "reasoning", "summary": []},
    ]
    assert make(function, "openai_responses", {"input": "d"})["input"] == [{"role": "user", "content": "<d>"}]


def test_text_of_the_system_is_the_input_of_a_template_that_takes_it():
    function = function_of(VariantConfig("m", system_template="Be kind.{{ system_text }}"))
    assert chat(function, [{"role": "system", "content": " And brief."}, *HI])["messages"][0]["content"] == "Be kind. And brief."
    assert chat(function, HI)["messages"][0] == {"role": "system", "content": "Be kind."}
    assert (
        make(function, "anthropic_messages", {"system": " And brief.", "messages": HI, "max_tokens": 9})["system"] == "Be kind. And brief."
    )
    assert make(function, "openai_responses", {"instructions": " And brief.", "input": "Hi"})["instructions"] == "Be kind. And brief."


FIXED = function_of(VariantConfig("m", system_template="Be kind."))
SCHEMA = function_of(SYSTEM, schemas={"system": NAMED})
OF_USER = function_of(VariantConfig("m", user_template="{{ name }}"), schemas={"user": NAMED})
TOO_HOT = function_of(VariantConfig("m", params={"temperature": 9}))
UNKNOWN_TEMPLATE = {"type": "narthex::template", "name": "x"}
SYSTEM_TEXT = {"role": "system", "content": "x"}


@pytest.mark.parametrize(
    ("function", "dialect", "body", "input", "param", "message"),
    [
        (FIXED, "openai_chat", {"messages": [SYSTEM_TEXT, *HI]}, None, "messages[0].content", "takes no text: leave the message out"),
        (FIXED, "anthropic_messages", {"system": "x", "messages": HI, "max_tokens": 9}, None, "system", "takes no text"),
        (FIXED, "openai_responses", {"instructions": "x", "input": "Hi"}, None, "instructions", "takes no text"),
        (SCHEMA, "openai_chat", {"messages": HI}, None, "narthex::input.system", '"name" is a required property'),
        (SCHEMA, "openai_chat", {"messages": HI}, {"system": {"name": 3}}, "narthex::input.system.name", '3 is not of type "string"'),
        (SCHEMA, "openai_chat", {"messages": HI}, {"user": {}}, "narthex::input", "must be"),
        (SCHEMA, "openai_chat", {"messages": HI}, [], "narthex::input", "must be an object"),
        (SCHEMA, "openai_chat", {"messages": [SYSTEM_TEXT, *HI]}, None, "messages[0].content", "with the variables of its schema"),
        (SCHEMA, "openai_chat", {"messages": [SYSTEM_TEXT, *HI]}, {"system": {"name": "a"}}, "messages[0]", "has more"),
        (SCHEMA, "openai_responses", {"instructions": "x", "input": "Hi"}, {"system": {"name": "a"}}, "instructions", "not both"),
        (OF_USER, "openai_chat", {"messages": HI}, None, "messages[0].content", "narthex::raw_text"),
        (OF_USER, "anthropic_messages", {"messages": HI, "max_tokens": 9}, None, "messages.0.content", "narthex::template"),
        (OF_USER, "openai_chat", {"messages": HI}, {"system": {}}, "narthex::input", "has no system template"),
        (
            *(OF_USER, "openai_chat", {"messages": [{"role": "user", "content": [{"type": "text", "narthex::arguments": {"name": 1}}]}]}),
            *(None, "messages[0].content[0].narthex::arguments.name", '1 is not of type "string"'),
        ),
        (
            *(OF_USER, "anthropic_messages", {"messages": [{"role": "user", "content": [UNKNOWN_TEMPLATE]}], "max_tokens": 9}),
            *(None, "messages.0.content.0", "has no template 'x'"),
        ),
        (
            *(OF_USER, "openai_chat", {"messages": [{"role": "user", "content": [{"type": "narthex::raw_text"}]}]}),
            *(None, "messages[0].content[0]", "missing required field `value`"),
        ),
        (
            *(OF_USER, "openai_chat", {"messages": [{"role": "user", "content": [{"type": "text", "narthex::arguments": 5}]}]}),
            *(None, "messages[0].content[0]", "Expected `object | null`, got `int`"),
        ),
        (function_of(VariantConfig("m")), "openai_completions", {"prompt": "x"}, None, "model", "is a function, which answers chats"),
        (function_of(VariantConfig("m")), "openai_embeddings", {"input": "x"}, None, "model", "is a function, which answers chats"),
        (function_of(VariantConfig("m")), "openai_chat", {"prompt": "x"}, None, "model", "is a function, which answers chats"),
        (TOO_HOT, "openai_chat", {"messages": HI}, None, "temperature", "no valid request"),
    ],
)  # fmt: skip
def test_input_that_templates_do_not_take_is_refused_with_its_path(
    function: FunctionConfig, dialect: str, body: dict[str, Any], input: Any, param: str, message: str
):
    with pytest.raises(InvalidRequest) as refused:
        make(function, dialect, body, input)
    assert message in refused.value.message and refused.value.param == param


PARAMS = VariantConfig("m", params={"temperature": 0.2, "max_tokens": 5, "stop": "END", "reasoning_effort": "low", "top_k": 3})


def test_params_are_set_unless_the_caller_sets_them():
    function = function_of(PARAMS)
    assert chat(function, HI) == {"model": "f", "messages": HI, **PARAMS.params}
    made = chat(function, HI, temperature=1.5, max_completion_tokens=7, stop=None)
    assert made == {
        "model": "f",
        "messages": HI,
        "temperature": 1.5,
        "max_completion_tokens": 7,
        "stop": "END",
        "reasoning_effort": "low",
        "top_k": 3,
    }
    assert make(function, "openai_responses", {"input": "Hi", "reasoning": {"summary": "auto"}}) == {
        **{"model": "f", "input": "Hi", "temperature": 0.2, "max_output_tokens": 5, "stop": "END", "top_k": 3},
        "reasoning": {"summary": "auto", "effort": "low"},
    }
    assert make(function, "anthropic_messages", {"messages": HI, "max_tokens": 9}) == {
        **{"model": "f", "messages": HI, "temperature": 0.2, "max_tokens": 9, "stop_sequences": ["END"], "top_k": 3},
        "output_config": {"effort": "low"},
    }
    assert make(function, "anthropic_count_tokens", {"messages": HI}) == {"model": "f", "messages": HI}


def test_tools_are_offered_unless_the_caller_offers_some():
    function = function_of(VariantConfig("m"), tools=(TOOL,), tool_choice="look_up", parallel_tool_calls=False)
    of_chat = {"type": "function", "function": {"name": "look_up", "description": "Looks up.", "parameters": TOOL.parameters}}
    assert chat(function, HI) == {
        **{"model": "f", "messages": HI, "tools": [of_chat], "parallel_tool_calls": False},
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
    }
    own = {"tools": [{"type": "function", "function": {"name": "own"}}]}
    assert chat(function, HI, **own) == {"model": "f", "messages": HI, **own}
    assert chat(function, HI, tool_choice="auto")["tool_choice"] == "auto"
    made = make(function, "openai_responses", {"input": "Hi"})
    assert made["tools"] == [{"type": "function", "strict": False, **of_chat["function"]}]  # pyright: ignore[reportGeneralTypeIssues]
    assert (made["tool_choice"], made["parallel_tool_calls"]) == ({"type": "function", "name": "look_up"}, False)
    made = make(function, "anthropic_messages", {"messages": HI, "max_tokens": 9})
    assert made["tools"] == [{"name": "look_up", "description": "Looks up.", "input_schema": TOOL.parameters}]
    assert made["tool_choice"] == {"type": "tool", "name": "look_up", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, {"strict": True}), ({"type": "object", "properties": {"a": {}}}, {})])
def test_output_schema_is_demanded_unless_the_caller_demands_a_format(schema: Any, strict: Any):
    function = function_of(VariantConfig("m"), type="json", output_schema=schema)
    format = {"type": "json_schema", "json_schema": {"name": "response", "schema": schema, **strict}}
    for sent in ({}, {"response_format": {"type": "text"}}):
        assert chat(function, HI, **sent)["response_format"] == format
    assert chat(function, HI, response_format={"type": "json_object"})["response_format"] == {"type": "json_object"}
    assert "response_format" not in chat(function, HI, guided_regex="a")
    made = make(function, "openai_responses", {"input": "Hi", "text": {"verbosity": "low"}})
    assert made["text"] == {"verbosity": "low", "format": {"type": "json_schema", "name": "response", "schema": schema, **strict}}
    made = make(function, "anthropic_messages", {"messages": HI, "max_tokens": 9, "output_config": {"effort": "low"}})
    assert made["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": schema}}


def test_native_api_of_tensorzero_reaches_functions_with_its_own_forms():
    variant = VariantConfig(
        "m",
        system_template="Answer {{ name }}.",
        user_template="<{{ name }}>",
        templates={"greet": "Hello {{ name }}!"},
        params={"temperature": 0.2, "stop": "END", "max_completion_tokens": 5, "seed": 1},
    )
    function = function_of(
        variant, schemas={"system": NAMED, "user": NAMED, "greet": NAMED}, tools=(TOOL,), tool_choice="look_up", parallel_tool_calls=False
    )
    messages: Any = [
        {"role": "user", "content": {"name": "a"}},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "text", "arguments": {"name": "c"}}, {"type": "raw_text", "value": "d"}]},
        {"role": "user", "content": [{"type": "template", "name": "greet", "arguments": {"name": "e"}}]},
    ]
    own: Any = {"name": "own", "parameters": {}}
    body: Any = {
        **{"function_name": "f", "input": {"system": {"name": "Ada"}, "messages": messages}, "additional_tools": [own]},
        "params": {"chat_completion": {"seed": 2}},
    }
    dialect = CALLER_CHAT_DIALECTS["tensorzero_inference"]
    request = FunctionRequest(compile_function("f", function), dialect, dialect.parse_request(json.dumps(body).encode()), None)
    written, raw = request.write("v")
    assert json.loads(raw) == {
        "model": "tensorzero::function_name::f",
        "input": {
            "system": "Answer Ada.",
            "messages": [
                {"role": "user", "content": "<a>"},
                messages[1],
                {"role": "user", "content": [{"type": "text", "text": "<c>"}, {"type": "text", "text": "d"}]},
                {"role": "user", "content": "Hello e!"},
            ],
        },
        **{"temperature": 0.2, "stop_sequences": ["END"], "max_tokens": 5, "seed": 2, "variant_name": "v"},
        **{"tool_choice": {"specific": "look_up"}, "parallel_tool_calls": False},
        "tools": [{"type": "function", "name": "look_up", "description": "Looks up.", "parameters": TOOL.parameters}, own],
    }
    assert written.output_tokens == 5
    with pytest.raises(InvalidRequest) as refused:
        body["input"]["messages"] = [{"role": "user", "content": "text"}]
        FunctionRequest(compile_function("f", function), dialect, dialect.parse_request(json.dumps(body).encode()), None).write("v")
    assert refused.value.param == "input.messages[0].content"


def test_system_input_of_inference_is_bounded_as_that_of_other_apis_is():
    dialect = CALLER_CHAT_DIALECTS["tensorzero_inference"]
    body = {"function_name": "f", "input": {"system": {"name": "a" * 300_000}, "messages": HI}}
    request = FunctionRequest(compile_function("f", SCHEMA), dialect, dialect.parse_request(json.dumps(body).encode()), None)
    with pytest.raises(InvalidRequest, match=r"`input\.system` may have 262144 bytes, not 3000") as refused:
        request.write("v")
    assert refused.value.param == "input.system"


def test_estimate_of_the_input_counts_what_is_rendered():
    function = compile_function("f", function_of(VariantConfig("m", system_template="x" * 3_000, params={"max_tokens": 5})))
    dialect = CALLER_DIALECTS["openai_chat"]
    sent = dialect.parse_request(json.dumps({"model": "f", "messages": HI}).encode())
    written, _ = FunctionRequest(function, dialect, sent, None).write("v")
    assert 1_000 < written.input_tokens - sent.input_tokens < 1_100
    assert (written.output_tokens, sent.output_tokens) == (5, None)


def test_templates_of_one_request_are_bounded_together():
    function = function_of(VariantConfig("m", user_template="{{ user_text * 100 }}"))
    with pytest.raises(InvalidRequest, match="all together"):
        chat(function, [{"role": "user", "content": "x" * 2_000}] * 20)


def test_time_of_all_templates_of_one_request_is_bounded():
    function = function_of(VariantConfig("m", user_template="{% for at in range(3000) %}{{ '' }}{% endfor %}{{ user_text }}"))
    chat(function, [{"role": "user", "content": "x"}] * 3)
    with pytest.raises(InvalidRequest, match="all together"):
        chat(function, [{"role": "user", "content": "x"}] * 1_000)


def test_pause_of_the_process_refuses_no_request(monkeypatch: pytest.MonkeyPatch):
    now = itertools.count(step=1.0)
    monkeypatch.setattr(time, "thread_time", lambda: next(now))
    function = function_of(VariantConfig("m", user_template="Hello {{ user_text }}!"))
    written = chat(function, [{"role": "user", "content": "x"}] * 9)
    assert written["messages"] == [{"role": "user", "content": "Hello x!"}] * 9


def test_slow_check_of_a_large_input_counts(monkeypatch: pytest.MonkeyPatch):
    function = function_of(
        VariantConfig("m", user_template="Hello {{ name }}!"), schemas={"user": {"properties": {"name": {}, "other": {}}}}
    )
    small, large = ([{"type": "narthex::template", "arguments": {"name": "x", "other": "y" * size}}] for size in (10, 200_000))
    chat(function, [{"role": "user", "content": large}])
    now = itertools.count(step=1.0)
    monkeypatch.setattr(time, "thread_time", lambda: next(now))
    chat(function, [{"role": "user", "content": small}])
    with pytest.raises(InvalidRequest, match="all together"):
        chat(function, [{"role": "user", "content": large}])


def test_input_that_is_nested_too_deeply_is_refused():
    spoken = CALLER_DIALECTS["openai_chat"]
    sent = spoken.parse_request(json.dumps({"model": "f", "messages": HI}).encode())
    deep = Raw(b'{"system": ' + b'{"a": ' * 5_000 + b"1" + b"}" * 5_001)
    with pytest.raises(InvalidRequest, match="narthex::input"):
        FunctionRequest(compile_function("f", function_of(SYSTEM)), spoken, sent, deep)


@pytest.mark.parametrize("value", [5, "", None, ["v"] * 5_000, "v" * 5_000])
def test_variant_that_is_no_name_is_refused(value: Any):
    body = Body.read(json.dumps({"narthex::variant_name": value}).encode())
    if value in (None, ""):
        assert function_fields(body).variant == value
    else:
        with pytest.raises(InvalidRequest, match="must be the name of a variant"):
            function_fields(body)
