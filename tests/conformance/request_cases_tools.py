"""Cases of requests: tools, calls and their results."""

from typing import Any

from tests.conformance.request_case import DropReported, Refused, RequestCase, Translated, anthropic, assistant, chat, responses, user
from tests.conformance.request_samples import (
    ANTHROPIC_CALL,
    CHAT_CALL,
    NON_STRICT_TOOLS,
    OTHER_TOOL_ANTHROPIC,
    OTHER_TOOL_CHAT,
    OTHER_TOOL_RESPONSES,
    PNG,
    RESPONSES_CALL,
    TOOLS,
    anthropic_data,
    anthropic_result,
    anthropic_tool,
    chat_result,
    chat_tool,
    image,
    input_text,
    responses_result,
    responses_tool,
    text,
    translated_everywhere,
)
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES


def with_tools(feature: str, choice: dict[str, Any], others: dict[str, Any] | None = None) -> RequestCase:
    """A tool together with these fields, by dialect; `others`: by `caller>target`, where the target's fields differ."""
    request_fields = {dialect: {**TOOLS[dialect], **fields} for dialect, fields in choice.items()}
    expected_fields = {
        dialect: {**NON_STRICT_TOOLS[dialect.rpartition(">")[2]], **fields} for dialect, fields in {**choice, **(others or {})}.items()
    }
    return RequestCase("tools", feature, request_fields, {target: Translated(fields) for target, fields in expected_fields.items()})


CALL_AND_RESULT = {
    CHAT: chat(user("Hello"), assistant(None, tool_calls=[CHAT_CALL]), chat_result("18 degrees")),
    RESPONSES: responses(user("Hello"), RESPONSES_CALL, responses_result("18 degrees")),
    ANTHROPIC: anthropic(user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result("18 degrees")),
}
SECOND_CHAT_CALL = {**CHAT_CALL, "id": "call_2"}
SECOND_RESPONSES_CALL = {**RESPONSES_CALL, "call_id": "call_2"}
SECOND_ANTHROPIC_CALL = {**ANTHROPIC_CALL, "id": "call_2"}
ID_ANTHROPIC_REFUSES = "functions.get_weather:0"
ID_ANTHROPIC_TAKES = "toolu_79ac1aaab216b228c7ab2241"
CUSTOM_TOOL_CHAT = {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL."}}
CUSTOM_TOOL_RESPONSES = {"type": "custom", "name": "sql", "description": "Runs SQL."}
GRAMMAR = {"syntax": "lark", "definition": "start: /[a-z]+/"}
ALLOWED_TOOLS_CHAT = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "now"}}]}
ALLOWED_TOOLS_RESPONSES = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "now"}]}
TWO_TOOLS_CHAT = {"tools": [chat_tool(), OTHER_TOOL_CHAT]}
TWO_TOOLS_RESPONSES = {"tools": [responses_tool(), OTHER_TOOL_RESPONSES]}

TOOL_REQUESTS = (
    with_tools("tools", {CHAT: {}, RESPONSES: {}, ANTHROPIC: {}}),
    translated_everywhere(
        "tools",
        "strict tools",
        {
            CHAT: {"tools": [chat_tool(strict=True)]},
            RESPONSES: {"tools": [responses_tool(strict=True)]},
            ANTHROPIC: {"tools": [anthropic_tool(strict=True)]},
        },
    ),
    with_tools(
        "tool choice: auto",
        {CHAT: {"tool_choice": "auto"}, RESPONSES: {"tool_choice": "auto"}, ANTHROPIC: {"tool_choice": {"type": "auto"}}},
    ),
    with_tools(
        "tool choice: none",
        {CHAT: {"tool_choice": "none"}, RESPONSES: {"tool_choice": "none"}, ANTHROPIC: {"tool_choice": {"type": "none"}}},
    ),
    with_tools(
        "tool choice: required",
        {CHAT: {"tool_choice": "required"}, RESPONSES: {"tool_choice": "required"}, ANTHROPIC: {"tool_choice": {"type": "any"}}},
    ),
    with_tools(
        "tool choice: by name",
        {
            CHAT: {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
            RESPONSES: {"tool_choice": {"type": "function", "name": "get_weather"}},
            ANTHROPIC: {"tool_choice": {"type": "tool", "name": "get_weather"}},
        },
    ),
    RequestCase(
        "tools",
        "tool choice: allowed tools",
        {
            CHAT: {**TWO_TOOLS_CHAT, "tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED_TOOLS_CHAT}},
            RESPONSES: {**TWO_TOOLS_RESPONSES, "tool_choice": ALLOWED_TOOLS_RESPONSES},
        },
        {
            CHAT: Translated({"tools": [OTHER_TOOL_CHAT], "tool_choice": "auto"}, "only those tools are sent"),
            RESPONSES: Translated(
                {"tools": [responses_tool(strict=False), {**OTHER_TOOL_RESPONSES, "strict": False}], "tool_choice": ALLOWED_TOOLS_RESPONSES}
            ),
            ANTHROPIC: Translated({"tools": [OTHER_TOOL_ANTHROPIC], "tool_choice": {"type": "auto"}}, "only those tools are sent"),
        },
    ),
    with_tools(
        "no parallel calls",
        {
            CHAT: {"parallel_tool_calls": False},
            RESPONSES: {"parallel_tool_calls": False},
            ANTHROPIC: {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        },
        {
            f"{ANTHROPIC}>{CHAT}": {"tool_choice": "auto", "parallel_tool_calls": False},
            f"{ANTHROPIC}>{RESPONSES}": {"tool_choice": "auto", "parallel_tool_calls": False},
        },
    ),
    RequestCase(
        "tools",
        "custom tools",
        {CHAT: {"tools": [CUSTOM_TOOL_CHAT]}, RESPONSES: {"tools": [CUSTOM_TOOL_RESPONSES]}},
        {
            CHAT: Translated({"tools": [CUSTOM_TOOL_CHAT]}),
            RESPONSES: Translated({"tools": [CUSTOM_TOOL_RESPONSES]}),
            ANTHROPIC: Refused("tools[0]"),
        },
    ),
    RequestCase(
        "tools",
        "custom tools with a grammar",
        {
            CHAT: {"tools": [{"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": GRAMMAR}}}]},
            RESPONSES: {"tools": [{"type": "custom", "name": "sql", "format": {"type": "grammar", **GRAMMAR}}]},
        },
        {
            CHAT: Translated({"tools": [{"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": GRAMMAR}}}]}),
            RESPONSES: Translated({"tools": [{"type": "custom", "name": "sql", "format": {"type": "grammar", **GRAMMAR}}]}),
            ANTHROPIC: Refused("tools[0]"),
        },
    ),
    translated_everywhere("tools", "call and result", CALL_AND_RESULT),
    translated_everywhere(
        "tools",
        "parallel calls and results",
        {
            CHAT: chat(
                user("Hello"),
                assistant("Looking.", tool_calls=[CHAT_CALL, SECOND_CHAT_CALL]),
                chat_result("18"),
                chat_result("19", "call_2"),
                user("So?"),
            ),
            RESPONSES: responses(
                user("Hello"),
                assistant("Looking."),
                RESPONSES_CALL,
                SECOND_RESPONSES_CALL,
                responses_result("18"),
                responses_result("19", "call_2"),
                user("So?"),
            ),
            ANTHROPIC: anthropic(
                user("Hello"),
                assistant([text("Looking."), ANTHROPIC_CALL, SECOND_ANTHROPIC_CALL]),
                user(
                    [
                        {"type": "tool_result", "tool_use_id": "call_1", "content": "18"},
                        {"type": "tool_result", "tool_use_id": "call_2", "content": "19"},
                        text("So?"),
                    ]
                ),
            ),
        },
    ),
    RequestCase(
        "tools",
        "call ids that Anthropic refuses",
        {
            CHAT: chat(
                user("Hello"),
                assistant(None, tool_calls=[{**CHAT_CALL, "id": ID_ANTHROPIC_REFUSES}]),
                chat_result("18", ID_ANTHROPIC_REFUSES),
            ),
            RESPONSES: responses(
                user("Hello"), {**RESPONSES_CALL, "call_id": ID_ANTHROPIC_REFUSES}, responses_result("18", ID_ANTHROPIC_REFUSES)
            ),
        },
        {
            CHAT: Translated(
                chat(
                    user("Hello"),
                    assistant(None, tool_calls=[{**CHAT_CALL, "id": ID_ANTHROPIC_REFUSES}]),
                    chat_result("18", ID_ANTHROPIC_REFUSES),
                )
            ),
            RESPONSES: Translated(
                responses(user("Hello"), {**RESPONSES_CALL, "call_id": ID_ANTHROPIC_REFUSES}, responses_result("18", ID_ANTHROPIC_REFUSES))
            ),
            ANTHROPIC: Translated(
                anthropic(
                    user("Hello"),
                    assistant([{**ANTHROPIC_CALL, "id": ID_ANTHROPIC_TAKES}]),
                    user([{"type": "tool_result", "tool_use_id": ID_ANTHROPIC_TAKES, "content": "18"}]),
                ),
                "an id that Anthropic accepts, the same in call and result",
            ),
        },
    ),
    RequestCase(
        "tools",
        "result with `is_error`",
        {ANTHROPIC: anthropic(user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result("no such city", is_error=True))},
        {
            CHAT: DropReported(
                ("messages[2].content[0].is_error",),
                chat(user("Hello"), assistant(None, tool_calls=[CHAT_CALL]), chat_result("no such city")),
            ),
            RESPONSES: DropReported(
                ("messages[2].content[0].is_error",), responses(user("Hello"), RESPONSES_CALL, responses_result("no such city"))
            ),
        },
    ),
    RequestCase(
        "tools",
        "result with an image",
        {
            RESPONSES: responses(
                user("Hello"),
                RESPONSES_CALL,
                responses_result(
                    [input_text("Here:"), {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}]
                ),
            ),
            ANTHROPIC: anthropic(
                user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result([text("Here:"), anthropic_data("image", "image/png", PNG)])
            ),
        },
        {
            CHAT: Translated(
                chat(
                    user("Hello"),
                    assistant(None, tool_calls=[CHAT_CALL]),
                    chat_result("Here:"),
                    user([text("From the result of tool call call_1:"), image(f"data:image/png;base64,{PNG}")]),
                ),
                "the image follows in a user message",
            ),
            RESPONSES: Translated(
                responses(
                    user("Hello"),
                    RESPONSES_CALL,
                    responses_result(
                        [input_text("Here:"), {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}]
                    ),
                )
            ),
            ANTHROPIC: Translated(
                anthropic(
                    user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result([text("Here:"), anthropic_data("image", "image/png", PNG)])
                )
            ),
        },
    ),
    RequestCase(
        "tools",
        "tools run by the host",
        {
            CHAT: {"web_search_options": {}},
            RESPONSES: {"tools": [{"type": "web_search"}]},
            ANTHROPIC: {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        },
        {
            f"{CHAT}>{RESPONSES}": Refused("web_search_options"),
            f"{CHAT}>{ANTHROPIC}": Refused("web_search_options"),
            CHAT: Refused("tools[0]"),
            RESPONSES: Refused("tools[0]"),
            ANTHROPIC: Refused("tools[0]"),
        },
    ),
)
