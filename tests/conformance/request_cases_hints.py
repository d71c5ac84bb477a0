"""Cases of requests: hints, which change no response, and fields of one API alone."""

from typing import Any

from tests.conformance.request_case import Body, DropReported, Refused, RequestCase, Translated, anthropic, chat, responses, user
from tests.conformance.request_samples import NON_STRICT_TOOLS, PDF, TOOLS, anthropic_data, anthropic_tool
from tests.conformance.situations import ALL, ANTHROPIC, CHAT, RESPONSES


def hint(feature: str, field: str, value: Any, *, callers: tuple[str, ...], carried: tuple[str, ...] = ()) -> RequestCase:
    """A hint. `carried`: the targets that have the same field."""
    return RequestCase(
        "hints",
        feature,
        {caller: {field: value} for caller in callers},
        {target: Translated({field: value}) if target in carried else DropReported((field,)) for target in (CHAT, RESPONSES, ANTHROPIC)},
    )


OPENAI_DIALECTS = (CHAT, RESPONSES)
CACHE_CONTROL_PATHS = (
    "system[0].cache_control",
    "messages[0].content[0].cache_control",
    "tools[0].cache_control",
)
HINTS = (
    RequestCase(
        "hints",
        "end user",
        {CHAT: {"user": "u1"}, RESPONSES: {"user": "u1"}, ANTHROPIC: {"metadata": {"user_id": "u1"}}},
        {CHAT: Translated({"user": "u1"}), RESPONSES: Translated({"user": "u1"}), ANTHROPIC: Translated({"metadata": {"user_id": "u1"}})},
    ),
    hint("metadata", "metadata", {"tenant": "a"}, callers=OPENAI_DIALECTS, carried=OPENAI_DIALECTS),
    hint("storage", "store", True, callers=(CHAT,)),
    hint("service tier", "service_tier", "auto", callers=OPENAI_DIALECTS, carried=(CHAT, RESPONSES, ANTHROPIC)),
    hint("cache key", "prompt_cache_key", "k", callers=OPENAI_DIALECTS, carried=OPENAI_DIALECTS),
    hint("safety identifier", "safety_identifier", "s", callers=OPENAI_DIALECTS, carried=OPENAI_DIALECTS),
    RequestCase(
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
            CHAT: DropReported(
                CACHE_CONTROL_PATHS,
                {**chat({"role": "system", "content": "Be brief."}, user("Hello")), **TOOLS[CHAT]},
            ),
            RESPONSES: DropReported(
                CACHE_CONTROL_PATHS,
                {**responses({"role": "system", "content": "Be brief."}, user("Hello")), **NON_STRICT_TOOLS[RESPONSES]},
            ),
        },
    ),
)


def one_api_only(feature: str, caller: str, fields: Body, param: str) -> RequestCase:
    """A field that only one API has."""
    return RequestCase(
        "other fields", feature, {caller: fields}, {target: Refused(param) for target in (CHAT, RESPONSES, ANTHROPIC) if target != caller}
    )


def refused_everywhere(feature: str, caller: str, fields: dict[str, Any], param: str) -> RequestCase:
    """A field that the gateway refuses whatever the target."""
    return RequestCase(
        "other fields", feature, {caller: fields}, {f"{caller}>{caller}": Refused(param), **{each: Refused(param) for each in ALL}}
    )


def hint_of_one_api(feature: str, caller: str, fields: Body, param: str) -> RequestCase:
    """A field that only one API has, and that changes nothing of what a response may be."""
    targets = [each for each in ALL if each != caller]
    return RequestCase("other fields", feature, {caller: fields}, {target: DropReported((param,)) for target in targets})


OTHER_FIELDS = (
    refused_everywhere("stored prompt", RESPONSES, {"prompt": {"id": "pmpt_1"}}, "prompt"),
    refused_everywhere("background", RESPONSES, {"background": True}, "background"),
    one_api_only("an unknown field (chat)", CHAT, {"frobnicate": 1}, "frobnicate"),
    one_api_only("an unknown field (Responses)", RESPONSES, {"frobnicate": 1}, "frobnicate"),
    one_api_only("an unknown field (Messages)", ANTHROPIC, {"frobnicate": 1}, "frobnicate"),
    hint_of_one_api("predicted output", CHAT, {"prediction": {"type": "content", "content": "x"}}, "prediction"),
    hint_of_one_api("truncation", RESPONSES, {"truncation": "auto"}, "truncation"),
    hint_of_one_api("limit of host tool calls", RESPONSES, {"max_tool_calls": 3}, "max_tool_calls"),
    one_api_only("containers", ANTHROPIC, {"container": "c1"}, "container"),
    one_api_only("MCP servers", ANTHROPIC, {"mcp_servers": [{"type": "url", "url": "https://example.org", "name": "x"}]}, "mcp_servers"),
    RequestCase(
        "other fields",
        "context management",
        {ANTHROPIC: {"context_management": {"edits": []}}},
        {target: DropReported(("context_management",)) for target in (CHAT, RESPONSES)},
    ),
    one_api_only(
        "citations of documents",
        ANTHROPIC,
        anthropic(user([{**anthropic_data("document", "application/pdf", PDF), "citations": {"enabled": True}}])),
        "messages[0].content[0].citations",
    ),
)
