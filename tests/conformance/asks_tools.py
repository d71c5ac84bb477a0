"""Requests: tools, calls and their results."""

from typing import Any

from tests.conformance.asking import Asking, Carried, Refused, Reported, anthropic, assistant, chat, responses, user
from tests.conformance.asks_words import (
    ANTHROPIC_CALL,
    CHAT_CALL,
    LOOSE,
    OTHER_ANTHROPIC,
    OTHER_CHAT,
    OTHER_RESPONSES,
    PNG,
    RESPONSES_CALL,
    TOOLS,
    anthropic_data,
    anthropic_result,
    anthropic_tool,
    chat_result,
    chat_tool,
    everywhere,
    image,
    input_text,
    responses_result,
    responses_tool,
    text,
)
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES


def with_tools(feature: str, choice: dict[str, Any], on: dict[str, Any] | None = None) -> Asking:
    """A tool and these words about it, by dialect."""
    says = {dialect: {**TOOLS[dialect], **said} for dialect, said in choice.items()}
    wants = {dialect: {**LOOSE[dialect.rpartition(">")[2]], **said} for dialect, said in {**choice, **(on or {})}.items()}
    return Asking("tools", feature, says, {target: Carried(said) for target, said in wants.items()})


CALLED = {
    CHAT: chat(user("Hello"), assistant(None, tool_calls=[CHAT_CALL]), chat_result("18 degrees")),
    RESPONSES: responses(user("Hello"), RESPONSES_CALL, responses_result("18 degrees")),
    ANTHROPIC: anthropic(user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result("18 degrees")),
}
AGAIN_CHAT = {**CHAT_CALL, "id": "call_2"}
AGAIN_RESPONSES = {**RESPONSES_CALL, "call_id": "call_2"}
AGAIN_ANTHROPIC = {**ANTHROPIC_CALL, "id": "call_2"}
ODD_ID = "functions.get_weather:0"
EVEN_ID = "toolu_79ac1aaab216b228c7ab2241"
CUSTOM_CHAT = {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL."}}
CUSTOM_RESPONSES = {"type": "custom", "name": "sql", "description": "Runs SQL."}
GRAMMAR = {"syntax": "lark", "definition": "start: /[a-z]+/"}
ALLOWED_CHAT = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "now"}}]}
ALLOWED_RESPONSES = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "now"}]}
BOTH_CHAT = {"tools": [chat_tool(), OTHER_CHAT]}
BOTH_RESPONSES = {"tools": [responses_tool(), OTHER_RESPONSES]}

TOOL_ASKS = (
    with_tools("tools", {CHAT: {}, RESPONSES: {}, ANTHROPIC: {}}),
    everywhere(
        "tools",
        "strict tools",
        {
            CHAT: {"tools": [chat_tool(strict=True)]},
            RESPONSES: {"tools": [responses_tool(strict=True)]},
            ANTHROPIC: {"tools": [anthropic_tool(strict=True)]},
        },
    ),
    with_tools(
        "tool choice: automatic",
        {CHAT: {"tool_choice": "auto"}, RESPONSES: {"tool_choice": "auto"}, ANTHROPIC: {"tool_choice": {"type": "auto"}}},
    ),
    with_tools(
        "tool choice: none",
        {CHAT: {"tool_choice": "none"}, RESPONSES: {"tool_choice": "none"}, ANTHROPIC: {"tool_choice": {"type": "none"}}},
    ),
    with_tools(
        "tool choice: any",
        {CHAT: {"tool_choice": "required"}, RESPONSES: {"tool_choice": "required"}, ANTHROPIC: {"tool_choice": {"type": "any"}}},
    ),
    with_tools(
        "tool choice: this one",
        {
            CHAT: {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
            RESPONSES: {"tool_choice": {"type": "function", "name": "get_weather"}},
            ANTHROPIC: {"tool_choice": {"type": "tool", "name": "get_weather"}},
        },
    ),
    Asking(
        "tools",
        "tool choice: these alone",
        {
            CHAT: {**BOTH_CHAT, "tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED_CHAT}},
            RESPONSES: {**BOTH_RESPONSES, "tool_choice": ALLOWED_RESPONSES},
        },
        {
            CHAT: Carried({"tools": [OTHER_CHAT], "tool_choice": "auto"}, "only those tools are sent"),
            RESPONSES: Carried(
                {"tools": [responses_tool(strict=False), {**OTHER_RESPONSES, "strict": False}], "tool_choice": ALLOWED_RESPONSES}
            ),
            ANTHROPIC: Carried({"tools": [OTHER_ANTHROPIC], "tool_choice": {"type": "auto"}}, "only those tools are sent"),
        },
    ),
    with_tools(
        "one call at a time",
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
    Asking(
        "tools",
        "custom tools",
        {CHAT: {"tools": [CUSTOM_CHAT]}, RESPONSES: {"tools": [CUSTOM_RESPONSES]}},
        {CHAT: Carried({"tools": [CUSTOM_CHAT]}), RESPONSES: Carried({"tools": [CUSTOM_RESPONSES]}), ANTHROPIC: Refused("tools[0]")},
    ),
    Asking(
        "tools",
        "custom tools with a grammar",
        {
            CHAT: {"tools": [{"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": GRAMMAR}}}]},
            RESPONSES: {"tools": [{"type": "custom", "name": "sql", "format": {"type": "grammar", **GRAMMAR}}]},
        },
        {
            CHAT: Carried({"tools": [{"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": GRAMMAR}}}]}),
            RESPONSES: Carried({"tools": [{"type": "custom", "name": "sql", "format": {"type": "grammar", **GRAMMAR}}]}),
            ANTHROPIC: Refused("tools[0]"),
        },
    ),
    everywhere("tools", "a call and its result", CALLED),
    everywhere(
        "tools",
        "parallel calls and their results",
        {
            CHAT: chat(
                user("Hello"),
                assistant("Looking.", tool_calls=[CHAT_CALL, AGAIN_CHAT]),
                chat_result("18"),
                chat_result("19", "call_2"),
                user("So?"),
            ),
            RESPONSES: responses(
                user("Hello"),
                assistant("Looking."),
                RESPONSES_CALL,
                AGAIN_RESPONSES,
                responses_result("18"),
                responses_result("19", "call_2"),
                user("So?"),
            ),
            ANTHROPIC: anthropic(
                user("Hello"),
                assistant([text("Looking."), ANTHROPIC_CALL, AGAIN_ANTHROPIC]),
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
    Asking(
        "tools",
        "ids of calls that Anthropic refuses",
        {
            CHAT: chat(user("Hello"), assistant(None, tool_calls=[{**CHAT_CALL, "id": ODD_ID}]), chat_result("18", ODD_ID)),
            RESPONSES: responses(user("Hello"), {**RESPONSES_CALL, "call_id": ODD_ID}, responses_result("18", ODD_ID)),
        },
        {
            CHAT: Carried(chat(user("Hello"), assistant(None, tool_calls=[{**CHAT_CALL, "id": ODD_ID}]), chat_result("18", ODD_ID))),
            RESPONSES: Carried(responses(user("Hello"), {**RESPONSES_CALL, "call_id": ODD_ID}, responses_result("18", ODD_ID))),
            ANTHROPIC: Carried(
                anthropic(
                    user("Hello"),
                    assistant([{**ANTHROPIC_CALL, "id": EVEN_ID}]),
                    user([{"type": "tool_result", "tool_use_id": EVEN_ID, "content": "18"}]),
                ),
                "an id that it takes, the same in call and result",
            ),
        },
    ),
    Asking(
        "tools",
        "a result that is an error",
        {ANTHROPIC: anthropic(user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result("no such city", is_error=True))},
        {
            CHAT: Reported(
                ("messages[2].content[0].is_error",),
                chat(user("Hello"), assistant(None, tool_calls=[CHAT_CALL]), chat_result("no such city")),
            ),
            RESPONSES: Reported(
                ("messages[2].content[0].is_error",), responses(user("Hello"), RESPONSES_CALL, responses_result("no such city"))
            ),
        },
    ),
    Asking(
        "tools",
        "a result with an image",
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
            CHAT: Carried(
                chat(
                    user("Hello"),
                    assistant(None, tool_calls=[CHAT_CALL]),
                    chat_result("Here:"),
                    user([text("From the result of tool call call_1:"), image(f"data:image/png;base64,{PNG}")]),
                ),
                "the image follows in a message of the user's",
            ),
            RESPONSES: Carried(
                responses(
                    user("Hello"),
                    RESPONSES_CALL,
                    responses_result(
                        [input_text("Here:"), {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}]
                    ),
                )
            ),
            ANTHROPIC: Carried(
                anthropic(
                    user("Hello"), assistant([ANTHROPIC_CALL]), anthropic_result([text("Here:"), anthropic_data("image", "image/png", PNG)])
                )
            ),
        },
    ),
    Asking(
        "tools",
        "tools that the host runs",
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
