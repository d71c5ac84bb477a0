"""Reads a Responses request."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest, Effort, HostTool, Thinking, Tool, ToolChoice
from providers.canonical.errors import InvalidRequest
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.canonical.raw_json import NULL, Body
from providers.dialects.openai_responses.context_items import NO_SETTINGS, Settings, list_tools, read_settings
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.include_values import ENCRYPTED_REASONING, LOGPROBS_INCLUDE
from providers.dialects.openai_responses.input_items import ContinuedInput, has_context_items
from providers.dialects.openai_responses.namespaces import expand_namespace, is_callers_search, is_namespace, search_function
from providers.dialects.openai_responses.raw_fields import RawObject, extra_fields, raw_field, text_field
from providers.dialects.openai_responses.read_input import read_messages
from providers.host_tools import mark_offered_search

_object_decoder = msgspec.json.Decoder(RawObject)
_list_decoder = msgspec.json.Decoder(list[Raw])

KNOWN_EFFORTS = frozenset(get_args(Effort))

# Field of ChatRequest -> the field here that means the same.
SAME_FIELDS: Mapping[str, str] = {
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
# Values that request nothing.
_NEUTRAL_VALUES: Mapping[str, tuple[Raw, ...]] = {"top_logprobs": (Raw(b"0"),)}
# Fields with a canonical counterpart, and those that the gateway handles itself.
_NOT_EXTRA = frozenset(
    {
        *SAME_FIELDS.values(),
        *("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "truncation", "background"),
        *("stream", "stream_options", "previous_response_id", "conversation", "prompt"),
        *("episode_id", "tensorzero::episode_id", "tensorzero::tags"),
    }
)


def read_request(body: Body) -> ChatRequest:
    extra: dict[str, Raw] = {key: value for key, value in body.items() if key not in _NOT_EXTRA and value != NULL}
    if body.has_value("truncation") and body.value("truncation") != "disabled":
        extra["truncation"] = body["truncation"]
    if body.has_value("stream_options"):
        extra |= _nested_extra("stream_options", _object_decoder.decode(body["stream_options"]), "include_usage")  # usage is always sent
    has_context = "input" in body and body["input"].__class__ is ContinuedInput and has_context_items(body)  # hardly ever
    tool_choice = _read_tool_choice(body, extra)
    thinking = _read_thinking(body, extra, read_settings(body) if has_context else NO_SETTINGS)
    output, verbosity = _read_text(body, extra)
    return ChatRequest(
        origin=DIALECT,
        model=body.value("model") or "",
        messages=tuple(read_messages(body)),
        tools=_read_tools(body, tool_choice) if has_context or body.has_value("tools") else (),
        tool_choice=tool_choice,
        output=output,
        thinking=thinking,
        verbosity=verbosity,
        logprobs=_read_include(body, extra),
        extra=extra,
        **{
            name: body.value(key)
            for name, key in SAME_FIELDS.items()
            if body.has_value(key) and body[key] not in _NEUTRAL_VALUES.get(name, ())
        },
    )


def _nested_extra(field: str, container: RawObject, *known_keys: str) -> RawObject:
    """The unknown fields of an object, by their paths."""
    return {f"{field}.{key}": value for key, value in extra_fields(container, *known_keys).items()}


def _read_tools(body: Body, tool_choice: ToolChoice | None) -> tuple[Tool | HostTool, ...]:
    """The tools by their places, which tool_paths() gives for each."""
    tools = [tool for tool, _ in _placed_tools(body)]
    if tool_choice is None and body.has_value("tool_choice"):  # it names a tool of a host
        return tuple(tools)
    return mark_offered_search(tools)


def tool_paths(body: Body) -> Mapping[str, str]:
    """The caller's paths of the tools whose place in the canonical chat is another one."""
    paths = [path for _, path in _placed_tools(body)]
    return {f"tools[{at}]": path for at, path in enumerate(paths) if path != f"tools[{at}]"}


def _placed_tools(body: Body) -> list[tuple[Tool | HostTool, str]]:
    """The tools, those of `tools` each at the caller's index, with their paths.

    Behind them are the further functions of namespaces, and then the tools in items of the input: of several with one name the last, as a
    search may find again what is known.
    """
    tools: list[tuple[Tool | HostTool, str]] = []
    further: list[tuple[Tool | HostTool, str]] = []
    of_items: dict[str, tuple[Tool | HostTool, str]] = {}
    for placed in list_tools(body):
        expanded = _expand_tool(placed.raw, placed.path)
        if placed.path.startswith("tools["):
            tools.append(expanded[0])
            further += expanded[1:]
        else:
            of_items |= {tool.name if isinstance(tool, Tool) else tool.kind: (tool, path) for tool, path in expanded}
    known = {tool.name if isinstance(tool, Tool) else tool.kind for tool, _ in (*tools, *further)}
    return [*tools, *further, *(placed for name, placed in of_items.items() if name not in known)]


def _expand_tool(raw: Raw, path: str) -> list[tuple[Tool | HostTool, str]]:
    """A tool, or the functions of a namespace."""
    tool = _object_decoder.decode(raw)
    functions = expand_namespace(tool) if is_namespace(tool) else []
    if functions:
        return [(_read_function(function), f"{path}.tools[{at}]") for at, function in enumerate(functions)]
    if (kind := text_field(tool, "type")) in ("function", "custom"):
        return [(_read_function(tool), path)]
    if is_callers_search(tool):
        return [(_read_function(search_function(tool)), path)]
    return [(HostTool(DIALECT, kind, raw), path)]


def _read_function(tool: RawObject) -> Tool:
    kind = text_field(tool, "type")
    name, description = text_field(tool, "name"), text_field(tool, "description") or None
    if kind == "custom":
        extra = extra_fields(tool, "name", "description", "format")
        return Tool(name, description, custom=True, format=raw_field(tool, "format"), extra=extra)
    strict = raw_field(tool, "strict")
    return Tool(
        name,
        description,
        parameters=raw_field(tool, "parameters"),
        strict=None if strict is None else msgspec.json.decode(strict),
        extra=extra_fields(tool, "name", "description", "parameters", "strict"),
    )


def _read_tool_choice(body: Body, extra: dict[str, Raw]) -> ToolChoice | None:
    if not body.has_value("tool_choice"):
        return None
    value = body.value("tool_choice")
    match value:
        case "auto" | "none" | "required":
            return ToolChoice(value)
        case {"type": "function" | "custom", "name": str(name)}:
            extra |= _nested_extra("tool_choice", _object_decoder.decode(body["tool_choice"]), "name")
            return ToolChoice("named", name)
        case {"type": "allowed_tools", "tools": [*tools]} if all(map(_is_tool_name, tools)):
            extra |= _nested_extra("tool_choice", _object_decoder.decode(body["tool_choice"]), "mode", "tools")
            mode: Any = value.get("mode") or "auto"
            return ToolChoice(mode, allowed=tuple(each.get("name") or "" for each in tools))
        case _:
            extra["tool_choice"] = body["tool_choice"]
            return None


def _is_tool_name(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") in ("function", "custom") and tool.keys() <= {"type", "name"}


def _read_thinking(body: Body, extra: dict[str, Raw], settings: Settings) -> Thinking | None:
    if settings.text is not None and text_field(_object_decoder.decode(settings.text), "type") != "text":
        extra[settings.text_path] = settings.text  # checked nowhere, unlike that of `text`
    if not body.has_value("reasoning") and settings.effort is None:
        return None
    reasoning = _object_decoder.decode(body["reasoning"]) if body.has_value("reasoning") else {}
    if settings.effort is not None:
        reasoning["effort"] = settings.effort
    effort: Any = text_field(reasoning, "effort") or None
    summary = text_field(reasoning, "summary") or text_field(reasoning, "generate_summary") or None
    extra_reasoning = extra_fields(reasoning, "effort", "summary", "generate_summary")
    if effort is not None and effort not in KNOWN_EFFORTS:
        extra_reasoning["effort"], effort = reasoning["effort"], None
    extra |= {f"reasoning.{key}": value for key, value in extra_reasoning.items()}
    return Thinking(effort=effort, summary=summary) if effort or summary else None


def _read_text(body: Body, extra: dict[str, Raw]) -> tuple[OutputFormat | None, str | None]:
    if not body.has_value("text"):
        return None, None
    text = _object_decoder.decode(body["text"])
    extra |= _nested_extra("text", text, "format", "verbosity")
    verbosity = text_field(text, "verbosity") or None
    raw = raw_field(text, "format")
    if raw is None:
        return None, verbosity
    text_format = _object_decoder.decode(raw)
    extra |= _nested_extra("text.format", text_format, "name", "description", "schema", "strict")
    match text_field(text_format, "type"):
        case "text":
            return None, verbosity
        case "json_object":
            return JsonObject(), verbosity
        case "json_schema" if "schema" in text_format:
            strict = raw_field(text_format, "strict")
            name, description = text_field(text_format, "name") or None, text_field(text_format, "description") or None
            return JsonSchema(text_format["schema"], name, description, None if strict is None else msgspec.json.decode(strict)), verbosity
        case "json_schema":
            raise InvalidRequest("`text.format` is `json_schema` but has no `schema`.", param="text.format.schema")
        case kind:
            raise InvalidRequest(
                f"`text.format` cannot be {kind!r:.40}: text, json_object and json_schema are known.", param="text.format.type"
            )


def _read_include(body: Body, extra: dict[str, Raw]) -> bool | None:
    """Whether log probabilities are requested. Encrypted reasoning always is: without it no conversation can continue."""
    include: list[str] = body.value("include") or []
    other_values = [each for each in include if each not in (LOGPROBS_INCLUDE, ENCRYPTED_REASONING)]
    if other_values:
        extra["include"] = Raw(msgspec.json.encode(other_values))
    return True if LOGPROBS_INCLUDE in include else None
