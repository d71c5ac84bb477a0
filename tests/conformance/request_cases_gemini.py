"""The requests of the cases as callers of Gemini write them; and outcomes that differ from those of the other callers.

A case that is not here is not in Gemini's API.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.conformance.request_case import (
    DropReported,
    FeatureGroup,
    Outcome,
    Refused,
    RequestCase,
    Translated,
    anthropic,
    assistant,
    chat,
    responses,
    user,
)
from tests.conformance.request_samples import (
    ANTHROPIC_CALL,
    CHAT_CALL,
    IMAGE_URL,
    NON_STRICT_TOOLS,
    OTHER_TOOL_ANTHROPIC,
    OTHER_TOOL_CHAT,
    OTHER_TOOL_RESPONSES,
    PDF,
    PDF_URL,
    PNG,
    RESPONSES_CALL,
    SCHEMA,
    TOOLS,
    WAV,
    anthropic_result,
    chat_result,
    responses_result,
    responses_tool,
)
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, GEMINI, RESPONSES

GeminiRequest = tuple[Mapping[str, Any], Mapping[str, Outcome]]


def contents(*turns: Any) -> dict[str, Any]:
    return {"contents": list(turns)}


def user_turn(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model_turn(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def config(**fields: Any) -> dict[str, Any]:
    return {"generationConfig": fields}


def inline(media_type: str, data: str, **more: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": data, **more}}


def called(id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": "get_weather", "args": {"city": "Paris"}}, **more}


def resulted(response: Any, id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": "get_weather", "response": response, **more}}


DECLARATION = {"name": "get_weather", "description": "The weather.", "parametersJsonSchema": SCHEMA}
GEMINI_TOOLS = {"tools": [{"functionDeclarations": [DECLARATION]}]}
TWO_TOOLS = {"tools": [{"functionDeclarations": [DECLARATION, {"name": "now", "parametersJsonSchema": {"type": "object"}}]}]}


def choice(mode: str, **more: Any) -> dict[str, Any]:
    return {**GEMINI_TOOLS, "toolConfig": {"functionCallingConfig": {"mode": mode, **more}}}


def refused(param: str, targets: tuple[str, ...] = ALL) -> Mapping[str, Outcome]:
    return dict.fromkeys(targets, Refused(param))


def reported(param: str, targets: tuple[str, ...] = ALL) -> Mapping[str, Outcome]:
    return dict.fromkeys(targets, DropReported((param,)))


_UNNAMED_PDF = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}
_ANSWER_FORMAT = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
_THOUGHT = contents(user_turn("Hello"), model_turn({"text": "Hm.", "thought": True}, "Hi."), user_turn("So?"))
_PLAIN = {
    CHAT: chat(user("Hello"), assistant("Hi."), user("So?")),
    RESPONSES: responses(user("Hello"), assistant("Hi."), user("So?")),
    ANTHROPIC: anthropic(user("Hello"), assistant("Hi."), user("So?")),
}

GEMINI_REQUESTS: Mapping[str, GeminiRequest] = {
    "conversation": (contents(user_turn("Hello"), model_turn("Good day."), user_turn("Go on.")), {}),
    "system prompt": ({"systemInstruction": {"parts": [{"text": "Be brief."}]}}, {}),
    "system message in the middle": (
        contents(user_turn("Hello"), model_turn("Hi."), {"role": "system", "parts": [{"text": "Be brief."}]}, user_turn("Go on.")),
        {},
    ),
    "prefill of the response": (
        contents(user_turn("Hello"), model_turn("Dear")),
        {
            CHAT: Translated(chat(user("Hello"), assistant("Dear"))),
            RESPONSES: Translated(responses(user("Hello"), assistant("Dear"))),
            ANTHROPIC: Translated(anthropic(user("Hello"), assistant("Dear"))),
        },
    ),
    "image by URL": (contents(user_turn("What?", {"fileData": {"mimeType": "image/png", "fileUri": IMAGE_URL}})), {}),
    "image as data": (contents(user_turn(inline("image/png", PNG))), {}),
    "PDF by URL": (contents(user_turn("Sum up.", {"fileData": {"mimeType": "application/pdf", "fileUri": PDF_URL}})), {}),
    "PDF as data": (contents(user_turn(inline("application/pdf", PDF, displayName="a.pdf"))), {}),
    "file stored at the host": (
        contents(user_turn({"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}})),
        refused("contents[0].parts[0]"),
    ),
    "audio": (contents(user_turn(inline("audio/wav", WAV))), refused("contents[0].parts[0]", (ANTHROPIC,))),
    "tools": (GEMINI_TOOLS, {}),
    "tool choice: auto": (choice("AUTO"), {}),
    "tool choice: none": (choice("NONE"), {}),
    "tool choice: required": (choice("ANY"), {}),
    "tool choice: by name": (choice("ANY", allowedFunctionNames=["get_weather"]), {}),
    "tool choice: allowed tools": (
        {**TWO_TOOLS, "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["now"]}}},
        {
            CHAT: Translated({"tools": [OTHER_TOOL_CHAT], "tool_choice": "auto"}, "only those tools are sent"),
            ANTHROPIC: Translated({"tools": [OTHER_TOOL_ANTHROPIC], "tool_choice": {"type": "auto"}}, "only those tools are sent"),
            RESPONSES: Translated(
                {
                    "tools": [responses_tool(strict=False), {**OTHER_TOOL_RESPONSES, "strict": False}],
                    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "now"}]},
                }
            ),
        },
    ),
    "call and result": (contents(user_turn("Hello"), model_turn(called()), user_turn(resulted({"output": "18 degrees"}))), {}),
    "parallel calls and results": (
        contents(
            user_turn("Hello"),
            model_turn("Looking.", called(), called("call_2")),
            user_turn(resulted({"output": "18"}), resulted({"output": "19"}, "call_2"), "So?"),
        ),
        {},
    ),
    "result with `is_error`": (
        contents(user_turn("Hello"), model_turn(called()), user_turn(resulted({"error": "no such city"}))),
        {
            CHAT: DropReported(
                ("contents[2].parts[0].is_error",),
                chat(user("Hello"), assistant(None, tool_calls=[CHAT_CALL]), chat_result("no such city")),
            ),
            RESPONSES: DropReported(
                ("contents[2].parts[0].is_error",), responses(user("Hello"), RESPONSES_CALL, responses_result("no such city"))
            ),
            ANTHROPIC: Translated(anthropic(user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result("no such city", is_error=True))),
        },
    ),
    "result with an image": (
        contents(user_turn("Hello"), model_turn(called()), user_turn(resulted({"output": "Here:"}, parts=[inline("image/png", PNG)]))),
        {},
    ),
    "tools run by the host": ({"tools": [{"googleSearch": {}}]}, refused("tools[0].googleSearch")),
    "JSON schema": (
        config(responseMimeType="application/json", responseJsonSchema=SCHEMA),
        {
            CHAT: Translated(
                {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}}
            ),
            RESPONSES: Translated({"text": {"format": _ANSWER_FORMAT}}),
        },
    ),
    "JSON object": (config(responseMimeType="application/json"), refused("generationConfig.responseJsonSchema", (ANTHROPIC,))),
    "token limit": (config(maxOutputTokens=50), {}),
    "temperature": (config(temperature=0.5), {}),
    "temperature over 1": (config(temperature=1.5), refused("generationConfig.temperature", (ANTHROPIC,))),
    "top_p": (config(topP=0.5), {}),
    "top_k": (config(topK=5), reported("generationConfig.topK", (RESPONSES,))),
    "stop sequences": (config(stopSequences=["END"]), refused("generationConfig.stopSequences", (RESPONSES,))),
    "seed": (config(seed=7), {CHAT: Translated({"seed": 7}), **reported("generationConfig.seed", (RESPONSES, ANTHROPIC))}),
    "several choices": (
        config(candidateCount=2),
        {CHAT: Translated({"n": 2}), **refused("generationConfig.candidateCount", (RESPONSES, ANTHROPIC))},
    ),
    "frequency penalty": (
        config(frequencyPenalty=0.5),
        {CHAT: Translated({"frequency_penalty": 0.5}), **refused("generationConfig.frequencyPenalty", (RESPONSES, ANTHROPIC))},
    ),
    "presence penalty": (
        config(presencePenalty=0.5),
        {CHAT: Translated({"presence_penalty": 0.5}), **refused("generationConfig.presencePenalty", (RESPONSES, ANTHROPIC))},
    ),
    "logprobs": (
        config(responseLogprobs=True, logprobs=2),
        refused("generationConfig.responseLogprobs", (ANTHROPIC,)),
    ),
    "effort": (config(thinkingConfig={"thinkingLevel": "HIGH"}), {}),
    "no reasoning": (config(thinkingConfig={"thinkingBudget": 0}), {}),
    "thinking budget": (
        config(maxOutputTokens=9000, thinkingConfig={"thinkingBudget": 5000}),
        {
            CHAT: Translated(
                {"max_completion_tokens": 9000, "reasoning_effort": "medium"},
                "effort",
                ("generationConfig.thinkingConfig.thinkingBudget",),
            ),
            RESPONSES: Translated(
                {"max_output_tokens": 9000, "reasoning": {"effort": "medium"}},
                "effort",
                ("generationConfig.thinkingConfig.thinkingBudget",),
            ),
            ANTHROPIC: Translated({"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 5000}}),
        },
    ),
    "summary of reasoning": (
        config(thinkingConfig={"thinkingLevel": "LOW", "includeThoughts": True}),
        {
            CHAT: DropReported(("generationConfig.thinkingConfig.includeThoughts",), {"reasoning_effort": "low"}),
            RESPONSES: Translated({"reasoning": {"effort": "low", "summary": "auto"}}),
        },
    ),
    "reasoning as text": (
        _THOUGHT,
        {
            CHAT: Translated(chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?"))),
            RESPONSES: DropReported(("thought",), _PLAIN[RESPONSES]),
            ANTHROPIC: DropReported(("thought",), _PLAIN[ANTHROPIC]),
        },
    ),
    "signed call (Google's)": (
        contents(user_turn("Hello"), model_turn(called(thoughtSignature="QUJD")), user_turn(resulted({"output": "18"}))),
        {
            CHAT: DropReported(("thoughtSignature",), chat(user("Hello"), assistant(None, tool_calls=[CHAT_CALL]), chat_result("18"))),
            RESPONSES: DropReported(("thoughtSignature",), responses(user("Hello"), RESPONSES_CALL, responses_result("18"))),
            ANTHROPIC: DropReported(("thoughtSignature",), anthropic(user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result("18"))),
        },
    ),
    "metadata": ({"labels": {"tenant": "a"}}, reported("labels", (ANTHROPIC,))),
    "storage": ({"store": True}, {CHAT: Translated({"store": True})}),
    "safety settings": (
        {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
        reported("safetySettings"),
    ),
    "functions that obey their schemas": (
        choice("VALIDATED"),
        {
            CHAT: DropReported(("toolConfig.functionCallingConfig",), {**TOOLS[CHAT], "tool_choice": "auto"}),
            RESPONSES: DropReported(("toolConfig.functionCallingConfig",), {**NON_STRICT_TOOLS[RESPONSES], "tool_choice": "auto"}),
            ANTHROPIC: DropReported(("toolConfig.functionCallingConfig",), {**TOOLS[ANTHROPIC], "tool_choice": {"type": "auto"}}),
        },
    ),
    "cached contents": ({"cachedContent": "cachedContents/1"}, refused("cachedContent")),
    "an unknown field (Gemini)": ({"frobnicate": 1}, refused("frobnicate")),
    "output of other kinds": (config(responseModalities=["IMAGE"]), refused("generationConfig.responseModalities")),
}

# Cases of Gemini's callers alone, by the group that they are in.
_OWN_CASES: tuple[tuple[FeatureGroup, str], ...] = (
    ("history", "signed call (Google's)"),
    ("hints", "safety settings"),
    ("tools", "functions that obey their schemas"),
    ("other fields", "cached contents"),
    ("other fields", "an unknown field (Gemini)"),
    ("other fields", "output of other kinds"),
)


def _outcomes(feature: str) -> dict[str, Outcome]:
    return {f"{GEMINI}>{target}": outcome for target, outcome in GEMINI_REQUESTS[feature][1].items()}


OWN_CASES = tuple(RequestCase(group, feature, {GEMINI: GEMINI_REQUESTS[feature][0]}, _outcomes(feature)) for group, feature in _OWN_CASES)


def with_gemini(case: RequestCase) -> RequestCase:
    """The case with the request of Gemini's callers, if their API has it."""
    if case.feature not in GEMINI_REQUESTS:
        return case
    fields = GEMINI_REQUESTS[case.feature][0]
    return replace(case, request_fields={**case.request_fields, GEMINI: fields}, outcomes={**case.outcomes, **_outcomes(case.feature)})
