"""Laws of what Gemini is asked: every field in its words, or refused by name; and what differs from model to model."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import Raw

from providers import structured_output
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
from providers.catalogue import build_provider
from providers.dialect import DropPolicy
from providers.dialects.gemini import Gemini
from tests.laws.chats import bounded, chat_requests
from tests.laws.engine_fields import ASKED, SILENT, check, prepare, sent

STUDIO = build_provider("gemini", "google", {})
DIALECT = Gemini()
SCHEMA = {"type": "object"}
NOW: dict[str, Any] = {"functionDeclarations": [{"name": "now", "parametersJsonSchema": {"type": "object", "properties": {}}}]}


def config(**said: Any) -> Mapping[str, Any]:
    return {"generationConfig": said}


SCHEMED = config(responseMimeType="application/json", responseJsonSchema=SCHEMA)
VERDICTS: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(ASKED, "refused"),
    "tools": {"tools": [NOW]},
    "functions": {"tools": [{"functionDeclarations": [{"name": "now"}]}]},
    "tool_choice": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    "max_tokens": config(maxOutputTokens=7),
    "max_completion_tokens": config(maxOutputTokens=7),
    "temperature": config(temperature=0.5),
    "top_p": config(topP=0.5),
    "top_k": config(topK=5),
    "n": config(candidateCount=2),
    "seed": config(seed=3),
    "stop": config(stopSequences=["END"]),
    "frequency_penalty": config(frequencyPenalty=0.5),
    "presence_penalty": config(presencePenalty=0.5),
    "logprobs": config(responseLogprobs=True),
    "top_logprobs": config(responseLogprobs=True, logprobs=2),
    "reasoning_effort": config(thinkingConfig={"thinkingLevel": "low", "includeThoughts": True}),
    **dict.fromkeys(("response_format", "guided_json", "structured_outputs", "json_schema"), SCHEMED),
    "guided_choice": config(responseMimeType="text/x.enum", responseSchema={"type": "STRING", "enum": ["yes", "no"]}),
    **dict.fromkeys(("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"), "hint"),
    **dict.fromkeys(("prompt_cache_retention", "prediction", "guided_decoding_backend"), "hint"),
}


def concessions(*, dropping: bool = False) -> DropPolicy:
    return DropPolicy(lambda _: dropping, {}, "google (gemini)")


def asked(*messages: Message, model: str = "gemini-3-flash-preview", dropped: list[str] | None = None, **said: Any) -> dict[str, Any]:
    told = concessions()
    body = DIALECT.write_request(ChatRequest("openai_chat", model, messages or (HELLO,), **said), told)
    assert told.dropped == (dropped or [])
    return json.loads(body.write())


def refused(*messages: Message, **said: Any) -> str:
    with pytest.raises(Unsupported) as reason:
        asked(*messages, **said)
    assert reason.value.param is not None
    return f"{reason.value.param}: {reason.value.message}"


def user(*parts: Content) -> Message:
    return Message("user", parts)


def model(*parts: Content) -> Message:
    return Message("assistant", parts)


HELLO = user(Text("Hello!"))
PARIS = ToolCall("c1", "weather", '{"city":"Paris"}')
ROME = ToolCall("c2", "weather", '{"city":"Rome"}')
TOOL = Tool("weather", "Tells it.", Raw(b'{"type":"object"}'))


@pytest.mark.parametrize("field", ASKED)
def test_every_field_is_said_in_its_words_or_refused_or_reported(field: str):
    if field == "top_logprobs":
        assert sent(STUDIO, {"logprobs": True, "top_logprobs": 2})[0]["generationConfig"] == {"responseLogprobs": True, "logprobs": 2}
        return
    if field in ("parallel_tool_calls", "function_call"):
        return  # See below: they say something about tools.
    check(STUDIO, field, VERDICTS[field])


@pytest.mark.parametrize("field", SILENT)
def test_what_asks_for_nothing_is_not_refused(field: str):
    assert sent(STUDIO, {field: SILENT[field]})[1] == []


@settings(bounded, max_examples=20)
@given(chat_requests())
def test_any_chat_is_written_with_all_that_it_cannot_say_let_go(chat: ChatRequest):
    body = DIALECT.write_request(chat, concessions(dropping=True))
    assert "model" not in body and json.loads(body.write())["contents"] is not None
    assert {turn["role"] for turn in body["contents"]} <= {"user", "model"} and all(turn["parts"] for turn in body["contents"])


def test_instructions_stand_apart_and_a_late_one_is_reported_to_have_moved():
    system, late = Message("system", (Text("Be brief."),)), Message("developer", (Text("Be kind."),))
    body = asked(system, HELLO, late, dropped=["messages[2].role"])
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hello!"}]}]


def test_instructions_alone_are_what_there_is_to_answer():
    body = asked(Message("system", (Text("Say hello."),)))
    assert body == {"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}


def test_results_name_their_function_and_stand_together_apart_from_what_is_said_beside():
    results = user(ToolResult("c2", (Text("rain"),)), Text("Well?")), user(ToolResult("c1", (Text("no such city"),), is_error=True))
    contents = asked(HELLO, model(PARIS, ROME), *results, model="gemini-2.5-flash")["contents"]
    assert [turn["role"] for turn in contents] == ["user", "model", "user", "user", "user"]
    assert contents[1]["parts"] == [
        {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "Paris"}}},
        {"functionCall": {"id": "c2", "name": "weather", "args": {"city": "Rome"}}},
    ]
    assert contents[2]["parts"] == [{"functionResponse": {"id": "c2", "name": "weather", "response": {"output": "rain"}}}]
    assert contents[4]["parts"] == [{"functionResponse": {"id": "c1", "name": "weather", "response": {"error": "no such city"}}}]
    one_by_one = asked(HELLO, model(PARIS), model(ROME), *(user(ToolResult(id, (Text("rain"),))) for id in ("c1", "c2")))["contents"]
    assert [len(turn["parts"]) for turn in one_by_one] == [1, 2, 2]


def test_a_result_of_no_known_call_is_refused():
    assert "function's name" in refused(HELLO, user(ToolResult("c9", (Text("x"),))))


def test_an_id_that_is_used_in_every_turn_is_that_of_the_call_before_the_result():
    turns = [(model(ToolCall("call_0", name, "{}")), user(ToolResult("call_0", (Text("x"),)))) for name in ("weather", "clock")]
    contents = asked(HELLO, *turns[0], *turns[1], model="gemini-2.5-flash")["contents"]
    told = [part["functionResponse"]["name"] for turn in contents for part in turn["parts"] if "functionResponse" in part]
    assert told == ["weather", "clock"]


def test_what_is_no_object_in_a_call_is_kept_in_one():
    parts = asked(HELLO, model(ToolCall("c1", "weather", "{broken")), model="gemini-2.0-flash")["contents"][1]["parts"]
    assert parts == [{"functionCall": {"id": "c1", "name": "weather", "args": {"_unparsed": "{broken"}}}]


def test_pictures_in_results_stand_in_them_from_gemini_3_on_and_behind_them_before():
    result = user(ToolResult("c1", (Text("here"), Image(Inline("image/png", "AAAA")))))
    media = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    newer = asked(HELLO, model(PARIS), result)["contents"]
    assert newer[2]["parts"][0]["functionResponse"]["parts"] == [media]
    older = asked(HELLO, model(PARIS), result, model="gemini-2.5-pro")["contents"]
    assert older[2]["parts"] == [{"functionResponse": {"id": "c1", "name": "weather", "response": {"output": "here"}}}]
    assert older[3]["parts"] == [{"text": "From the result of tool call c1:"}, media]


def test_signatures_go_back_where_they_came_from_and_calls_of_others_get_googles_stand_in():
    ours, theirs = OpaqueState("gemini", "SIG"), OpaqueState("anthropic_messages", "other")
    told = asked(HELLO, model(Reasoning("", ours), Text("Hm."), Reasoning("", ours)), HELLO, model(Reasoning("I think.", ours)))["contents"]
    assert told[1]["parts"] == [{"text": "Hm.", "thoughtSignature": "SIG"}, {"text": "", "thoughtSignature": "SIG"}]
    assert told[3]["parts"] == [{"text": "I think.", "thought": True, "thoughtSignature": "SIG"}]
    sealed = ToolCall("c1", "weather", "{}", opaque_state=ours), ToolCall("c2", "weather", "{}")
    assert [part.get("thoughtSignature") for part in asked(HELLO, model(*sealed))["contents"][1]["parts"]] == ["SIG", None]
    foreign = ToolCall("c1", "weather", "{}", opaque_state=theirs), ToolCall("c2", "weather", "{}")
    parts = asked(HELLO, model(*foreign), dropped=["reasoning.seal"])["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["skip_thought_signature_validator", None]
    older = asked(HELLO, model(*foreign), model="gemini-2.5-flash", dropped=["reasoning.seal"])["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in older] == [None, None]
    assert (
        len(asked(HELLO, model(Reasoning("Hm.", theirs), Text("Yes.")), dropped=["reasoning.seal", "reasoning"])["contents"][1]["parts"])
        == 1
    )


def test_parts_of_its_own_go_back_as_they_came_and_those_of_others_are_refused():
    own = Opaque("gemini", Raw(b'{"type":"executableCode","executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"S"}'))
    told = asked(HELLO, model(own))["contents"][1]["parts"]
    assert told == [{"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"}]
    assert "web_search_call" in refused(HELLO, model(Opaque("openai_responses", Raw(b'{"type":"web_search_call","id":"w"}'))))


def test_media_are_bytes_or_addresses_of_a_known_kind():
    parts = asked(
        user(File(Inline("application/pdf", "JVBE"), "a.pdf"), Image(Url("https://x.test/a.PNG?b=c"))),
        dropped=["messages[0].content[0].name"],
    )
    assert parts["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x.test/a.PNG?b=c"}},
    ]
    kept = "https://generativelanguage.googleapis.com/v1beta/files/abc"
    assert asked(user(File(Url(kept))))["contents"][0]["parts"] == [{"fileData": {"fileUri": kept}}]
    assert STUDIO.accepts_media_url(kept, "gemini") and not STUDIO.accepts_media_url("https://x.test/a.png", "gemini")
    assert "what kind of file" in refused(user(Image(Url("https://x.test/picture"))))


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
def test_how_tools_are_chosen_is_a_mode(choice: ToolChoice | None, calling: Any):
    body = asked(tools=(TOOL,), tool_choice=choice)
    assert body.get("toolConfig", {}).get("functionCallingConfig") == calling
    assert body["tools"] == [{"functionDeclarations": [{"name": "weather", "description": "Tells it.", "parametersJsonSchema": SCHEMA}]}]


def test_of_tools_that_may_be_called_alone_the_others_are_not_told():
    body = asked(tools=(TOOL, Tool("other")), tool_choice=ToolChoice("auto", allowed=("weather",)))
    assert [each["name"] for each in body["tools"][0]["functionDeclarations"]] == ["weather"] and "toolConfig" not in body


def test_strict_tools_are_validated_unless_their_schema_says_what_is_not_held():
    strict = Tool("weather", None, Raw(b'{"type":"object","properties":{"pattern":{"type":"string"}}}'), strict=True)
    assert asked(tools=(strict,))["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    loose = Tool("weather", None, Raw(b'{"type":"object","properties":{"a":{"type":"string","pattern":"x"}}}'), strict=True)
    assert "tools[0].strict" in (told := refused(tools=(loose,))) and "`pattern`" in told


@pytest.mark.parametrize("name", ["1st", "-x", "a b", "x" * 129, ""])
def test_a_name_that_it_would_refuse_is_refused_with_the_rule(name: str):
    assert "begin with a letter or _" in refused(tools=(Tool(name),))


def test_one_call_at_a_time_cannot_be_asked_of_it():
    assert refused(tools=(TOOL,), parallel_calls=False).startswith("parallel_calls")
    assert "tools" not in asked(parallel_calls=False)


def test_a_search_of_the_web_is_googles_own():
    search = HostTool("openai_responses", "web_search", Raw(b'{"type":"web_search"}'))
    assert asked(tools=(search,), model="gemini-2.5-flash")["tools"] == [{"googleSearch": {}}]
    both = asked(tools=(search, TOOL))
    assert len(both["tools"]) == 2 and both["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert "not both" in refused(tools=(search, TOOL), model="gemini-2.5-flash")
    limited = HostTool("anthropic_messages", "web_search_20250305", Raw(b'{"type":"web_search_20250305","name":"web_search","max_uses":2}'))
    assert refused(tools=(limited,)).startswith("tools[0].max_uses")
    assert "file_search" in refused(tools=(HostTool("openai_responses", "file_search", Raw(b"{}")),))


@pytest.mark.parametrize(
    ("model", "thinking", "told", "dropped"),
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
def test_how_much_to_think_is_a_level_or_a_budget_by_the_model(model: str, thinking: Thinking, told: Any, dropped: list[str]):
    assert asked(model=model, thinking=thinking, dropped=dropped).get("generationConfig", {}).get("thinkingConfig") == told


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-flash-preview", "gemini-3.8-flash", "gemini-pro-latest"])
def test_thinking_that_cannot_be_switched_off_is_not(model: str):
    assert "cannot be switched off" in refused(model=model, thinking=Thinking("none"))


def test_a_model_that_does_not_think_is_not_asked_to():
    assert "does not think" in refused(model="gemini-2.0-flash-001", thinking=Thinking("low"))


@pytest.mark.parametrize("model", ["gemini-3.5-flash-lite", "gemini-3.6-flash", "gemini-3.8-flash", "gemini-flash-latest"])
@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k", "frequency_penalty"])
def test_models_that_pass_over_sampling_are_not_asked_for_it_in_silence(model: str, field: str):
    assert refused(model=model, **{field: 1 if field == "top_k" else 0.5}).startswith(field)
    assert "generationConfig" not in asked(model=model, temperature=1.0, frequency_penalty=0.0)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.1-pro-preview", "gemini-3.5-flash"])
def test_models_that_heed_sampling_are_told_of_it(model: str):
    told = asked(model=model, temperature=0.0, top_p=0.5, top_k=3, presence_penalty=-2.0)["generationConfig"]
    assert told == {"temperature": 0.0, "topP": 0.5, "topK": 3, "presencePenalty": -2.0}


def test_its_bounds_are_refused_by_their_rule_and_seeds_are_made_to_fit():
    assert "5 stop sequences at most" in refused(stop=tuple("abcdef"))
    assert "8 answers" in refused(n=9)
    assert "without, 2" in refused(frequency_penalty=2.0)
    assert asked(seed=2**63)["generationConfig"]["seed"] == 0 and 0 <= asked(seed=-5)["generationConfig"]["seed"] < 2**31


def test_what_google_alone_has_is_said_as_it_was():
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    body, _ = sent(STUDIO, {"safety_settings": safety, "cached_content": "cachedContents/x"})
    assert (body["safetySettings"], body["cachedContent"]) == (safety, "cachedContents/x")


def test_a_schema_beside_tools_wants_gemini_3():
    output = structured_output.JsonSchema(Raw(b'{"type":"object"}'), "x", "What it is.")
    told = asked(tools=(TOOL,), output=output)["generationConfig"]
    assert told["responseJsonSchema"] == {"description": "What it is.", "type": "object"}
    assert "beside tools" in refused(tools=(TOOL,), output=output, model="gemini-2.5-pro")


@pytest.mark.parametrize(
    ("said", "how"),
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
def test_a_schema_is_taken_as_held_for_the_keywords_that_google_names_alone(said: dict[str, Any], how: str):
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **said}).encode()
    guiding = prepare(STUDIO, "openai_chat", raw).constraint_plan
    assert guiding is not None and (guiding.enforcement, guiding.fields, guiding.is_json_string) == (how, None, False)
    trusted = prepare(build_provider("gemini", "g", {"guided": "enforced"}), "openai_chat", raw).constraint_plan
    assert trusted is not None and trusted.enforcement == ("converted" if how == "converted" else "enforced")


@pytest.mark.parametrize("said", [{"guided_regex": "[a-c]+"}, {"guided_choice": ["yes", ""]}, {"guided_json": True}])
def test_a_constraint_that_it_cannot_say_is_refused_or_let_go_and_then_nobody_looks(said: dict[str, Any]):
    with pytest.raises(Unsupported):
        sent(STUDIO, said)
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **said}).encode()
    prepared = prepare(STUDIO, "openai_chat", raw, drop=True)
    assert (prepared.dropped, prepared.constraint_plan) == ([next(iter(said))], None)
