"""Requests written for Bedrock Converse: its rules for a conversation, and what each model family supports."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from providers import structured_output
from providers.canonical.chat import (
    Audio,
    ChatRequest,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonObject, JsonSchema, Regex
from providers.catalogue import build_provider
from providers.dialects.bedrock_converse import BedrockConverse
from providers.drop_policy import DropPolicy
from providers.profiles.bedrock.families import bare_model_id, find_family
from tests.support.case_tables import failed_cases
from tests.support.field_handling import FIELD_VALUES, NEUTRAL_FIELD_VALUES, assert_fields_are_handled, translate_chat_fields
from tests.support.strategies.chat_strategies import bounded

CLAUDE, CLAUDE_45 = "us.anthropic.claude-opus-4-6-v1", "anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA, NOVA_2, LLAMA = "amazon.nova-lite-v1:0", "global.amazon.nova-2-lite-v1:0", "us.meta.llama3-3-70b-instruct-v1:0"
HI = Message("user", (Text("Hi!"),))
CALL = Message("assistant", (ToolCall("c1", "now", "{}"),))
RESULT = Message("user", (ToolResult("c1", (Text("noon"),)),))
NOW = Tool("now", "Tells the time.", Raw(b'{"type":"object"}'))
CACHE_HINT = {"cache_control": Raw(b'{"type":"ephemeral"}')}
PDF = Inline("application/pdf", "JVBERi0=")


def chat(*messages: Message, model: str = CLAUDE, **more: Any) -> ChatRequest:
    return ChatRequest(origin="openai_chat", model=model, messages=messages or (HI,), **more)


def write_request(request: ChatRequest, *, may_drop: bool = False) -> tuple[dict[str, Any], list[str]]:
    drop_policy = DropPolicy(lambda _: may_drop, {}, "bedrock")
    body = BedrockConverse().write_request(request, drop_policy)
    return json.loads(body.write()), drop_policy.dropped


def refusal_message(request: ChatRequest) -> str:
    with pytest.raises(Unsupported) as refusal:
        write_request(request)
    return refusal.value.message


text_values = st.sampled_from(["", " ", "Hi.", "\n", "Yes."])
parts = st.one_of(
    st.builds(Text, text_values),
    st.builds(Image, st.just(Inline("image/png", "iVBORw=="))),
    st.builds(File, st.just(PDF), st.sampled_from([None, "a_b.pdf", "a  b", "ü"])),
    st.builds(ToolResult, st.sampled_from(["c1", "c 2", "x" * 80]), st.lists(st.builds(Text, text_values), max_size=2).map(tuple)),
)
assistant_parts = st.one_of(
    st.builds(Text, text_values), st.builds(ToolCall, st.sampled_from(["c1", "c 2", "x" * 80]), st.just("now"), text_values)
)
messages = st.one_of(
    st.builds(Message, st.sampled_from(["system", "developer"]), st.lists(st.builds(Text, text_values), max_size=2).map(tuple)),
    st.builds(Message, st.just("user"), st.lists(parts, max_size=4).map(tuple)),
    st.builds(Message, st.just("assistant"), st.lists(assistant_parts, max_size=3).map(tuple)),
)


@bounded
@given(st.lists(messages, max_size=6), st.sampled_from([CLAUDE, NOVA, LLAMA]), st.sampled_from([None, ToolChoice("none")]))
def test_any_conversation_is_written_within_converses_rules(conversation: list[Message], model: str, choice: ToolChoice | None):
    body, _ = write_request(chat(*conversation, model=model, tools=(NOW,), tool_choice=choice), may_drop=True)
    turns = body["messages"]
    assert [turn["role"] for turn in turns] == [("user", "assistant")[at % 2] for at in range(len(turns))] and turns
    names: list[str] = []
    for turn in turns:
        blocks = turn["content"]
        assert blocks and all(block.get("text", "x").strip() for block in blocks)
        kinds = [next(iter(block)) for block in blocks]
        assert kinds == sorted(kinds, key=lambda kind: kind != "toolResult")
        if "document" in kinds:
            assert "text" in kinds and (model != CLAUDE or "toolResult" not in kinds)
        if model == LLAMA and "toolResult" in kinds:
            assert set(kinds) == {"toolResult"}
        names += [block["document"]["name"] for block in blocks if "document" in block]
        for block in blocks:
            id = (block.get("toolUse") or block.get("toolResult") or {"toolUseId": "c"})["toolUseId"]
            assert len(id) <= 64 and " " not in id
            assert "toolResult" not in block or block["toolResult"]["content"]
    assert len(set(names)) == len(names) and all(name.isascii() and "_" not in name and "  " not in name for name in names)
    if any("toolUse" in block for turn in turns for block in turn["content"]):
        assert body["toolConfig"]["tools"]
    elif choice is not None:
        assert "toolConfig" not in body


def test_invalid_call_id_is_replaced_alike_in_call_and_result():
    request = chat(HI, Message("assistant", (ToolCall("a b", "now", "not JSON"),)), Message("user", (ToolResult("a b", ()),)), tools=(NOW,))
    _, call, result = write_request(request)[0]["messages"]
    tool_use = call["content"][0]["toolUse"]
    assert tool_use["toolUseId"] == result["content"][0]["toolResult"]["toolUseId"] and tool_use["input"] == {"_unparsed": "not JSON"}


def test_called_tools_stay_configured_when_tool_choice_is_none():
    tool_config = write_request(chat(HI, CALL, RESULT, tools=(NOW, replace(NOW, name="later")), tool_choice=ToolChoice("none")))[0][
        "toolConfig"
    ]
    (tool,) = tool_config["tools"]
    assert tool["toolSpec"]["name"] == "now" and "not available" in tool["toolSpec"]["description"] and "toolChoice" not in tool_config
    assert write_request(chat(HI, CALL, RESULT))[0]["toolConfig"] == tool_config


@pytest.mark.parametrize(
    ("unsupported", "rule"),
    [
        (chat(tools=(replace(NOW, name="a tool"),)), "1 to 64 letters"),
        (chat(tools=(replace(NOW, name="x" * 65),)), "1 to 64 letters"),
        (chat(tools=(NOW,), parallel_calls=False), "one call"),
        (chat(tools=(replace(NOW, strict=True),), model=NOVA), "schema"),
        (chat(tool_choice=ToolChoice("required")), "no tool"),
        (chat(temperature=1.5), "from 0 to 1"),
        (chat(stop=("x",) * 2501), "2500"),
        (chat(max_tokens=0), "one token"),
        (chat(top_k=5, model=LLAMA), "Llama"),
        (chat(n=2), "one answer"),
        (chat(output=Regex("a+")), "JSON schemas"),
        (chat(thinking=Thinking(budget_tokens=2048), model=LLAMA), "does not reason"),
        (chat(thinking=Thinking("low"), model="arn:aws:bedrock:us-east-1:1:application-inference-profile/x"), "not known from its id"),
        (chat(Message("user", (Image(Inline("image/bmp", "Qk0=")),))), "PNG, JPEG, GIF or WebP, not image/bmp"),
        (chat(Message("user", (File(Inline("application/zip", "UEs=")),))), "not application/zip"),
        (chat(Message("user", (Audio(Inline("audio/wav", "UklG")),))), "takes no audio"),
        (chat(Message("user", (Image(Inline("image/png", "iVBORw==")),), name="Ada")), "no participants"),
        (chat(HI, CALL, Message("user", (ToolResult("c1", (Image(Inline("image/png", "iVBORw==")),)),)), model=LLAMA), "text alone"),
    ],
)
def test_unsupported_request_is_refused_with_the_rule(unsupported: ChatRequest, rule: str):
    assert rule in refusal_message(unsupported)
    assert write_request(unsupported, may_drop=True)[1]


@pytest.mark.parametrize(
    ("model", "thinking", "fields", "dropped"),
    [
        (CLAUDE, Thinking("high"), {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, []),
        (CLAUDE, Thinking("none"), {"thinking": {"type": "disabled"}}, []),
        (CLAUDE, Thinking(adaptive=True, summary="auto"), {"thinking": {"type": "adaptive", "display": "summarized"}}, []),
        (CLAUDE, Thinking("none", between_tools=True), {"thinking": {"type": "between_tools"}}, []),
        (CLAUDE_45, Thinking(budget_tokens=2000), {"thinking": {"type": "enabled", "budget_tokens": 2000}}, []),
        (NOVA_2, Thinking("low"), {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}, []),
        (NOVA_2, Thinking("none"), {"reasoningConfig": {"type": "disabled"}}, []),
        (NOVA_2, Thinking("max"), {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}, ["thinking.effort"]),
        ("openai.gpt-oss-120b-1:0", Thinking("medium"), {"reasoning_effort": "medium"}, []),
        ("qwen.qwen3-32b-v1:0", Thinking("medium"), {"reasoning_config": "high"}, ["thinking.effort"]),
        ("qwen.qwen3-32b-v1:0", Thinking("none"), None, []),
        (NOVA, Thinking("none"), None, []),
        (NOVA, Thinking("high", adaptive=True), None, ["thinking"]),
        (LLAMA, Thinking(summary="auto"), None, ["thinking.summary", "thinking"]),
    ],
)
def test_thinking_is_written_in_each_model_familys_fields(model: str, thinking: Thinking, fields: Any, dropped: list[str]):
    body, reported = write_request(chat(model=model, thinking=thinking))
    assert (body.get("additionalModelRequestFields"), reported) == (fields, dropped)


@pytest.mark.parametrize("sampling", [{"max_tokens": 9}, {"temperature": 0.5}, {"top_p": 0.5}])
def test_high_effort_of_nova_yields_to_what_it_cannot_be_combined_with(sampling: dict[str, Any]):
    body, reported = write_request(chat(model=NOVA_2, thinking=Thinking("high"), **sampling))
    assert body["additionalModelRequestFields"]["reasoningConfig"]["maxReasoningEffort"] == "medium"
    assert (list(body["inferenceConfig"].values()), reported) == (list(sampling.values()), ["thinking.effort"])


def test_top_k_goes_into_each_familys_field_and_caller_fields_win():
    assert write_request(chat(top_k=5))[0]["additionalModelRequestFields"] == {"top_k": 5}
    assert write_request(chat(top_k=5, model=NOVA))[0]["additionalModelRequestFields"] == {"inferenceConfig": {"topK": 5}}
    own = {"additionalModelRequestFields": Raw(b'{"top_k":7,"x":1}')}
    assert write_request(chat(top_k=5, extra=own))[0]["additionalModelRequestFields"] == {"top_k": 7, "x": 1}


def test_json_schema_is_sent_as_a_string_or_as_an_instruction():
    output = JsonSchema(Raw(b'{"type":"object"}'), "verdict")
    inner = {"schema": '{"type":"object"}', "name": "verdict"}
    assert write_request(chat(output=output))[0]["outputConfig"] == {
        "textFormat": {"type": "json_schema", "structure": {"jsonSchema": inner}}
    }
    for request in (chat(output=output, model=NOVA), chat(output=JsonObject())):
        body, _ = write_request(request)
        assert "outputConfig" not in body and "JSON" in body["system"][-1]["text"]


def test_schema_sent_as_an_instruction_is_validated_not_enforced():
    bedrock = build_provider("bedrock", "bedrock", {"region": "us-east-1"})
    for model, enforcement in ((CLAUDE, "enforced"), (NOVA, "validated")):
        closed = Raw(b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}')
        constraint = structured_output.Constraint(JsonSchema(closed), "response_format", is_openai_format=True)
        body = BedrockConverse().write_request(chat(output=constraint.output, model=model), DropPolicy(lambda _: False, {}, "bedrock"))
        adapted = bedrock.adapt_request(body, "bedrock_converse", lambda _: False, constraint)
        assert adapted.constraint_plan is not None and adapted.constraint_plan.enforcement == enforcement


def test_cache_points_follow_their_content_and_are_four_at_most():
    texts = tuple(Text(f"text {at}", extra=CACHE_HINT) for at in range(4))
    document = File(PDF, "a", CACHE_HINT)
    body, dropped = write_request(
        chat(Message("system", texts[:1]), Message("user", (*texts, document)), tools=(replace(NOW, extra=CACHE_HINT),))
    )
    kinds = [next(iter(block)) for block in body["messages"][0]["content"]]
    assert kinds == ["text", "text", "cachePoint", "text", "cachePoint", "text", "cachePoint", "document", "text", "cachePoint"]
    assert body["system"] == [{"text": "text 0"}] and dropped == ["cache_control"]
    hour = {"cache_control": Raw(b'{"type":"ephemeral","ttl":"1h"}')}
    (_, point) = write_request(chat(Message("user", (Text("x", extra=hour),))))[0]["messages"][0]["content"]
    assert point == {"cachePoint": {"type": "default", "ttl": "1h"}}
    body, dropped = write_request(chat(Message("user", texts[:1]), model=LLAMA))
    assert body["messages"][0]["content"] == [{"text": "text 0"}] and dropped == ["messages[0].content[0].cache_control"]


def test_metadata_is_sent_where_valid_and_unsupported_hints_are_reported():
    body, dropped = write_request(chat(metadata={"team": "search", "odd": "ü"}, user="ada", store=True, service_tier="flex", cache_key="k"))
    assert body["requestMetadata"] == {"team": "search", "user": "ada"} and body["serviceTier"] == {"type": "flex"}
    assert set(dropped) == {"metadata", "store", "cache_key"}


def test_signed_reasoning_is_sent_back_only_to_its_provider():
    own_reasoning, foreign_reasoning = (
        Reasoning("Hm.", OpaqueState("bedrock_converse", "sig")),
        Reasoning("Hm.", OpaqueState("gemini", "sig")),
    )
    claude_reasoning = Reasoning("", OpaqueState("anthropic_messages", "s2"))
    redacted = Opaque("bedrock_converse", Raw(b'{"type":"redacted_thinking","data":"eA=="}'))
    answer = Message("assistant", (own_reasoning, foreign_reasoning, claude_reasoning, redacted, Text("Yes.")))
    body, dropped = write_request(chat(HI, answer, HI))
    signed = [{"text": "Hm.", "signature": "sig"}, {"text": "", "signature": "s2"}]
    assert body["messages"][1]["content"] == [
        *({"reasoningContent": {"reasoningText": each}} for each in signed),
        {"reasoningContent": {"redactedContent": "eA=="}},
        {"text": "Yes."},
    ]
    assert dropped == ["reasoning.signature", "reasoning"]


@pytest.mark.parametrize(
    ("model", "id", "family"),
    [
        ("eu.anthropic.claude-3-5-sonnet-20240620-v1:0", "anthropic.claude-3-5-sonnet-20240620-v1:0", "Claude"),
        ("us-gov.amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0", "Nova"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama3-3-70b-instruct-v1:0", LLAMA[3:], "Llama"),
        ("arn:aws:bedrock:us-east-1::foundation-model/qwen.qwen3-32b-v1:0", "qwen.qwen3-32b-v1:0", "Qwen"),
    ],
)
def test_model_family_is_known_from_any_id_or_arn(model: str, id: str, family: str):
    assert (bare_model_id(model), find_family(model).name) == (id, family)


BEDROCK = build_provider("bedrock", "bedrock", {"region": "us-east-1", "api": "converse"})
SPEC: dict[str, Any] = {"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
JSON_INSTRUCTION = (
    "Answer with JSON and with nothing else: no words before or after it, and no code fence around it. "
    'It is valid by this JSON schema: {"type":"object"}'
)
# For a model whose family cannot be known from its id.
VERDICTS: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(FIELD_VALUES, "refused"),
    "parallel_tool_calls": "emulated",
    "tools": {"toolConfig": {"tools": [SPEC]}},
    "functions": {
        "toolConfig": {"tools": [{"toolSpec": {**SPEC["toolSpec"], "inputSchema": {"json": {"type": "object", "properties": {}}}}}]}
    },
    "tool_choice": {"toolConfig": {"tools": [SPEC], "toolChoice": {"any": {}}}},
    "max_tokens": {"inferenceConfig": {"maxTokens": 7}},
    "max_completion_tokens": {"inferenceConfig": {"maxTokens": 7}},
    "temperature": {"inferenceConfig": {"temperature": 0.5}},
    "top_p": {"inferenceConfig": {"topP": 0.5}},
    "stop": {"inferenceConfig": {"stopSequences": ["END"]}},
    "metadata": {"requestMetadata": {"a": "b"}},
    "user": {"requestMetadata": {"user": "u"}},
    "service_tier": {"serviceTier": {"type": "flex"}},
    **{key: {"system": [{"text": JSON_INSTRUCTION}]} for key in ("guided_json", "structured_outputs", "json_schema")},
    "response_format": {"system": [{"text": JSON_INSTRUCTION.replace(":", ": ").replace(":  ", ": ")}]},
    **dict.fromkeys(("store", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prediction"), "hint"),
    **dict.fromkeys(("guided_decoding_backend", "seed", "verbosity"), "hint"),
}


def test_every_field_is_sent_refused_or_reported():
    """The exception is `top_logprobs`, which needs `logprobs` beside it, and that is refused."""
    assert_fields_are_handled(BEDROCK, {field: VERDICTS[field] for field in FIELD_VALUES if field != "top_logprobs"})


def test_neutral_field_values_are_dropped_silently():
    def check(field: str, value: Any) -> None:
        body, dropped = translate_chat_fields(BEDROCK, {field: value})
        assert dropped == [] and not body.keys() - {"messages", "inferenceConfig"}

    assert failed_cases(check, NEUTRAL_FIELD_VALUES.items()) == []


MARK = {"cache_control": Raw(b'{"type":"ephemeral","ttl":"1h"}')}


@pytest.mark.parametrize(
    ("result", "points"),
    [
        (ToolResult("c1", (Text("rain", extra=MARK),)), [{"type": "default", "ttl": "1h"}]),
        (ToolResult("c1", (Text("rain", extra=MARK), Text("wind"))), [{"type": "default", "ttl": "1h"}]),
        (ToolResult("c1", (Text("rain"),), extra=MARK), [{"type": "default", "ttl": "1h"}]),
        (ToolResult("c1", (Text("rain", extra=MARK),), extra=MARK), [{"type": "default", "ttl": "1h"}]),
        (ToolResult("c1", (Text("rain"),)), []),
    ],
)
def test_cache_mark_of_a_result_or_of_its_part_is_a_point_behind_the_result(result: ToolResult, points: list[dict[str, str]]):
    body, dropped = write_request(chat(HI, CALL, Message("user", (result,)), tools=(NOW,)))
    content = body["messages"][-1]["content"]
    assert [block["cachePoint"] for block in content if "cachePoint" in block] == points and "toolResult" in content[0]
    assert not any("cachePoint" in block for block in content[0]["toolResult"]["content"]) and dropped == []


def test_lifetime_that_a_model_does_not_cache_for_is_reported():
    older = "anthropic.claude-3-7-sonnet-20250219-v1:0"
    body, dropped = write_request(chat(Message("user", (Text("Hi", extra=MARK),)), model=older))
    assert body["messages"][0]["content"][1] == {"cachePoint": {"type": "default"}}
    assert dropped == ["messages[0].content[0].cache_control.ttl"]
