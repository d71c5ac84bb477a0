"""Requests: what changes no answer, and what one API alone can be asked for."""

from typing import Any

from tests.conformance.asking import Asking, Body, Carried, Refused, Reported, anthropic, chat, responses, user
from tests.conformance.asks_words import LOOSE, PDF, TOOLS, anthropic_data, anthropic_tool
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, RESPONSES


def hint(feature: str, field: str, value: Any, *, callers: tuple[str, ...], carried: tuple[str, ...] = ()) -> Asking:
    """`carried`: the targets that have the same word for it."""
    return Asking(
        "hints",
        feature,
        {caller: {field: value} for caller in callers},
        {target: Carried({field: value}) if target in carried else Reported((field,)) for target in (CHAT, RESPONSES, ANTHROPIC)},
    )


OPENAI = (CHAT, RESPONSES)
CACHED = (
    "system[0].cache_control",
    "messages[0].content[0].cache_control",
    "tools[0].cache_control",
)
HINTS = (
    Asking(
        "hints",
        "end user",
        {CHAT: {"user": "u1"}, RESPONSES: {"user": "u1"}, ANTHROPIC: {"metadata": {"user_id": "u1"}}},
        {CHAT: Carried({"user": "u1"}), RESPONSES: Carried({"user": "u1"}), ANTHROPIC: Carried({"metadata": {"user_id": "u1"}})},
    ),
    hint("metadata", "metadata", {"tenant": "a"}, callers=OPENAI, carried=OPENAI),
    hint("storing", "store", True, callers=(CHAT,)),
    hint("service tier", "service_tier", "auto", callers=OPENAI, carried=(CHAT, RESPONSES, ANTHROPIC)),
    hint("cache key", "prompt_cache_key", "k", callers=OPENAI, carried=OPENAI),
    hint("safety identifier", "safety_identifier", "s", callers=OPENAI, carried=OPENAI),
    Asking(
        "hints",
        "cache control",
        {
            ANTHROPIC: {
                "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
                "tools": [anthropic_tool(cache_control={"type": "ephemeral"})],
                "messages": [user([{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}])],
            }
        },
        {
            CHAT: Reported(
                CACHED,
                {**chat({"role": "system", "content": "Be brief."}, user("Hello")), **TOOLS[CHAT]},
            ),
            RESPONSES: Reported(
                CACHED,
                {**responses({"role": "system", "content": "Be brief."}, user("Hello")), **LOOSE[RESPONSES]},
            ),
        },
    ),
)


def own(feature: str, caller: str, said: Body, param: str) -> Asking:
    """What one API alone can be asked for."""
    return Asking(
        "the rest", feature, {caller: said}, {target: Refused(param) for target in (CHAT, RESPONSES, ANTHROPIC) if target != caller}
    )


def nowhere(feature: str, caller: str, said: dict[str, Any], param: str) -> Asking:
    """What this gateway serves nobody with."""
    return Asking("the rest", feature, {caller: said}, {f"{caller}>{caller}": Refused(param), **{each: Refused(param) for each in ALL}})


REST = (
    nowhere("stored prompt", RESPONSES, {"prompt": {"id": "pmpt_1"}}, "prompt"),
    nowhere("background", RESPONSES, {"background": True}, "background"),
    own("a field that nobody knows (chat)", CHAT, {"frobnicate": 1}, "frobnicate"),
    own("a field that nobody knows (Responses)", RESPONSES, {"frobnicate": 1}, "frobnicate"),
    own("a field that nobody knows (Messages)", ANTHROPIC, {"frobnicate": 1}, "frobnicate"),
    own("predicted output", CHAT, {"prediction": {"type": "content", "content": "x"}}, "prediction"),
    own("truncation", RESPONSES, {"truncation": "auto"}, "truncation"),
    own("most calls of host tools", RESPONSES, {"max_tool_calls": 3}, "max_tool_calls"),
    own("containers", ANTHROPIC, {"container": "c1"}, "container"),
    own("MCP servers", ANTHROPIC, {"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "x"}]}, "mcp_servers"),
    Asking(
        "the rest",
        "context management",
        {ANTHROPIC: {"context_management": {"edits": []}}},
        {target: Reported(("context_management",)) for target in (CHAT, RESPONSES)},
    ),
    own(
        "documents that are to be cited",
        ANTHROPIC,
        anthropic(user([{**anthropic_data("document", "application/pdf", PDF), "citations": {"enabled": True}}])),
        "messages[0].content[0].citations",
    ),
)
