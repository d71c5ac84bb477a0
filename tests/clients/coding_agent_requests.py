"""Requests as coding agents like Claude Code send them to /v1/messages?beta=true, written from the API's reference."""

from typing import Any

HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14,"
    "context-management-2025-06-27,prompt-caching-scope-2026-01-05",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-app": "cli",
    "user-agent": "claude-cli/2.1.0 (external, cli)",
    "x-stainless-lang": "js",
    "x-stainless-retry-count": "0",
    "x-stainless-timeout": "600",
}

_ONE_HOUR_CACHE = {"type": "ephemeral", "ttl": "1h"}


def _tool(name: str, description: str, **properties: object) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


TOOLS: list[dict[str, Any]] = [
    _tool("Read", "Reads a file from the disk.", file_path={"type": "string", "description": "The absolute path"}),
    _tool("Grep", "Searches files.", pattern={"type": "string"}, output_mode={"type": "string", "enum": ["content", "count"]}),
    {
        **_tool("TodoWrite", "Keeps a list of what is to do.", todos={"type": "array", "items": {"$ref": "#/$defs/todo"}}),
        "cache_control": {"type": "ephemeral"},
    },
]
TOOLS[2]["input_schema"]["$defs"] = {
    "todo": {
        "type": "object",
        "properties": {"content": {"type": "string", "minLength": 1}, "status": {"enum": ["pending", "completed"]}},
        "required": ["content", "status"],
        "additionalProperties": False,
    }
}


def messages_body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The request body of one turn."""
    return {
        "model": "sandbox",
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": "You work in a terminal.", "cache_control": {"type": "ephemeral", "scope": "global"}},
            {"type": "text", "text": "# Environment\nThe folder is a git checkout.", "cache_control": _ONE_HOUR_CACHE},
        ],
        "messages": list(messages),
        "tools": TOOLS,
        "metadata": {"user_id": "user_0a1b2c_account__session_00000000-0000-4000-8000-000000000000"},
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "temperature": 1,
        "stream": True,
        **more,
    }


def user_message(text: str) -> dict[str, Any]:
    reminder = "<system-reminder>The list of things to do is empty.</system-reminder>"
    return {
        "role": "user",
        "content": [{"type": "text", "text": reminder}, {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}],
    }


def tool_result_message(call: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call["id"], "content": text, "cache_control": {"type": "ephemeral"}, **more}
    return {"role": "user", "content": [block]}
