"""A request in OpenAI chat as meaning: its fields, its tools, and how the answer is to be.

Source: https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import Raw

from providers import guided
from providers.chat import ChatRequest, Effort, HostTool, Thinking, Tool, ToolChoice
from providers.dialects.openai_chat.messages_read import read_messages
from providers.errors import Malformed
from providers.guided.formats import read_format
from providers.rest import as_raw, rest_of
from providers.wire import NULL, UNREADABLE, Body

NAME = "openai_chat"

# What callers of chat call by another name than the meaning does.
WORDS: Mapping[str, str] = {
    "parallel_calls": "parallel_tool_calls",
    "output": "response_format",
    "thinking": "reasoning_effort",
    "thinking.effort": "reasoning_effort",
    "thinking.budget_tokens": "reasoning_effort",
    "cache_key": "prompt_cache_key",
    "reasoning.seal": "reasoning_details",
    "output.strict": "response_format.json_schema.strict",
    "reasoning": "reasoning_content",
}

# Handled by the road, ours, or said otherwise in the meaning.
_NOT_EXTRA = frozenset(
    {
        *("model", "messages", "prompt", "stream", "stream_options"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
        *("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls", "response_format", "reasoning_effort", "verbosity"),
        *("max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed", "n", "stop"),
        *("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias"),
        *("user", "safety_identifier", "metadata", "service_tier", "store", "prompt_cache_key"),
        *guided.WORDS,
    }
)
_EFFORTS = frozenset(get_args(Effort))

_objects = msgspec.json.Decoder(list[dict[str, Raw]])
_object = msgspec.json.Decoder(dict[str, Raw])


def read_request(body: Body) -> ChatRequest:
    """Raises Malformed for what open_ask() lets pass and cannot be understood."""
    try:
        return _read(body)
    except UNREADABLE as fault:
        raise Malformed(f"The body cannot be understood: {fault}.") from None


def _read(body: Body) -> ChatRequest:
    extra = {key: as_raw(value) for key, value in body.items() if key not in _NOT_EXTRA and body.said(key)}
    value = body.value
    extra |= rest_of(value("stream_options") or {}, "stream_options", "include_usage")
    output = guided.read_output(body)
    if output is None and body.said("response_format"):
        output = read_format(body["response_format"], extra)
    return ChatRequest(
        origin=NAME,
        model=value("model"),
        messages=read_messages(body["messages"]) if body.said("messages") else (),
        prompt=value("prompt"),
        tools=_read_tools(body),
        tool_choice=_read_choice(body, extra),
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
        stop=_read_stop(value("stop")),
        frequency_penalty=value("frequency_penalty"),
        presence_penalty=value("presence_penalty"),
        logprobs=value("logprobs"),
        top_logprobs=value("top_logprobs"),
        logit_bias=as_raw(body["logit_bias"]) if body.said("logit_bias") else None,
        user=value("user"),
        safety_identifier=value("safety_identifier"),
        metadata=value("metadata"),
        service_tier=value("service_tier"),
        store=value("store"),
        cache_key=value("prompt_cache_key"),
        extra=extra,
    )


def _read_stop(said: str | list[str] | None) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(said or ())


def _read_thinking(body: Body, extra: dict[str, Raw]) -> Thinking | None:
    """An effort that is no common word (a number, as SGLang takes it) stays what it is."""
    effort = body.value("reasoning_effort")
    if effort is None:
        return None
    if effort in _EFFORTS:
        return Thinking(effort=effort)
    extra["reasoning_effort"] = as_raw(body["reasoning_effort"])
    return None


def _read_tools(body: Body) -> tuple[Tool | HostTool, ...]:
    """`functions` is what OpenAI called tools at first."""
    told = _objects.decode(as_raw(body["tools"])) if body.said("tools") else []
    tools = [_read_tool(tool, f"tools[{at}]") for at, tool in enumerate(told)]
    if body.said("functions"):
        tools += [_read_function({}, function) for function in _objects.decode(as_raw(body["functions"]))]
    return tuple(tools)


def _read_tool(told: dict[str, Raw], path: str) -> Tool | HostTool:
    kind = msgspec.json.decode(told.get("type", b"null")) or "function"
    if kind not in ("function", "custom"):
        return HostTool(NAME, kind, Raw(msgspec.json.encode(told)))
    inner = told.get(kind, NULL)
    if inner == NULL:
        raise Malformed(f"`{path}.{kind}` is missing.", param=f"{path}.{kind}")
    rest = {key: value for key, value in told.items() if key not in ("type", kind)}
    if kind == "function":
        return _read_function(rest, _object.decode(inner))
    custom = _object.decode(inner)
    rest |= rest_of(custom, "custom", "name", "description", "format")
    name, description = _text(custom["name"]), _text(custom.get("description"))
    return Tool(name, description, custom=True, format=_flat(custom.get("format", NULL)), extra=rest)


def _flat(format: Raw) -> Raw | None:
    """A grammar is an object of its own in chat; the meaning has it as Responses do, beside its type."""
    if format == NULL:
        return None
    told = _object.decode(format)
    grammar = told.pop("grammar", None)
    return format if grammar is None else Raw(msgspec.json.encode({**told, **_object.decode(grammar)}))


def _read_function(rest: dict[str, Raw], told: dict[str, Raw]) -> Tool:
    """Unknown keys of the inner object are kept under `function.`, for it to be written as it was."""
    known = {key: told.get(key) for key in ("name", "description", "parameters", "strict")}
    inner = rest_of(told, "function", *known)
    strict = None if known["strict"] is None else msgspec.json.decode(known["strict"])
    parameters = None if known["parameters"] == NULL else known["parameters"]
    return Tool(_text(known["name"]), _text(known["description"]), parameters, strict, extra={**rest, **inner})


def _text(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _read_choice(body: Body, extra: dict[str, Raw]) -> ToolChoice | None:
    said: Any = body.value("tool_choice")
    if said is None:
        said = body.value("function_call")
        said = {"type": "function", "function": said} if isinstance(said, dict) else said  # pyright: ignore[reportUnknownVariableType]
    match said:
        case None:
            return None
        case "auto" | "none" | "required":
            return ToolChoice(said)
        case "any":  # Mistral's word
            return ToolChoice("required")
        case {"type": "function" as kind, "function": {"name": str(name), **inner}, **rest} | {
            "type": "custom" as kind,
            "custom": {"name": str(name), **inner},
            **rest,
        }:
            extra |= rest_of(rest, "tool_choice") | rest_of(inner, f"tool_choice.{kind}")
            return ToolChoice("named", name)
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": [*tools], **inner}, **rest}:
            extra |= rest_of(rest, "tool_choice") | rest_of(inner, "tool_choice.allowed_tools")
            return ToolChoice(mode, allowed=tuple(_allowed(tool) for tool in tools))
        case _:
            raise Malformed(f"`tool_choice` cannot be {said!r:.80}.", param="tool_choice")


def _allowed(tool: Any) -> str:
    match tool:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return name
        case _:
            raise Malformed(f"`tool_choice.allowed_tools.tools` cannot hold {tool!r:.80}.", param="tool_choice.allowed_tools.tools")
