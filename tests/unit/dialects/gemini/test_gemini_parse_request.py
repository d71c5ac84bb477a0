"""Requests of Gemini's callers: what is read, in which spellings, and what is refused by its path."""

import json
from typing import Any

import pytest

from providers.canonical.chat import (
    Audio,
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
from providers.canonical.errors import InvalidRequest
from providers.canonical.output_format import Choice, JsonObject, JsonSchema
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.gemini.address import write_address

DIALECT = CHAT_DIALECTS["gemini"]
TWO_SCHEMAS: Any = {"name": "f", "parameters": {}, "parametersJsonSchema": {}}
UNDECLARED: Any = {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}}
HI: Any = [{"role": "user", "parts": [{"text": "Hi"}]}]


def parse(**fields: Any):
    return DIALECT.parse_request(json.dumps({"model": "m", "contents": HI, **fields}).encode())


def read(**fields: Any):
    return DIALECT.read_request(parse(**fields).body)


@pytest.mark.parametrize("sent", [b'{"a":1}', b'{"a":1} \n', b'{"a":1,"model":"other","stream":true}'])
def test_address_is_written_behind_what_the_body_says(sent: bytes):
    assert json.loads(write_address(sent, 'm"x', stream=False)) == {"a": 1, "model": 'm"x', "stream": False}


@pytest.mark.parametrize(
    ("sent", "written"), [(b"{}", b'{"model":"m","stream":true}'), (b"[]", b"[]"), (b"", b""), (b"nonsense", b"nonsense")]
)
def test_what_is_no_object_stays_as_it_is(sent: bytes, written: bytes):
    assert write_address(sent, "m", stream=True) == written


def test_both_spellings_of_fields_mean_the_same():
    snake: dict[str, Any] = {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {
            "max_output_tokens": 5,
            "thinking_config": {"thinking_budget": 100},
            "response_mime_type": "application/json",
        },
        "tools": [
            {"function_declarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {"snake_case": {"any_of": []}}}}]}
        ],
        "contents": [{"role": "model", "parts": [{"function_call": {"name": "f", "args": {"inline_data": 1}}}]}],
    }
    camel: dict[str, Any] = {
        "systemInstruction": snake["system_instruction"],
        "generationConfig": {"maxOutputTokens": 5, "thinkingConfig": {"thinkingBudget": 100}, "responseMimeType": "application/json"},
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {"snake_case": {"anyOf": []}}}}]}],
        "contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"inline_data": 1}}}]}],
    }
    written = json.loads(parse(**snake).body.write())
    assert written == {"model": "m", **camel}


def test_field_in_two_spellings_is_refused():
    with pytest.raises(InvalidRequest) as refused:
        parse(generationConfig={"topK": 1, "top_k": 2})
    assert refused.value.param == "generationConfig.topK"


def test_parameters_are_read():
    chat = read(
        generationConfig={
            **{"maxOutputTokens": 5, "temperature": 0.5, "topP": 0.9, "topK": 3, "seed": 7, "candidateCount": 2, "stopSequences": ["END"]},
            **{"frequencyPenalty": 0.1, "presencePenalty": 0.2, "responseLogprobs": True, "logprobs": 3},
        },
        labels={"tenant": "a"},
    )
    assert (chat.max_tokens, chat.temperature, chat.top_p, chat.top_k, chat.seed, chat.n, chat.stop) == (5, 0.5, 0.9, 3, 7, 2, ("END",))
    assert (chat.frequency_penalty, chat.presence_penalty, chat.logprobs, chat.top_logprobs) == (0.1, 0.2, True, 3)
    inbound = parse(generationConfig={"maxOutputTokens": 5, "candidateCount": 2}, labels={"tenant": "a"})
    assert (inbound.output_tokens, inbound.choices, inbound.tags, chat.metadata) == (10, 2, {"tenant": "a"}, {"tenant": "a"})


@pytest.mark.parametrize(
    ("config", "thinking"),
    [
        ({"thinkingBudget": 0}, Thinking("none")),
        ({"thinkingBudget": -1}, Thinking(adaptive=True)),
        ({"thinkingBudget": 500, "includeThoughts": True}, Thinking(budget_tokens=500, summary="auto")),
        ({"thinkingLevel": "HIGH"}, Thinking("high")),
        ({"includeThoughts": False}, Thinking()),
    ],
)
def test_thinking_is_read(config: Any, thinking: Thinking):
    assert read(generationConfig={"thinkingConfig": config}).thinking == thinking


def test_formats_are_read():
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": True, "minItems": "2"}}, "propertyOrdering": ["a"]}
    output = read(generationConfig={"responseMimeType": "application/json", "responseSchema": schema}).output
    assert isinstance(output, JsonSchema)
    assert json.loads(bytes(output.schema)) == {"type": "object", "properties": {"a": {"type": ["integer", "null"], "minItems": 2}}}
    json_schema: dict[str, Any] = {"type": "object", "$defs": {}}
    output = read(generationConfig={"responseMimeType": "application/json", "responseJsonSchema": json_schema}).output
    assert isinstance(output, JsonSchema) and json.loads(bytes(output.schema)) == json_schema
    assert read(generationConfig={"responseMimeType": "application/json"}).output == JsonObject()
    assert read(generationConfig={"responseMimeType": "text/plain"}).output is None
    options = {"type": "STRING", "enum": ["a", "b"]}
    assert read(generationConfig={"responseMimeType": "text/x.enum", "responseSchema": options}).output == Choice(("a", "b"))


@pytest.mark.parametrize(
    ("calling", "choice"),
    [
        ({"mode": "ANY"}, ToolChoice("required")),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ToolChoice("named", "f")),
        ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, ToolChoice("required", allowed=("f", "g"))),
        ({"mode": "NONE"}, ToolChoice("none")),
        ({"mode": "AUTO"}, ToolChoice("auto")),
        ({"mode": "VALIDATED"}, ToolChoice("auto")),
        ({}, None),
    ],
)
def test_tool_choice_is_read(calling: Any, choice: ToolChoice | None):
    tools: Any = [
        {"functionDeclarations": [{"name": "f"}, {"name": "g", "parametersJsonSchema": {"type": "object"}}]},
        {"googleSearch": {}},
    ]
    chat = read(tools=tools, toolConfig={"functionCallingConfig": calling})
    assert chat.tool_choice == choice
    first, second, search = chat.tools
    assert isinstance(first, Tool) and isinstance(second, Tool) and (first.name, second.name) == ("f", "g")
    assert isinstance(search, HostTool) and (search.kind, search.optional) == ("web_search", True)


def test_files_are_read_by_their_types():
    def inline(media_type: str, data: str = "QUJD") -> Any:
        return {"inlineData": {"mimeType": media_type, "data": data}}

    url = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a"}}
    stored = {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}}
    parts = [inline("image/jpg", "/9j/"), inline("audio/mpeg"), inline("application/pdf", "a-_b"), inline("video/mp4"), url, stored]
    (message,) = read(contents=[{"parts": parts}]).messages
    assert message.parts[:3] == (
        Image(Inline("image/jpeg", "/9j/")),
        Audio(Inline("audio/mp3", "QUJD")),
        File(Inline("application/pdf", "a+/b")),
    )
    assert isinstance(message.parts[3], Opaque) and message.parts[4] == Image(Url("https://example.com/a"))
    assert isinstance(message.parts[5], Opaque) and message.parts[5].origin == "gemini"


def test_calls_and_results_without_ids_belong_together_in_their_order():
    def call(name: str) -> Any:
        return {"functionCall": {"name": name, "args": {}}}

    def result(name: str, **response: Any) -> Any:
        return {"functionResponse": {"name": name, "response": response}}

    contents = [
        *HI,
        {"role": "model", "parts": [call("f"), call("g"), call("f")]},
        {"role": "user", "parts": [result("f", output="1"), result("f", error="2"), result("g", a=3)]},
    ]
    _, calls, results = read(contents=contents).messages
    assert [part.id for part in calls.parts if isinstance(part, ToolCall)] == ["call_1_0", "call_1_1", "call_1_2"]
    assert results.parts == (
        ToolResult("call_1_0", (Text("1"),)),
        ToolResult("call_1_2", (Text("2"),), True),
        ToolResult("call_1_1", (Text('{"a": 3}'),)),
    )


def test_chunks_of_a_stream_are_one_message():
    """google-genai's chats keep each chunk as a content of its own."""
    chunks = [
        [{"text": "Thi", "thought": True}],
        [{"text": "nk", "thought": True}],
        [{"text": "", "thought": True, "thoughtSignature": "QQ"}],
    ]
    chunks += [[{"text": "Hel"}], [{"text": "lo"}], [{"text": ""}]]
    contents = [*HI, *({"role": "model", "parts": parts} for parts in chunks), *HI]
    request = parse(contents=contents)
    messages = DIALECT.read_request(request.body).messages
    assert messages[1] == Message("assistant", (Reasoning("Think", OpaqueState("gemini", "QQ")), Text("Hello")))
    assert DIALECT.caller_path(request.body, "messages[1].content[1]") == "contents[4].parts[0]"
    assert DIALECT.caller_path(request.body, "messages[2].content[0]") == "contents[7].parts[0]"


def test_paths_are_those_of_the_caller():
    contents: list[dict[str, Any]] = [{"parts": [{"functionResponse": {"name": "f", "response": {}}}, {"text": "a"}]}]
    functions = [{"functionDeclarations": [{"name": name}]} for name in "fg"]
    tools: list[dict[str, Any]] = [functions[0], {"googleSearch": {}}, functions[1]]
    body = parse(contents=contents, systemInstruction={"parts": [{"text": "x"}]}, tools=tools).body
    for path, expected in {
        "messages[0].content[0]": "systemInstruction.parts[0]",
        "messages[1].content[1]": "contents[0].parts[1]",
        "messages[1].content[0].content[0]": "contents[0].parts[0].functionResponse",
        "messages[1].role": "contents[0].role",
        "tools[0]": "tools[0].functionDeclarations[0]",
        "tools[1]": "tools[1].googleSearch",
        "tools[2].strict": "tools[2].functionDeclarations[0].strict",
        "tools[9]": "tools[9]",
        "other": "other",
    }.items():
        assert DIALECT.caller_path(body, path) == expected


REFUSED: list[tuple[Any, str]] = [
    ({"contents": []}, "contents"),
    ({"contents": [{"role": "robot", "parts": []}]}, "contents[0].role"),
    ({"contents": [{"parts": [{"functionCall": {"name": "f"}}]}]}, "contents[0].parts[0].functionCall"),
    ({"contents": [{"role": "model", "parts": [{"functionResponse": {"name": "f"}}]}]}, "contents[0].parts[0].functionResponse"),
    ({"contents": [{"parts": [{"inlineData": {"data": "QQ=="}}]}]}, "contents[0].parts[0].inlineData"),
    ({"generationConfig": {"temperature": 9}}, "generationConfig.temperature"),
    ({"generationConfig": {"responseSchema": {}, "responseJsonSchema": {}}}, "generationConfig.responseJsonSchema"),
    ({"generationConfig": {"responseSchema": {}}}, "generationConfig.responseMimeType"),
    ({"generationConfig": {"logprobs": 2}}, "generationConfig.logprobs"),
    ({"tools": [{"functionDeclarations": [TWO_SCHEMAS]}]}, "tools[0].functionDeclarations[0].parametersJsonSchema"),
    (UNDECLARED, "toolConfig.functionCallingConfig.allowedFunctionNames[0]"),
    ({"max_tokens": 5}, "max_tokens"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_invalid_request_is_refused_by_its_path(fields: Any, param: str):
    with pytest.raises(InvalidRequest) as refused:
        parse(**fields)
    assert refused.value.param == param


def test_unknown_level_is_refused_by_its_path():
    with pytest.raises(InvalidRequest) as refused:
        read(generationConfig={"thinkingConfig": {"thinkingLevel": "ENORMOUS"}})
    assert refused.value.param == "generationConfig.thinkingConfig.thinkingLevel"
