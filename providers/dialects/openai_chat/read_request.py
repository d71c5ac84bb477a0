"""Reads a chat request: its fields, its tools and the output format.

Source: https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.canonical.chat import ChatRequest, Effort, HostTool, Thinking, Tool, ToolChoice
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw, read_extra_fields
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.thinking_fields import READ_MEMBERS, read_thinking_object
from providers.dialects.openai.stop_sequences import read_stop
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.read_messages import read_messages
from providers.structured_output.read_response_format import read_response_format

# Canonical field -> chat's name, if they differ.
FIELD_NAMES: Mapping[str, str] = {
    "parallel_calls": "parallel_tool_calls",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "thinking.effort": "reasoning_effort",
    "thinking.budget_tokens": "reasoning_effort",
    "cache_key": "prompt_cache_key",
    "reasoning.signature": "reasoning_details",
    "output.strict": "response_format.json_schema.strict",
    "reasoning": "reasoning_content",
}

# Fields with a canonical counterpart, and those that the gateway handles itself.
_NOT_EXTRA = frozenset(
    {
        *("model", "messages", "prompt", "stream", "stream_options"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
        *("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls", "response_format", "reasoning_effort", "verbosity"),
        *("max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed", "n", "stop"),
        *("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias"),
        *("user", "safety_identifier", "metadata", "service_tier", "store", "prompt_cache_key"),
        *structured_output.CONSTRAINT_FIELDS,
    }
)
_KNOWN_EFFORTS = frozenset(get_args(Effort))

_objects_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_object_decoder = msgspec.json.Decoder(dict[str, Raw])


def read_request(body: Body) -> ChatRequest:
    """The canonical request. Raises InvalidRequest for what parse_request() does not check and this cannot understand."""
    try:
        return _read_body(body)
    except DECODE_ERRORS as exc:
        raise InvalidRequest(f"The body cannot be understood: {exc}.") from None


def _read_body(body: Body) -> ChatRequest:
    extra = {key: as_raw(value) for key, value in body.items() if key not in _NOT_EXTRA and body.has_value(key)}
    value = body.value
    extra |= read_extra_fields(value("stream_options") or {}, "stream_options", "include_usage")
    output = structured_output.read_output_format(body)
    if output is None and body.has_value("response_format"):
        output = read_response_format(body["response_format"], extra)
    return ChatRequest(
        origin=DIALECT,
        model=value("model"),
        messages=read_messages(body["messages"]) if body.has_value("messages") else (),
        prompt=value("prompt"),
        tools=_read_tools(body),
        tool_choice=_read_tool_choice(body, extra),
        parallel_calls=value("parallel_tool_calls"),
        output=output,
        thinking=_read_thinking(body, extra),
        verbosity=value("verbosity"),
        max_tokens=value("max_completion_tokens") or value("max_tokens"),
        temperature=value("temperature"),
        top_p=value("top_p"),
        top_k=value("top_k"),
        seed=value("seed"),
        n=value("n"),
        stop=read_stop(value("stop")),
        frequency_penalty=value("frequency_penalty"),
        presence_penalty=value("presence_penalty"),
        logprobs=value("logprobs"),
        top_logprobs=value("top_logprobs"),
        logit_bias=as_raw(body["logit_bias"]) if body.has_value("logit_bias") else None,
        user=value("user"),
        safety_identifier=value("safety_identifier"),
        metadata=value("metadata"),
        service_tier=value("service_tier"),
        store=value("store"),
        cache_key=value("prompt_cache_key"),
        extra=extra,
    )


def _read_thinking(body: Body, extra: dict[str, Raw]) -> Thinking | None:
    """The effort. An effort beyond the common names (a number, which SGLang accepts) stays an extra field."""
    effort = body.value("reasoning_effort")
    thinking = _read_thinking_object(body, extra)
    if effort is None or (thinking is not None and thinking.effort == "none"):
        return thinking
    if effort in _KNOWN_EFFORTS:
        return Thinking(effort=effort, summary=None if thinking is None else thinking.summary)
    extra["reasoning_effort"] = as_raw(body["reasoning_effort"])
    return None


def _read_thinking_object(body: Body, extra: dict[str, Raw]) -> Thinking | None:
    """Reads the thinking objects of other APIs, which callers send to chat, too.

    Objects that say something else stay extra fields.
    """
    for field in ("thinking", "reasoning"):
        if field not in extra or not isinstance(decoded := body.value(field), dict):
            continue
        value = cast("dict[str, Any]", decoded)
        thinking = read_thinking_object(value)
        others = read_extra_fields(value, field, *READ_MEMBERS)
        if thinking is None and others:
            continue
        del extra[field]
        if thinking is not None:
            extra |= others
            return thinking
    return None


def _read_tools(body: Body) -> tuple[Tool | HostTool, ...]:
    """The tools, of `tools` and of `functions`, OpenAI's older field for them."""
    decoded = _objects_decoder.decode(as_raw(body["tools"])) if body.has_value("tools") else []
    tools = [_read_tool(tool, f"tools[{at}]") for at, tool in enumerate(decoded)]
    if body.has_value("functions"):
        tools += [_read_function({}, function) for function in _objects_decoder.decode(as_raw(body["functions"]))]
    return tuple(tools)


def _read_tool(fields: dict[str, Raw], path: str) -> Tool | HostTool:
    kind = msgspec.json.decode(fields.get("type", b"null")) or "function"
    if kind not in ("function", "custom"):
        return HostTool(DIALECT, kind, Raw(msgspec.json.encode(fields)))
    inner = fields.get(kind, NULL)
    if inner == NULL:
        raise InvalidRequest(f"`{path}.{kind}` is missing.", param=f"{path}.{kind}")
    extra = {key: value for key, value in fields.items() if key not in ("type", kind)}
    if kind == "function":
        return _read_function(extra, _object_decoder.decode(inner))
    custom = _object_decoder.decode(inner)
    extra |= read_extra_fields(custom, "custom", "name", "description", "format")
    name, description = _decode_text(custom["name"]), _decode_text(custom.get("description"))
    return Tool(name, description, custom=True, format=_flatten_grammar(custom.get("format", NULL)), extra=extra)


def _flatten_grammar(format: Raw) -> Raw | None:
    """The format of a custom tool. Chat nests a grammar in an object; the canonical model has it beside its type, as Responses do."""
    if format == NULL:
        return None
    decoded = _object_decoder.decode(format)
    grammar = decoded.pop("grammar", None)
    return format if grammar is None else Raw(msgspec.json.encode({**decoded, **_object_decoder.decode(grammar)}))


def _read_function(extra: dict[str, Raw], fields: dict[str, Raw]) -> Tool:
    """A function. Unknown keys of the inner object are kept under `function.`, so that it can be written as it came."""
    known = {key: fields.get(key) for key in ("name", "description", "parameters", "strict")}
    inner = read_extra_fields(fields, "function", *known)
    strict = None if known["strict"] is None else msgspec.json.decode(known["strict"])
    parameters = None if known["parameters"] == NULL else known["parameters"]
    return Tool(_decode_text(known["name"]), _decode_text(known["description"]), parameters, strict, extra={**extra, **inner})


def _decode_text(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _read_tool_choice(body: Body, extra: dict[str, Raw]) -> ToolChoice | None:
    tool_choice: Any = body.value("tool_choice")
    if tool_choice is None:
        tool_choice = body.value("function_call")
        tool_choice = {"type": "function", "function": tool_choice} if isinstance(tool_choice, dict) else tool_choice  # pyright: ignore[reportUnknownVariableType]
    match tool_choice:
        case None:
            return None
        case "auto" | "none" | "required":
            return ToolChoice(tool_choice)
        case "any":  # Mistral's name for it
            return ToolChoice("required")
        case {"type": "function" as kind, "function": {"name": str(name), **inner}, **rest} | {
            "type": "custom" as kind,
            "custom": {"name": str(name), **inner},
            **rest,
        }:
            extra |= read_extra_fields(rest, "tool_choice") | read_extra_fields(inner, f"tool_choice.{kind}")
            return ToolChoice("named", name)
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": [*tools], **inner}, **rest}:
            extra |= read_extra_fields(rest, "tool_choice") | read_extra_fields(inner, "tool_choice.allowed_tools")
            return ToolChoice(mode, allowed=tuple(_allowed_tool_name(tool) for tool in tools))
        case _:
            raise InvalidRequest(f"`tool_choice` cannot be {tool_choice!r:.80}.", param="tool_choice")


def _allowed_tool_name(tool: Any) -> str:
    match tool:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            raise InvalidRequest(f"`tool_choice.allowed_tools.tools` cannot hold {tool!r:.80}.", param="tool_choice.allowed_tools.tools")
