"""Meaning as a request in OpenAI chat.

Source: https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers import guided
from providers.chat import ENGINE_WORDS, ChatRequest, HostTool, Thinking, Tool, ToolChoice
from providers.dialect import Concessions
from providers.dialects.openai_chat.messages_write import write_messages
from providers.errors import Malformed
from providers.guided import Output
from providers.rest import as_raw, put
from providers.wire import UNREADABLE, Body

NAME = "openai_chat"

_GRAMMAR = Raw(b'"grammar"')
# Of these, what has no name in the meaning is kept by its path.
_OBJECTS = ("stream_options", "tool_choice", "response_format")

_object = msgspec.json.Decoder(dict[str, Raw])


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    """Raises Unsupported, unless the caller lets go what chat has no word for."""
    body = Body(model=chat.model)
    if chat.prompt is None:
        body["messages"] = write_messages(chat, concessions)
    else:
        body["prompt"] = chat.prompt
    own = chat.origin == NAME
    tools = _write_tools(chat, concessions)
    if tools:
        body["tools"] = tools
    if chat.tool_choice is not None:
        if tools or own:
            body["tool_choice"] = _write_choice(chat.tool_choice, chat)
        elif chat.tool_choice.mode in ("required", "named"):
            concessions.without("tool_choice", "there is no tool that it could call.")
    if chat.output is not None:
        body.update(_write_output(chat.output))
    if chat.thinking is not None:
        body.update(_write_thinking(chat.thinking, concessions))
    service_tier = chat.service_tier
    if service_tier is not None and not chat.origin.startswith("openai"):
        concessions.hint("service_tier")
        service_tier = None
    said: dict[str, Any] = {
        "parallel_tool_calls": chat.parallel_calls if tools or own else None,
        "verbosity": chat.verbosity,
        "max_completion_tokens": chat.max_tokens,
        "temperature": chat.temperature,
        "top_p": chat.top_p,
        "top_k": chat.top_k,
        "seed": chat.seed,
        "n": chat.n,
        "stop": list(chat.stop) or None,
        "frequency_penalty": chat.frequency_penalty,
        "presence_penalty": chat.presence_penalty,
        "logprobs": chat.logprobs,
        "top_logprobs": chat.top_logprobs,
        "logit_bias": chat.logit_bias,
        "user": chat.user,
        "safety_identifier": chat.safety_identifier,
        "metadata": chat.metadata,
        "service_tier": service_tier,
        "store": chat.store,
        "prompt_cache_key": chat.cache_key,
    }
    body.update({key: value for key, value in said.items() if value is not None})
    for key, value in chat.extra.items():
        if own:
            put(body, key, value, *_OBJECTS)
        elif key in ENGINE_WORDS:
            body[key] = value
        else:
            concessions.extra(key, value, "OpenAI's chat has no such field.")
    if "stream_options" in body:
        body["stream_options"] = as_raw(body["stream_options"])
    return body


def _write_output(output: Output) -> dict[str, Any]:
    match output:
        case guided.JsonObject() | guided.JsonSchema():
            return guided.as_response_format(output)
        case _:
            return guided.as_structured_outputs(output)


def _write_thinking(thinking: Thinking, concessions: Concessions) -> dict[str, Any]:
    if thinking.summary is not None:
        concessions.hint("thinking.summary")
    if thinking.effort is not None:
        return {"reasoning_effort": thinking.effort}
    if thinking.budget_tokens is None:
        if thinking.adaptive:
            concessions.hint("thinking")
        return {}
    concessions.hint("thinking.budget_tokens")
    budget = thinking.budget_tokens
    return {"reasoning_effort": "low" if budget <= 2048 else "medium" if budget <= 8192 else "high"}


def _write_tools(chat: ChatRequest, concessions: Concessions) -> list[Any]:
    """Only OpenAI itself knows a choice among allowed tools: for a caller of another dialect only those are sent."""
    allowed = None if chat.tool_choice is None or chat.origin == NAME else chat.tool_choice.allowed
    wanted = None if allowed is None else frozenset(allowed)
    tools: list[Any] = []
    for at, tool in enumerate(chat.tools):
        if isinstance(tool, HostTool):
            if tool.origin == NAME:
                tools.append(tool.raw)
            else:
                concessions.without(f"tools[{at}]", f"a tool of type {tool.kind!r} is run by hosts that speak {tool.origin} alone.")
        elif wanted is None or tool.name in wanted:
            tools.append(_write_tool(tool, at, chat.origin == NAME, concessions))
    return tools


def _write_tool(tool: Tool, at: int, own: bool, concessions: Concessions) -> dict[str, Any]:
    kind = "custom" if tool.custom else "function"
    inner: dict[str, Any] = {"name": tool.name}
    told: dict[str, Any] = {"type": kind, kind: inner}
    for key, value in {
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
        "format": None if tool.format is None else _nested(tool.format, f"tools[{at}].format"),
    }.items():
        if value is not None:
            inner[key] = value
    for key, value in tool.extra.items():
        if own:
            put(told, key, value, kind)
        else:
            concessions.extra(f"tools[{at}].{key}", value, "OpenAI's chat has no such field for tools.")
    return told


def _nested(format: Raw, path: str) -> Any:
    try:
        told = _object.decode(format)
    except UNREADABLE:
        raise Malformed(f"`{path}` must be an object.", param=path) from None
    if told.get("type") != _GRAMMAR:
        return format
    return {"type": "grammar", "grammar": {key: value for key, value in told.items() if key != "type"}}


def _write_choice(choice: ToolChoice, chat: ChatRequest) -> Any:
    if choice.mode == "named":
        return _named(choice.name or "", chat)
    if choice.allowed is not None and chat.origin == NAME:
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": [_named(name, chat) for name in choice.allowed]}}
    return choice.mode


def _named(name: str, chat: ChatRequest) -> dict[str, Any]:
    custom = any(isinstance(tool, Tool) and tool.custom and tool.name == name for tool in chat.tools)
    return {"type": "custom", "custom": {"name": name}} if custom else {"type": "function", "function": {"name": name}}
