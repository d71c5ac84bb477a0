"""What an ask in Responses means."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import Raw

from providers.chat import ChatRequest, Effort, HostTool, Thinking, Tool, ToolChoice
from providers.dialects.openai_responses.conversation import SEALED
from providers.dialects.openai_responses.fields import Object, rest_of, said_of, text_of
from providers.dialects.openai_responses.items import ORIGIN
from providers.dialects.openai_responses.reading_input import read_messages
from providers.errors import Malformed
from providers.guided import JsonObject, JsonSchema, Output
from providers.wire import NULL, Body

_object = msgspec.json.Decoder(Object)
_list = msgspec.json.Decoder(list[Raw])

LOGPROBS = "message.output_text.logprobs"
EFFORTS = frozenset(get_args(Effort))

# By the names of ChatRequest, fields that mean the same here.
SAME: Mapping[str, str] = {
    "max_tokens": "max_output_tokens",
    "parallel_calls": "parallel_tool_calls",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "top_logprobs": "top_logprobs",
    "user": "user",
    "safety_identifier": "safety_identifier",
    "metadata": "metadata",
    "service_tier": "service_tier",
    "store": "store",
    "cache_key": "prompt_cache_key",
}
# Values that ask for nothing.
_NOTHING: Mapping[str, tuple[Raw, ...]] = {"top_logprobs": (Raw(b"0"),)}
# Read under another name, or what is not meaning: the road's own, and what was settled before.
_READ = frozenset(
    {
        *SAME.values(),
        *("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "truncation", "background"),
        *("stream", "stream_options", "previous_response_id", "conversation", "prompt"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
    }
)


def read_request(body: Body) -> ChatRequest:
    extra: dict[str, Raw] = {key: value for key, value in body.items() if key not in _READ and value != NULL}
    if body.said("truncation") and body.value("truncation") != "disabled":
        extra["truncation"] = body["truncation"]
    if body.said("stream_options"):
        extra |= _inner("stream_options", _object.decode(body["stream_options"]), "include_usage")  # which is told anyway
    tool_choice = _read_tool_choice(body, extra)
    thinking = _read_thinking(body, extra)
    output, verbosity = _read_text(body, extra)
    return ChatRequest(
        origin=ORIGIN,
        model=body.value("model") or "",
        messages=tuple(read_messages(body)),
        tools=tuple(_read_tool(raw) for raw in _list.decode(body["tools"])) if body.said("tools") else (),
        tool_choice=tool_choice,
        output=output,
        thinking=thinking,
        verbosity=verbosity,
        logprobs=_read_include(body, extra),
        extra=extra,
        **{name: body.value(key) for name, key in SAME.items() if body.said(key) and body[key] not in _NOTHING.get(name, ())},
    )


def _inner(field: str, said: Object, *known: str) -> Object:
    """What of an object has no name of ours, by its path."""
    return {f"{field}.{key}": value for key, value in rest_of(said, *known).items()}


def _read_tool(raw: Raw) -> Tool | HostTool:
    tool = _object.decode(raw)
    kind = text_of(tool, "type")
    if kind not in ("function", "custom"):
        return HostTool(ORIGIN, kind, raw)
    name, description = text_of(tool, "name"), text_of(tool, "description") or None
    if kind == "custom":
        extra = rest_of(tool, "name", "description", "format")
        return Tool(name, description, custom=True, format=said_of(tool, "format"), extra=extra)
    strict = said_of(tool, "strict")
    return Tool(
        name,
        description,
        parameters=said_of(tool, "parameters"),
        strict=None if strict is None else msgspec.json.decode(strict),
        extra=rest_of(tool, "name", "description", "parameters", "strict"),
    )


def _read_tool_choice(body: Body, extra: dict[str, Raw]) -> ToolChoice | None:
    if not body.said("tool_choice"):
        return None
    said = body.value("tool_choice")
    match said:
        case "auto" | "none" | "required":
            return ToolChoice(said)
        case {"type": "function" | "custom", "name": str(name)}:
            extra |= _inner("tool_choice", _object.decode(body["tool_choice"]), "name")
            return ToolChoice("named", name)
        case {"type": "allowed_tools", "tools": [*tools]} if all(map(_is_by_name, tools)):
            extra |= _inner("tool_choice", _object.decode(body["tool_choice"]), "mode", "tools")
            mode: Any = said.get("mode") or "auto"
            return ToolChoice(mode, allowed=tuple(each.get("name") or "" for each in tools))
        case _:
            extra["tool_choice"] = body["tool_choice"]
            return None


def _is_by_name(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") in ("function", "custom") and tool.keys() <= {"type", "name"}


def _read_thinking(body: Body, extra: dict[str, Raw]) -> Thinking | None:
    if not body.said("reasoning"):
        return None
    said = _object.decode(body["reasoning"])
    effort: Any = text_of(said, "effort") or None
    summary = text_of(said, "summary") or text_of(said, "generate_summary") or None
    more = rest_of(said, "effort", "summary", "generate_summary")
    if effort is not None and effort not in EFFORTS:
        more["effort"], effort = said["effort"], None
    extra |= {f"reasoning.{key}": value for key, value in more.items()}
    return Thinking(effort=effort, summary=summary) if effort or summary else None


def _read_text(body: Body, extra: dict[str, Raw]) -> tuple[Output | None, str | None]:
    if not body.said("text"):
        return None, None
    said = _object.decode(body["text"])
    extra |= _inner("text", said, "format", "verbosity")
    verbosity = text_of(said, "verbosity") or None
    raw = said_of(said, "format")
    if raw is None:
        return None, verbosity
    told = _object.decode(raw)
    extra |= _inner("text.format", told, "name", "description", "schema", "strict")
    match text_of(told, "type"):
        case "text":
            return None, verbosity
        case "json_object":
            return JsonObject(), verbosity
        case "json_schema" if "schema" in told:
            strict = said_of(told, "strict")
            name, description = text_of(told, "name") or None, text_of(told, "description") or None
            return JsonSchema(told["schema"], name, description, None if strict is None else msgspec.json.decode(strict)), verbosity
        case "json_schema":
            raise Malformed("`text.format` asks for a schema and holds none.", param="text.format.schema")
        case kind:
            raise Malformed(f"`text.format` cannot be {kind!r:.40}: text, json_object and json_schema are known.", param="text.format.type")


def _read_include(body: Body, extra: dict[str, Raw]) -> bool | None:
    """Whether logprobs are wanted. Sealed reasoning always is: without it nothing can be gone on from."""
    said: list[str] = body.value("include") or []
    rest = [each for each in said if each not in (LOGPROBS, SEALED)]
    if rest:
        extra["include"] = Raw(msgspec.json.encode(rest))
    return True if LOGPROBS in said else None
