"""Cases of requests: items of the input that are no messages, as coding agents send them by default."""

from typing import Any

from tests.conformance.request_case import RequestCase, Translated, anthropic, assistant, chat, responses, user
from tests.conformance.request_samples import (
    ANTHROPIC_CALL,
    CHAT_CALL,
    NON_STRICT_TOOLS,
    anthropic_result,
    anthropic_tool,
    chat_result,
    chat_tool,
    responses_result,
    responses_tool,
)
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

ITSELF = f"{RESPONSES}>{RESPONSES}"
SEARCH_PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": SEARCH_PARAMETERS}
SEARCH_CALL = {"type": "tool_search_call", "call_id": "call_1", "execution": "client", "arguments": {"query": "x"}, "status": "completed"}
FOUND: dict[str, Any] = {
    "type": "tool_search_output",
    "call_id": "call_1",
    "execution": "client",
    "status": "completed",
    "tools": [responses_tool()],
}
FOUND_TEXT = "Found these tools, which can be called now: get_weather"
CHAT_SEARCH = {"type": "function", "function": {"name": "tool_search", "description": "Finds tools.", "parameters": SEARCH_PARAMETERS}}
ANTHROPIC_SEARCH = {"name": "tool_search", "description": "Finds tools.", "input_schema": SEARCH_PARAMETERS}
RESPONSES_SEARCH = {"type": "function", "name": "tool_search", "description": "Finds tools.", "parameters": SEARCH_PARAMETERS}
SEARCH_ARGUMENTS = '{"query":"x"}'

AGENT_ITEMS = (
    RequestCase(
        "tools",
        "tools in an item of the input (`additional_tools`)",
        {RESPONSES: responses({"type": "additional_tools", "role": "developer", "tools": [responses_tool()]}, user("Hello"))},
        {
            CHAT: Translated({**chat(user("Hello")), **NON_STRICT_TOOLS[CHAT]}),
            ANTHROPIC: Translated({**anthropic(user("Hello")), **NON_STRICT_TOOLS[ANTHROPIC]}),
            ITSELF: Translated(
                {**responses(user("Hello")), "tools": [responses_tool()]}, "tools of the request, at hosts other than OpenAI"
            ),
        },
    ),
    RequestCase(
        "tools",
        "a search for tools that the caller executes, and what it found",
        {RESPONSES: responses(user("Hello"), SEARCH_CALL, FOUND, tools=[SEARCH])},
        {
            CHAT: Translated(
                chat(
                    user("Hello"),
                    assistant(None, tool_calls=[{**CHAT_CALL, "function": {"name": "tool_search", "arguments": SEARCH_ARGUMENTS}}]),
                    chat_result(FOUND_TEXT),
                    tools=[CHAT_SEARCH, chat_tool()],
                ),
                "a function",
            ),
            ANTHROPIC: Translated(
                anthropic(
                    user("Hello"),
                    assistant([{**ANTHROPIC_CALL, "name": "tool_search", "input": {"query": "x"}}]),
                    anthropic_result(FOUND_TEXT),
                    tools=[ANTHROPIC_SEARCH, anthropic_tool()],
                ),
                "a function",
            ),
            ITSELF: Translated(
                responses(
                    user("Hello"),
                    {"type": "function_call", "call_id": "call_1", "name": "tool_search", "arguments": SEARCH_ARGUMENTS},
                    responses_result(FOUND_TEXT),
                    tools=[RESPONSES_SEARCH, responses_tool()],
                ),
                "a function, at hosts other than OpenAI",
            ),
        },
    ),
    RequestCase(
        "tools",
        "deferred tools that the host searches",
        {RESPONSES: {"tools": [{**responses_tool(), "defer_loading": True}, {"type": "tool_search"}]}},
        {
            CHAT: Translated(NON_STRICT_TOOLS[CHAT], "all are loaded", dropped=("tools[0].defer_loading", "tools[1]")),
            ANTHROPIC: Translated(NON_STRICT_TOOLS[ANTHROPIC], "all are loaded", dropped=("tools[0].defer_loading", "tools[1]")),
        },
    ),
)

AGENT_SETTINGS = (
    RequestCase(
        "reasoning",
        "another effort from a place on (`configuration_update`)",
        {
            RESPONSES: responses(
                user("Hello"),
                assistant("Hi."),
                {"type": "configuration_update", "reasoning": {"effort": "high"}},
                user("So?"),
                reasoning={"effort": "low"},
            )
        },
        {
            CHAT: Translated(
                {**chat(user("Hello"), assistant("Hi."), user("So?")), "reasoning_effort": "high"}, "the last effort, of the whole request"
            ),
            ANTHROPIC: Translated(
                {
                    **anthropic(user("Hello"), assistant("Hi."), user("So?")),
                    "output_config": {"effort": "high"},
                    "thinking": {"type": "adaptive"},
                },
                "the last effort, of the whole request",
            ),
            ITSELF: Translated(
                {**responses(user("Hello"), assistant("Hi."), user("So?")), "reasoning": {"effort": "high"}},
                "the last effort, at hosts other than OpenAI",
            ),
        },
    ),
)
