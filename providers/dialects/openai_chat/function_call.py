"""OpenAI's older form of a tool call, `function_call`, for callers who send `functions` instead of `tools`.

Such a caller reads one call, without an id. Further calls of the same choice are `tool_calls`. Source:
https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
"""

from typing import Any

from providers.canonical.chat import Part, ToolCall
from providers.dialect import ResponseMeta


def wants_function_call(meta: ResponseMeta) -> bool:
    return "functions" in meta.request_body and "tools" not in meta.request_body


def use_function_call(choice: dict[str, Any], parts: tuple[Part, ...]) -> None:
    """Changes a written choice of these parts so that its first call is its `function_call`."""
    first = next((part for part in parts if isinstance(part, ToolCall)), None)
    if first is None or first.custom:
        return
    message = choice["message"]
    message["function_call"] = {"name": first.name, "arguments": first.arguments}
    message["tool_calls"] = message["tool_calls"][1:]
    if not message["tool_calls"]:
        del message["tool_calls"]
    choice["finish_reason"] = older_finish_reason(choice["finish_reason"])


def older_finish_reason(reason: str | None) -> str | None:
    return "function_call" if reason == "tool_calls" else reason
