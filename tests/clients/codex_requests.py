"""Requests as the Codex CLI 0.171 sends them to /v1/responses, in shape: its makers' texts are not here."""

from typing import Any

HEADERS = {
    "originator": "codex_exec",
    "user-agent": "codex_exec/0.171.0",
    "session-id": "019a0000-0000-7000-8000-000000000001",
    "thread-id": "019a0000-0000-7000-8000-000000000001",
    "x-codex-window-id": "019a0000-0000-7000-8000-000000000001:0",
    "x-codex-beta-features": "remote_compaction_v2",
    "x-openai-internal-codex-responses-lite": "true",
}


def _function(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "name": name, "description": description, "strict": False, "parameters": parameters}


# A grammar that takes any text, as that of `exec` does in effect.
EXEC_GRAMMAR = "start: SOURCE\nSOURCE: /[\\s\\S]+/"
EXEC: dict[str, Any] = {
    "type": "custom",
    "name": "exec",
    "description": "Runs JavaScript.",
    "format": {"type": "grammar", "syntax": "lark", "definition": EXEC_GRAMMAR},
}
NAMESPACES: list[dict[str, Any]] = [
    {
        "type": "namespace",
        "name": "functions",
        "description": "The terminal.",
        "tools": [
            EXEC,
            _function("wait", "Waits for a command.", cell_id={"type": "string"}),
            _function("request_user_input", "Asks the user.", question={"type": "string"}),
        ],
    },
    {"type": "namespace", "name": "clock", "description": "The clock.", "tools": [_function("current_time", "Tells the time.")]},
    {
        "type": "namespace",
        "name": "collaboration",
        "description": "Other agents.",
        "tools": [_function("spawn_agent", "Starts an agent.", message={"type": "string"}), _function("list_agents", "Lists the agents.")],
    },
]
SEARCH: dict[str, Any] = {
    "type": "tool_search",
    "execution": "client",
    "description": "Searches the apps for tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": False},
}
PLAIN_TOOLS: list[dict[str, Any]] = [
    _function("exec_command", "Runs a command.", cmd={"type": "string"}),
    {
        "type": "namespace",
        "name": "multi_agent_v1",
        "description": "Other agents.",
        "tools": [_function("spawn_agent", "Starts an agent.", message={"type": "string"})],
    },
    SEARCH,
    {"type": "web_search", "external_web_access": False},
]


def message(role: str, text: str) -> dict[str, Any]:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "message", "role": role, "content": [part], "internal_chat_message_metadata_passthrough": {"turn_id": "t"}}


def lite_body(model: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body for a model that Codex sends its tools for as an item of the input ("Responses Lite")."""
    return {
        "model": model,
        "input": [
            {"type": "additional_tools", "role": "developer", "tools": NAMESPACES},
            message("developer", "You work in a terminal."),
            message("developer", "The sandbox is read-only."),
            message("user", "The folder is a git checkout."),
            *items,
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "medium", "context": "all_turns"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": HEADERS["session-id"],
        "text": {"verbosity": "low"},
        "client_metadata": {"session_id": HEADERS["session-id"]},
        **more,
    }


def plain_body(model: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body for any other model."""
    body = lite_body(model, *items)
    del body["input"][0]
    return {**body, "tools": PLAIN_TOOLS, "reasoning": {"effort": "medium", "summary": "auto"}, **more}
