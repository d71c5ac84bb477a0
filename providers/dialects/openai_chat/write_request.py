"""Writes a canonical request as a chat request.

Source: https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.canonical.chat import ChatRequest, HostTool, Thinking, Tool, ToolChoice
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw, write_extra_field
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.thinking_fields import effort_for_budget
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.write_messages import write_messages
from providers.drop_policy import DropPolicy
from providers.fields import ENGINE_FIELDS
from providers.host_tools import leave_out_host_tool

_GRAMMAR_TYPE = Raw(b'"grammar"')
# Extra fields inside these objects are kept by their path.
_NESTED_FIELDS = ("stream_options", "tool_choice", "response_format")

_object_decoder = msgspec.json.Decoder(dict[str, Raw])


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """The request. Raises Unsupported for what chat cannot express and the caller does not allow to be dropped."""
    body = Body(model=chat.model)
    if chat.prompt is None:
        body["messages"] = write_messages(chat, drop_policy)
    else:
        body["prompt"] = chat.prompt
    same_dialect = chat.origin == DIALECT
    tools = _write_tools(chat, drop_policy)
    if tools:
        body["tools"] = tools
    if chat.tool_choice is not None:
        if tools or same_dialect:
            body["tool_choice"] = _write_tool_choice(chat.tool_choice, chat)
        elif chat.tool_choice.mode in ("required", "named"):
            drop_policy.drop_or_refuse("tool_choice", "there is no tool that it could call.")
    if chat.output is not None:
        body.update(_write_output(chat.output))
    if chat.thinking is not None:
        body.update(_write_thinking(chat.thinking, drop_policy))
    service_tier = chat.service_tier
    if service_tier is not None and not chat.origin.startswith("openai"):
        drop_policy.drop_hint("service_tier")
        service_tier = None
    fields: dict[str, Any] = {
        "parallel_tool_calls": chat.parallel_calls if tools or same_dialect else None,
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
    body.update({key: value for key, value in fields.items() if value is not None})
    for key, value in chat.extra.items():
        if same_dialect:
            write_extra_field(body, key, value, *_NESTED_FIELDS)
        elif key in ENGINE_FIELDS or (key == "cache_control" and "request" in chat.cache_marks):
            body[key] = value
        else:
            drop_policy.drop_extra_field(key, value, "OpenAI's chat has no such field.")
    if "stream_options" in body:
        body["stream_options"] = as_raw(body["stream_options"])
    return body


def _write_output(output: OutputFormat) -> dict[str, Any]:
    match output:
        case JsonObject() | JsonSchema():
            return structured_output.write_response_format(output)
        case _:
            return structured_output.write_structured_outputs(output)


def _write_thinking(thinking: Thinking, drop_policy: DropPolicy) -> dict[str, Any]:
    if thinking.summary is not None:
        drop_policy.drop_hint("thinking.summary")
    if thinking.effort is not None:
        return {"reasoning_effort": thinking.effort}
    if thinking.budget_tokens is None:
        if thinking.adaptive:
            drop_policy.drop_hint("thinking")
        return {}
    drop_policy.drop_hint("thinking.budget_tokens")
    return {"reasoning_effort": effort_for_budget(thinking.budget_tokens)}


def _write_tools(chat: ChatRequest, drop_policy: DropPolicy) -> list[Any]:
    """The tools. For a caller of another dialect only allowed tools are sent: only OpenAI itself supports `allowed_tools`."""
    allowed = None if chat.tool_choice is None or chat.origin == DIALECT else chat.tool_choice.allowed
    wanted = None if allowed is None else frozenset(allowed)
    tools: list[Any] = []
    for at, tool in enumerate(chat.tools):
        if isinstance(tool, HostTool):
            if tool.origin == DIALECT:
                tools.append(tool.raw)
            else:
                why = f"only hosts that speak {tool.origin} run a tool of type {tool.kind!r}."
                leave_out_host_tool(tool, f"tools[{at}]", why, drop_policy)
        elif wanted is None or tool.name in wanted:
            tools.append(_write_tool(tool, at, chat.origin == DIALECT, drop_policy))
    return tools


def _write_tool(tool: Tool, at: int, same_dialect: bool, drop_policy: DropPolicy) -> dict[str, Any]:
    kind = "custom" if tool.custom else "function"
    inner: dict[str, Any] = {"name": tool.name}
    written: dict[str, Any] = {"type": kind, kind: inner}
    for key, value in {
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
        "format": None if tool.format is None else _nest_grammar(tool.format, f"tools[{at}].format"),
    }.items():
        if value is not None:
            inner[key] = value
    for key, value in tool.extra.items():
        if same_dialect:
            write_extra_field(written, key, value, kind)
        else:
            drop_policy.drop_extra_field(f"tools[{at}].{key}", value, "OpenAI's chat has no such field for tools.")
    return written


def _nest_grammar(format: Raw, path: str) -> Any:
    try:
        decoded = _object_decoder.decode(format)
    except DECODE_ERRORS:
        raise InvalidRequest(f"`{path}` must be an object.", param=path) from None
    if decoded.get("type") != _GRAMMAR_TYPE:
        return format
    return {"type": "grammar", "grammar": {key: value for key, value in decoded.items() if key != "type"}}


def _write_tool_choice(choice: ToolChoice, chat: ChatRequest) -> Any:
    if choice.mode == "named":
        return _named_tool(choice.name or "", chat)
    if choice.allowed is not None and chat.origin == DIALECT:
        return {
            "type": "allowed_tools",
            "allowed_tools": {"mode": choice.mode, "tools": [_named_tool(name, chat) for name in choice.allowed]},
        }
    return choice.mode


def _named_tool(name: str, chat: ChatRequest) -> dict[str, Any]:
    custom = any(isinstance(tool, Tool) and tool.custom and tool.name == name for tool in chat.tools)
    return {"type": "custom", "custom": {"name": name}} if custom else {"type": "function", "function": {"name": name}}
