"""Requests written for Gemini: every field is translated or refused by name, and some differ from model to model."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import Raw

from providers.canonical.chat import (
    ChatRequest,
    Content,
    File,
    HostTool,
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
    Url,
)
from providers.canonical.errors import Unsupported
from providers.canonical.output_format import JsonSchema
from providers.catalogue import build_provider
from providers.dialects.gemini import Gemini
from providers.drop_policy import DropPolicy
from tests.support.case_tables import failed_cases
from tests.support.field_handling import (
    FIELD_VALUES,
    NEUTRAL_FIELD_VALUES,
    assert_fields_are_handled,
    translate_body,
    translate_chat_fields,
)
from tests.support.strategies.chat_strategies import bounded, chat_requests

STUDIO = build_provider("gemini", "google", {})
DIALECT = Gemini()
SCHEMA = {"type": "object"}
NOW: dict[str, Any] = {"functionDeclarations": [{"name": "now", "parametersJsonSchema": {"type": "object", "properties": {}}}]}


def generation_config(**fields: Any) -> Mapping[str, Any]:
    return {"generationConfig": fields}


JSON_SCHEMA_CONFIG = generation_config(responseMimeType="application/json", responseJsonSchema=SCHEMA)
EXPECTED_BY_FIELD: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(FIELD_VALUES, "refused"),
    "parallel_tool_calls": "emulated",
    "tools": {"tools": [NOW]},
    "functions": {"tools": [{"functionDeclarations": [{"name": "now"}]}]},
    "tool_choice": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    "max_tokens": generation_config(maxOutputTokens=7),
    "max_completion_tokens": generation_config(maxOutputTokens=7),
    "temperature": generation_config(temperature=0.5),
    "top_p": generation_config(topP=0.5),
    "top_k": generation_config(topK=5),
    "n": generation_config(candidateCount=2),
    "seed": generation_config(seed=3),
    "stop": generation_config(stopSequences=["END"]),
    "frequency_penalty": generation_config(frequencyPenalty=0.5),
    "presence_penalty": generation_config(presencePenalty=0.5),
    "logprobs": generation_config(responseLogprobs=True),
    "top_logprobs": generation_config(responseLogprobs=True, logprobs=2),
    "reasoning_effort": generation_config(thinkingConfig={"thinkingLevel": "low", "includeThoughts": True}),
    **dict.fromkeys(("response_format", "guided_json", "structured_outputs", "json_schema"), JSON_SCHEMA_CONFIG),
    "guided_choice": generation_config(responseMimeType="text/x.enum", responseSchema={"type": "STRING", "enum": ["yes", "no"]}),
    **dict.fromkeys(("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"), "hint"),
    **dict.fromkeys(("prompt_cache_retention", "prediction", "guided_decoding_backend", "verbosity"), "hint"),
}


def drop_policy(*, dropping: bool = False) -> DropPolicy:
    return DropPolicy(lambda _: dropping, {}, "google (gemini)")


def written_request(
    *messages: Message, model: str = "gemini-3-flash-preview", dropped: list[str] | None = None, **fields: Any
) -> dict[str, Any]:
    policy = drop_policy()
    body = DIALECT.write_request(ChatRequest("openai_chat", model, messages or (HELLO,), **fields), policy)
    assert policy.dropped == (dropped or [])
    return json.loads(body.write())


def refusal(*messages: Message, **fields: Any) -> str:
    with pytest.raises(Unsupported) as refused:
        written_request(*messages, **fields)
    assert refused.value.param is not None
    return f"{refused.value.param}: {refused.value.message}"


def user(*parts: Content) -> Message:
    return Message("user", parts)


def model(*parts: Content) -> Message:
    return Message("assistant", parts)


HELLO = user(Text("Hello!"))
PARIS = ToolCall("c1", "weather", '{"city":"Paris"}')
ROME = ToolCall("c2", "weather", '{"city":"Rome"}')
TOOL = Tool("weather", "Tells it.", Raw(b'{"type":"object"}'))


def test_each_openai_field_is_translated_refused_or_reported():
    assert_fields_are_handled(STUDIO, EXPECTED_BY_FIELD)


def test_neutral_field_value_is_accepted_silently():
    def check(field: str, value: Any) -> None:
        assert translate_chat_fields(STUDIO, {field: value})[1] == []

    assert failed_cases(check, NEUTRAL_FIELD_VALUES.items()) == []


@settings(bounded, max_examples=20)
@given(chat_requests())
def test_any_chat_request_can_be_written_when_unsupported_fields_may_be_dropped(chat: ChatRequest):
    body = DIALECT.write_request(chat, drop_policy(dropping=True))
    assert "model" not in body and json.loads(body.write())["contents"] is not None
    assert {turn["role"] for turn in body["contents"]} <= {"user", "model"} and all(turn["parts"] for turn in body["contents"])


def test_instructions_become_system_instruction_and_a_moved_one_is_reported():
    system, late = Message("system", (Text("Be brief."),)), Message("developer", (Text("Be kind."),))
    body = written_request(system, HELLO, late, dropped=["messages[2].role"])
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hello!"}]}]


def test_request_with_only_a_system_message_sends_it_as_user_content():
    body = written_request(Message("system", (Text("Say hello."),)))
    assert body == {"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}


def test_tool_results_carry_their_function_name_and_stand_apart_from_text():
    results = user(ToolResult("c2", (Text("rain"),)), Text("Well?")), user(ToolResult("c1", (Text("no such city"),), is_error=True))
    contents = written_request(HELLO, model(PARIS, ROME), *results, model="gemini-2.5-flash")["contents"]
    assert [turn["role"] for turn in contents] == ["user", "model", "user", "user", "user"]
    assert contents[1]["parts"] == [
        {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "Paris"}}},
        {"functionCall": {"id": "c2", "name": "weather", "args": {"city": "Rome"}}},
    ]
    assert contents[2]["parts"] == [{"functionResponse": {"id": "c2", "name": "weather", "response": {"output": "rain"}}}]
    assert contents[4]["parts"] == [{"functionResponse": {"id": "c1", "name": "weather", "response": {"error": "no such city"}}}]
    one_by_one = written_request(HELLO, model(PARIS), model(ROME), *(user(ToolResult(id, (Text("rain"),))) for id in ("c1", "c2")))[
        "contents"
    ]
    assert [len(turn["parts"]) for turn in one_by_one] == [1, 2, 2]


def test_tool_result_without_a_matching_call_is_refused():
    assert "function's name" in refusal(HELLO, user(ToolResult("c9", (Text("x"),))))


def test_reused_call_id_refers_to_the_most_recent_call():
    turns = [(model(ToolCall("call_0", name, "{}")), user(ToolResult("call_0", (Text("x"),)))) for name in ("weather", "clock")]
    contents = written_request(HELLO, *turns[0], *turns[1], model="gemini-2.5-flash")["contents"]
    function_names = [part["functionResponse"]["name"] for turn in contents for part in turn["parts"] if "functionResponse" in part]
    assert function_names == ["weather", "clock"]


def test_call_arguments_that_are_not_json_are_sent_as_unparsed_text():
    parts = written_request(HELLO, model(ToolCall("c1", "weather", "{broken")), model="gemini-2.0-flash")["contents"][1]["parts"]
    assert parts == [{"functionCall": {"id": "c1", "name": "weather", "args": {"_unparsed": "{broken"}}}]


def test_images_in_tool_results_are_nested_since_gemini_3_and_appended_before():
    result = user(ToolResult("c1", (Text("here"), Image(Inline("image/png", "AAAA")))))
    media = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    newer = written_request(HELLO, model(PARIS), result)["contents"]
    assert newer[2]["parts"][0]["functionResponse"]["parts"] == [media]
    older = written_request(HELLO, model(PARIS), result, model="gemini-2.5-pro")["contents"]
    assert older[2]["parts"] == [{"functionResponse": {"id": "c1", "name": "weather", "response": {"output": "here"}}}]
    assert older[3]["parts"] == [{"text": "From the result of tool call c1:"}, media]


def test_thought_signatures_are_sent_back_and_foreign_calls_get_a_placeholder():
    own_state, foreign_state = OpaqueState("gemini", "SIG"), OpaqueState("anthropic_messages", "other")
    contents = written_request(
        HELLO, model(Reasoning("", own_state), Text("Hm."), Reasoning("", own_state)), HELLO, model(Reasoning("I think.", own_state))
    )["contents"]
    assert contents[1]["parts"] == [{"text": "Hm.", "thoughtSignature": "SIG"}, {"text": "", "thoughtSignature": "SIG"}]
    assert contents[3]["parts"] == [{"text": "I think.", "thought": True, "thoughtSignature": "SIG"}]
    signed_calls = ToolCall("c1", "weather", "{}", opaque_state=own_state), ToolCall("c2", "weather", "{}")
    assert [part.get("thoughtSignature") for part in written_request(HELLO, model(*signed_calls))["contents"][1]["parts"]] == ["SIG", None]
    foreign_calls = ToolCall("c1", "weather", "{}", opaque_state=foreign_state), ToolCall("c2", "weather", "{}")
    parts = written_request(HELLO, model(*foreign_calls), dropped=["reasoning.signature"])["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["skip_thought_signature_validator", None]
    older = written_request(HELLO, model(*foreign_calls), model="gemini-2.5-flash", dropped=["reasoning.signature"])["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in older] == [None, None]
    assert (
        len(
            written_request(HELLO, model(Reasoning("Hm.", foreign_state), Text("Yes.")), dropped=["reasoning.signature", "reasoning"])[
                "contents"
            ][1]["parts"]
        )
        == 1
    )


def test_own_opaque_parts_are_sent_back_unchanged_and_foreign_ones_are_refused():
    own = Opaque("gemini", Raw(b'{"type":"executableCode","executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"S"}'))
    parts = written_request(HELLO, model(own))["contents"][1]["parts"]
    assert parts == [{"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"}]
    assert "file_search_call" in refusal(HELLO, model(Opaque("openai_responses", Raw(b'{"type":"file_search_call","id":"f"}'))))
    search = model(Opaque("openai_responses", Raw(b'{"type":"web_search_call","id":"w"}')), Text("Found."))
    assert written_request(HELLO, search, dropped=["messages[1].content[0]"])["contents"][1]["parts"] == [{"text": "Found."}]


def test_media_are_sent_inline_or_as_file_uri_with_a_known_media_type():
    parts = written_request(
        user(File(Inline("application/pdf", "JVBE"), "a.pdf"), Image(Url("https://x.test/a.PNG?b=c"))),
        dropped=["messages[0].content[0].name"],
    )
    assert parts["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x.test/a.PNG?b=c"}},
    ]
    file_uri = "https://generativelanguage.googleapis.com/v1beta/files/abc"
    assert written_request(user(File(Url(file_uri))))["contents"][0]["parts"] == [{"fileData": {"fileUri": file_uri}}]
    assert STUDIO.accepts_media_url(file_uri, "gemini") and not STUDIO.accepts_media_url("https://x.test/a.png", "gemini")
    assert "what kind of file" in refusal(user(Image(Url("https://x.test/picture"))))


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        (None, None),
        (ToolChoice("auto"), None),
        (ToolChoice("none"), {"mode": "NONE"}),
        (ToolChoice("required"), {"mode": "ANY"}),
        (ToolChoice("required", allowed=("weather",)), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        (ToolChoice("named", "weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_tool_choice_becomes_a_function_calling_mode(choice: ToolChoice | None, calling: Any):
    body = written_request(tools=(TOOL,), tool_choice=choice)
    assert body.get("toolConfig", {}).get("functionCallingConfig") == calling
    assert body["tools"] == [{"functionDeclarations": [{"name": "weather", "description": "Tells it.", "parametersJsonSchema": SCHEMA}]}]


def test_tools_outside_the_allowed_ones_are_not_declared():
    body = written_request(tools=(TOOL, Tool("other")), tool_choice=ToolChoice("auto", allowed=("weather",)))
    assert [each["name"] for each in body["tools"][0]["functionDeclarations"]] == ["weather"] and "toolConfig" not in body


def test_strict_tool_uses_validated_mode_unless_a_schema_keyword_is_unsupported():
    strict = Tool("weather", None, Raw(b'{"type":"object","properties":{"pattern":{"type":"string"}}}'), strict=True)
    assert written_request(tools=(strict,))["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    unsupported_tool = Tool("weather", None, Raw(b'{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}'), strict=True)
    assert "tools[0].strict" in (reason := refusal(tools=(unsupported_tool,))) and "`pattern`" in reason


@pytest.mark.parametrize("name", ["1st", "-x", "a b", "x" * 129, ""])
def test_invalid_function_name_is_refused_with_the_naming_rule(name: str):
    assert "begin with a letter or _" in refusal(tools=(Tool(name),))


def test_parallel_calls_false_is_refused_when_tools_are_declared():
    assert refusal(tools=(TOOL,), parallel_calls=False).startswith("parallel_calls")
    assert "tools" not in written_request(parallel_calls=False)


def test_web_search_tool_becomes_google_search():
    search = HostTool("openai_responses", "web_search", Raw(b'{"type":"web_search"}'))
    assert written_request(tools=(search,), model="gemini-2.5-flash")["tools"] == [{"googleSearch": {}}]
    both = written_request(tools=(search, TOOL))
    assert len(both["tools"]) == 2 and both["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert "not both" in refusal(tools=(search, TOOL), model="gemini-2.5-flash")
    limited = HostTool("anthropic_messages", "web_search_20250305", Raw(b'{"type":"web_search_20250305","name":"web_search","max_uses":2}'))
    assert refusal(tools=(limited,)).startswith("tools[0].max_uses")
    assert "file_search" in refusal(tools=(HostTool("openai_responses", "file_search", Raw(b"{}")),))


@pytest.mark.parametrize(
    ("model", "thinking", "thinking_config", "dropped"),
    [
        ("gemini-3-pro-preview", Thinking("high"), {"thinkingLevel": "high", "includeThoughts": True}, []),
        ("gemini-3.1-pro-preview", Thinking("minimal"), {"thinkingLevel": "low", "includeThoughts": True}, ["thinking.effort"]),
        ("gemini-3.5-flash", Thinking("minimal"), {"thinkingLevel": "minimal", "includeThoughts": True}, []),
        ("gemini-3.8-flash", Thinking("minimal"), {"thinkingLevel": "low", "includeThoughts": True}, ["thinking.effort"]),
        ("models/gemini-3.5-flash-lite", Thinking("minimal"), {"thinkingLevel": "minimal", "includeThoughts": True}, []),
        ("gemini-3-flash-preview", Thinking("max"), {"thinkingLevel": "high", "includeThoughts": True}, ["thinking.effort"]),
        (
            "gemini-3-flash-preview",
            Thinking(budget_tokens=4000),
            {"thinkingLevel": "medium", "includeThoughts": True},
            ["thinking.budget_tokens"],
        ),
        ("gemini-3-flash-preview", Thinking(adaptive=True, summary="omitted"), None, []),
        ("gemini-flash-latest", Thinking("low"), {"thinkingLevel": "low", "includeThoughts": True}, []),
        ("gemini-4-neon", Thinking("xhigh"), {"thinkingLevel": "xhigh", "includeThoughts": True}, []),
        ("google/gemini-4-hydrogen", Thinking("max"), {"thinkingLevel": "xhigh", "includeThoughts": True}, ["thinking.effort"]),
        ("gemini-4-carbon", Thinking("xhigh"), {"thinkingLevel": "high", "includeThoughts": True}, ["thinking.effort"]),
        ("gemini-4-argon", Thinking("minimal"), {"thinkingLevel": "low", "includeThoughts": True}, ["thinking.effort"]),
        ("gemini-5-x", Thinking("xhigh"), {"thinkingLevel": "high", "includeThoughts": True}, ["thinking.effort"]),
        ("gemini-2.5-flash", Thinking("medium"), {"thinkingBudget": 8192, "includeThoughts": True}, []),
        ("gemini-2.5-flash", Thinking("none"), {"thinkingBudget": 0}, []),
        ("gemini-2.5-flash", Thinking(adaptive=True), {"thinkingBudget": -1, "includeThoughts": True}, []),
        ("gemini-2.5-pro", Thinking(budget_tokens=9000), {"thinkingBudget": 9000, "includeThoughts": True}, []),
        (
            "gemini-2.5-flash-lite",
            Thinking(budget_tokens=99_000),
            {"thinkingBudget": 24_576, "includeThoughts": True},
            ["thinking.budget_tokens"],
        ),
        ("gemini-2.0-flash", Thinking("none"), None, []),
    ],
)
def test_thinking_becomes_a_level_or_a_budget_depending_on_the_model(
    model: str, thinking: Thinking, thinking_config: Any, dropped: list[str]
):
    body = written_request(model=model, thinking=thinking, dropped=dropped)
    assert body.get("generationConfig", {}).get("thinkingConfig") == thinking_config


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("gemini-2.5-pro", {"thinkingBudget": 128}),
        ("gemini-3-flash-preview", {"thinkingLevel": "minimal"}),
        ("gemini-3.8-flash", {"thinkingLevel": "low"}),
        ("gemini-pro-latest", {"thinkingLevel": "low"}),
    ],
)
def test_models_that_always_think_think_as_little_as_they_can(model: str, config: dict[str, Any]):
    body = written_request(model=model, thinking=Thinking("none"), dropped=["thinking"])
    assert body["generationConfig"]["thinkingConfig"] == config


def test_thinking_is_a_hint_for_a_model_without_thinking():
    assert "generationConfig" not in written_request(model="gemini-2.0-flash-001", thinking=Thinking("low"), dropped=["thinking"])


@pytest.mark.parametrize("model", ["gemini-3.5-flash-lite", "gemini-3.6-flash", "gemini-3.8-flash", "gemini-flash-latest"])
@pytest.mark.parametrize("field", ["top_k", "frequency_penalty"])
def test_sampling_field_is_refused_for_models_that_ignore_it(model: str, field: str):
    assert refusal(model=model, **{field: 1 if field == "top_k" else 0.5}).startswith(field)
    assert "generationConfig" not in written_request(model=model, temperature=1.0, top_p=1.0, frequency_penalty=0.0)
    assert "generationConfig" not in written_request(model=model, temperature=0.1, top_p=0.9, dropped=["temperature", "top_p"])


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.1-pro-preview", "gemini-3.5-flash"])
def test_sampling_fields_are_sent_to_models_that_support_them(model: str):
    sent_config = written_request(model=model, temperature=0.0, top_p=0.5, top_k=3, presence_penalty=-2.0)["generationConfig"]
    assert sent_config == {"temperature": 0.0, "topP": 0.5, "topK": 3, "presencePenalty": -2.0}


def test_out_of_range_values_are_refused_with_their_limit_and_seeds_are_reduced():
    assert "at most 5 stop sequences" in refusal(stop=tuple("abcdef"))
    assert "at most 8 answers" in refusal(n=9)
    assert "from -2 to less than 2" in refusal(frequency_penalty=2.0)
    assert (
        written_request(seed=2**63)["generationConfig"]["seed"] == 0 and 0 <= written_request(seed=-5)["generationConfig"]["seed"] < 2**31
    )


def test_google_only_fields_are_forwarded():
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    body, _ = translate_chat_fields(STUDIO, {"safety_settings": safety, "cached_content": "cachedContents/x"})
    assert (body["safetySettings"], body["cachedContent"]) == (safety, "cachedContents/x")


def test_json_schema_with_tools_needs_gemini_3():
    output = JsonSchema(Raw(b'{"type":"object"}'), "x", "What it is.")
    sent_config = written_request(tools=(TOOL,), output=output)["generationConfig"]
    assert sent_config["responseJsonSchema"] == {"description": "What it is.", "type": "object"}
    assert "beside tools" in refusal(tools=(TOOL,), output=output, model="gemini-2.5-pro")


@pytest.mark.parametrize(
    ("constraint", "enforcement"),
    [
        ({"guided_json": {"type": "object", "properties": {"format": {"type": "integer", "maximum": 3}}}}, "enforced"),
        ({"guided_json": {"anyOf": [{"type": "string", "format": "date"}, {"enum": ["a", 1]}]}}, "enforced"),
        ({"guided_json": {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": ["string", "null"]}}}}, "enforced"),
        ({"guided_json": {"type": "string", "pattern": "^a"}}, "validated"),
        ({"guided_json": {"type": "array", "items": {"oneOf": [{"type": "string"}]}}}, "validated"),
        ({"guided_json": {"type": "object", "additionalProperties": {"const": 1}}}, "validated"),
        ({"guided_json": {"type": "object", "properties": {"a": {"enum": [True]}}}}, "validated"),
        ({"guided_json": {"prefixItems": [{"type": "string", "format": "uuid"}]}}, "validated"),
        ({"response_format": {"type": "json_object"}}, "validated"),
        ({"guided_choice": ["yes", "no"]}, "converted"),
    ],
)
def test_schema_is_enforced_only_for_keywords_that_google_documents(constraint: dict[str, Any], enforcement: str):
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **constraint}).encode()
    constraint_plan = translate_body(STUDIO, "openai_chat", raw).constraint_plan
    assert constraint_plan is not None and (constraint_plan.enforcement, constraint_plan.fields, constraint_plan.is_json_string) == (
        enforcement,
        None,
        False,
    )
    plan_when_trusted = translate_body(build_provider("gemini", "g", {"guided": "enforced"}), "openai_chat", raw).constraint_plan
    assert plan_when_trusted is not None and plan_when_trusted.enforcement == ("converted" if enforcement == "converted" else "enforced")


@pytest.mark.parametrize("constraint", [{"guided_regex": "[a-c]+"}, {"guided_choice": ["yes", ""]}, {"guided_json": True}])
def test_unsupported_constraint_is_refused_or_dropped_and_then_not_validated(constraint: dict[str, Any]):
    with pytest.raises(Unsupported):
        translate_chat_fields(STUDIO, constraint)
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **constraint}).encode()
    prepared = translate_body(STUDIO, "openai_chat", raw, drop=True)
    assert (prepared.dropped, prepared.constraint_plan) == ([next(iter(constraint))], None)
