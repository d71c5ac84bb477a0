"""Tools in the prompt: what a target without tools is sent, and which of its responses are calls."""

import asyncio
import json
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.emulation.emulation import Emulation
from app.gateway.emulation.response_trimmer import trim_response
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.canonical.chat import ChatResponse, Choice, Text, ToolCall
from providers.canonical.errors import Unsupported
from providers.catalogue import DIALECTS, build_provider
from providers.structured_output import read_constraint
from tests.support.request_translation import MEDIA, drop_nothing, endpoint_of, make_source

CITY: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": f"The {name}", "parameters": CITY}} for name in ("weather", "time")
]
HI: Any = [{"role": "user", "content": "Hi"}]


def translate(adapter: str, dialect: str = "openai_chat", may_drop: Any = drop_nothing, **fields: Any) -> TranslatedRequest:
    raw = json.dumps({"model": "m", "messages": HI, **fields}).encode()
    request = DIALECTS[dialect].parse_request(raw)
    constraint = read_constraint(dialect, request.body)
    source = make_source(request, raw, DIALECTS[dialect], MEDIA, may_drop, constraint=constraint, inference_id="ID")
    return asyncio.run(translate_request(source, endpoint_of(build_provider(adapter, "p", {}, "http://127.0.0.1:1")), Target("p", "m")))


def drop_anything(field: str) -> bool:
    return True


def sent(translated: TranslatedRequest) -> dict[str, Any]:
    return json.loads(translated.raw)


def reported(translated: TranslatedRequest) -> tuple[str, ...]:
    assert translated.emulation is not None
    return translated.emulation.fields


@pytest.mark.parametrize("adapter", ["mini_sglang", "llamacpp_python", "perplexity", "hyperbolic"])
def test_tools_are_described_to_targets_that_have_none(adapter: str):
    translated = translate(adapter, tools=TOOLS, tool_choice="auto")
    body = sent(translated)
    assert "tools" not in body and "tool_choice" not in body and reported(translated) == ("tools",)
    system, user = body["messages"]
    assert system["role"] == "system" and user == HI[0]
    described = [json.loads(line) for line in system["content"].split("<tools>\n")[1].split("\n</tools>")[0].splitlines()]
    assert described == [tool["function"] for tool in TOOLS]
    assert not translated.is_checked


def test_each_attempt_has_an_id_of_its_own_in_whatever_form_it_is_sent():
    """SGLang refuses an id that is still running there, and an abort would stop the other attempt."""
    raw = json.dumps({"model": "m", "messages": HI, "tools": TOOLS}).encode()
    request = DIALECTS["openai_chat"].parse_request(raw)
    source = make_source(request, raw, DIALECTS["openai_chat"], MEDIA, drop_nothing, inference_id="ID")

    chat = source.read_chat_now()
    forms = [source, source.with_body(request.body), source.with_request(request, raw, None)]
    forms += [source.with_chat(chat, None), source.with_chat(chat, None)]
    assert [form.next_upstream_id() for form in forms] == ["ID", "2-ID", "3-ID", "4-ID", "5-ID"]


def test_description_follows_the_instructions_of_the_caller():
    (system, _) = sent(translate("mini_sglang", tools=TOOLS, messages=[{"role": "system", "content": "Be brief."}, *HI]))["messages"]
    assert system["content"].startswith("Be brief.\n") and "<tools>" in system["content"]


def test_calls_and_results_of_earlier_turns_are_texts_and_roles_alternate():
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": '{"city":"Ulm"}'}}
        for at, name in enumerate(("weather", "time"))
    ]
    results = [{"role": "tool", "tool_call_id": f"c{at}", "content": text} for at, text in enumerate(("Sunny.", "Noon."))]
    turns = [*HI, {"role": "assistant", "content": "Let me look.", "tool_calls": calls}, *results, {"role": "user", "content": "And?"}]
    translated = translate("mini_sglang", tools=TOOLS, messages=turns)
    _, _, assistant, user = sent(translated)["messages"]
    assert user["role"] == "user" and user["content"].index("Sunny.") < user["content"].index("Noon.") < user["content"].index("And?")
    # What the model reads as its own calls is what it would have to write.
    assert translated.emulation is not None
    response = ChatResponse((Choice((Text(assistant["content"]),), "stop"),), "m")
    (choice,) = trim_response(response, translated.emulation).choices
    assert [(part.name, part.arguments) for part in choice.parts if isinstance(part, ToolCall)] == [
        ("weather", '{"city":"Ulm"}'),
        ("time", '{"city":"Ulm"}'),
    ]


def test_history_of_calls_is_text_where_no_more_tools_are_offered():
    call = {"id": "c", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    turns = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "Noon."}]
    translated = translate("perplexity", messages=turns)
    assert [message["role"] for message in sent(translated)["messages"]] == ["user", "assistant", "user"]
    assert reported(translated) == ("messages",) and "Noon." in str(sent(translated)["messages"][2])


@pytest.mark.parametrize("adapter", ["deepseek", "groq", "vllm"])
def test_functions_and_their_calls_in_earlier_turns_are_sent_as_tools(adapter: str):
    turns = [*HI, {"role": "assistant", "content": None, "function_call": {"name": "time", "arguments": "{}"}}]
    turns += [{"role": "function", "name": "time", "content": "Noon."}]
    body = sent(translate(adapter, functions=[TOOLS[1]["function"]], messages=turns))
    assert body["tools"][0]["function"]["name"] == "time" and body["messages"][1]["tool_calls"][0]["function"]["name"] == "time"
    assert body["messages"][2]["role"] == "tool"


@pytest.mark.parametrize(
    ("adapter", "fields", "names"),
    [
        ("mini_sglang", {"tool_choice": "required"}, ["weather", "time"]),
        ("mini_sglang", {"tool_choice": {"type": "function", "function": {"name": "time"}}}, ["time"]),
        ("llamacpp_python", {"tool_choice": "required"}, ["weather", "time"]),
        ("ollama", {"tool_choice": {"type": "function", "function": {"name": "time"}}}, ["time"]),
    ],
)
def test_demanded_call_is_checked_and_enforced_where_the_target_enforces_schemas(adapter: str, fields: Any, names: list[str]):
    translated = translate(adapter, tools=TOOLS, **fields)
    body = sent(translated)
    assert translated.is_checked and reported(translated) == ("tool_choice", "tools")
    assert translated.emulation is not None and translated.emulation.tools is not None
    assert list(translated.emulation.tools.tools) == names
    schema: Any = body.get("format") or body.get("response_format", {}).get("schema")
    if adapter == "mini_sglang":
        assert schema is None
    else:
        calls = schema.get("anyOf", [schema])
        assert [call["properties"]["name"] for call in calls] == [{"const": name} for name in names]
        assert [call["properties"]["arguments"]["properties"].keys() for call in calls] == [CITY["properties"].keys()] * len(names)


@pytest.mark.parametrize(
    ("adapter", "more"),
    [
        ("transformers", {}),
        ("deepseek", {"thinking": {"type": "enabled"}}),
    ],
)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "time"}}])
def test_call_is_demanded_in_the_prompt_of_a_target_whose_model_alone_chooses(adapter: str, more: Any, choice: Any):
    translated = translate(adapter, tools=TOOLS, tool_choice=choice, **more)
    body = sent(translated)
    assert translated.is_checked and reported(translated) == ("tool_choice",) and "tool_choice" not in body
    assert body["tools"] == (TOOLS if choice == "required" else TOOLS[1:])
    assert "must be a call" in body["messages"][0]["content"] and body["messages"][1:] == HI


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+b"}}},
        {"type": "object", "properties": []},
    ],
)
def test_arguments_whose_schema_was_never_checked_are_any_object(parameters: Any):
    tool = {"type": "function", "function": {"name": "a", "parameters": parameters}}
    schema = sent(translate("ollama", tools=[tool], tool_choice="required"))["format"]
    assert schema["properties"]["arguments"] == {"type": "object"}


@pytest.mark.parametrize("adapter", ["groq", "vllm", "ollama"])
def test_strict_functions_in_namespaces_are_validated_under_the_callers_paths(adapter: str):
    x, y, last = ({"type": "function", "name": name, "strict": True, "parameters": CITY} for name in ("x", "y", "z"))
    tools = [{"type": "namespace", "name": "files", "tools": [x, y]}, {**x, "strict": False}, last]
    translated = translate(adapter, "openai_responses", input="Hi", messages=None, tools=tools)
    assert set(reported(translated)) == {"tools[0].tools[0].strict", "tools[0].tools[1].strict", "tools[2].strict"}
    assert translated.emulation is not None and set(translated.emulation.strict_tools) == {"files__x", "files__y", "z"}


def test_strict_tools_are_validated_and_one_call_is_passed_on():
    tool = {"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}
    translated = translate("mini_sglang", tools=[tool], parallel_tool_calls=False)
    assert translated.is_checked and reported(translated) == ("parallel_tool_calls", "tools")
    assert translated.emulation is not None and list(translated.emulation.strict_tools) == ["weather"] and translated.emulation.single_call
    messages = translate(
        "mini_sglang", "anthropic_messages", max_tokens=9, tools=[{"name": "a", "input_schema": CITY}], tool_choice={"type": "any"}
    )
    assert reported(messages) == ("tool_choice", "tools")


@pytest.mark.parametrize("adapter", ["llamacpp", "sglang", "vllm", "tgi", "cohere"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "time"}}])
def test_output_format_is_left_out_where_a_call_is_demanded_instead_of_a_text(adapter: str, choice: Any):
    """instructor's RESPONSES_TOOLS sends both, with the same schema."""
    output = {"type": "json_schema", "json_schema": {"name": "a", "schema": CITY}}
    translated = translate(adapter, tools=TOOLS, tool_choice=choice, response_format=output)
    body = sent(translated)
    assert reported(translated) == ("response_format",) and translated.is_checked
    assert body["tools"] and body["tool_choice"] and not {"response_format", "structured_outputs", "json_schema"} & body.keys()


def test_output_format_and_demand_for_a_call_reach_a_target_that_knows_neither_together():
    output = {"type": "json_schema", "json_schema": {"name": "a", "schema": CITY}}
    translated = translate("ollama", tools=TOOLS, tool_choice="required", response_format=output)
    assert reported(translated) == ("response_format", "tool_choice", "tools")
    assert len(sent(translated)["format"]["anyOf"]) == 2
    assert reported(translate("mini_sglang", tools=TOOLS, tool_choice="required", response_format=output)) == (
        "response_format",
        "tool_choice",
        "tools",
    )


def test_choice_of_no_tool_describes_none():
    translated = translate("mini_sglang", tools=TOOLS, tool_choice="none", messages=[*HI, {"role": "assistant", "content": "a"}, *HI])
    assert [message["role"] for message in sent(translated)["messages"]] == ["user", "assistant", "user"]
    assert isinstance(translated.emulation, Emulation) and not translated.emulation.edits


def test_tools_that_may_be_dropped_are_described_all_the_same():
    translated = translate("mini_sglang", may_drop=drop_anything, tools=TOOLS)
    assert translated.dropped == [] and reported(translated) == ("tools",)


def test_other_emulation_comes_on_top():
    translated = translate("mini_sglang", tools=TOOLS, stop=["x"], n=2)
    assert reported(translated) == ("n", "stop", "tools") and len(translated.parts) == 2


def test_tool_for_free_text_is_described_as_a_function_of_one_argument():
    translated = translate("mini_sglang", tools=[{"type": "custom", "custom": {"name": "run_sql"}}])
    assert reported(translated) == ("tools", "tools (custom)")
    assert b"run_sql" in translated.raw and b"Takes free text" in translated.raw and b'"tools"' not in translated.raw


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": TOOLS, "guided_grammar": 'root ::= "yes"'}, "tools"),
        ({"tools": TOOLS, "logit_bias": {"1": 5}}, "logit_bias"),
        ({"tools": TOOLS, "logprobs": True}, "tools"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "tool_choice"),
    ],
)
def test_what_cannot_be_described_is_refused(fields: Any, param: str):
    with pytest.raises(Unsupported) as refused:
        translate("llamacpp_python" if "logprobs" in fields else "mini_sglang", **fields)
    assert (refused.value.param or "").startswith(param)
