"""A request to /v1/messages as a canonical chat.

Source: https://docs.claude.com/en/api/messages and the types of anthropic-python 2.11, read 2026-11.
"""

import base64
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw

from providers.canonical.chat import (
    ChatRequest,
    Content,
    Effort,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Reasoning,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Uploaded,
    Url,
)
from providers.canonical.errors import InvalidRequest
from providers.canonical.output_format import JsonSchema
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.tool_calls import read_arguments
from providers.dialects.anthropic_messages.citations import read_citation
from providers.dialects.anthropic_messages.opaque_states import (
    NAME,
    SOURCE_PREFIX,
    CallState,
    attach_call_states,
    read_redacted,
    read_signature,
)
from providers.host_tools import mark_offered_search

Object = dict[str, Raw]

_any = msgspec.json.Decoder()
_list = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Raw])
_object = msgspec.json.Decoder(Object)
_objects = msgspec.json.Decoder(list[Object])
_TEXT_PLAIN = Raw(b'"text/plain"')

_TOOL_CHOICE_MODES: Mapping[str, Literal["auto", "none", "required", "named"]] = {
    "auto": "auto",
    "none": "none",
    "any": "required",
    "tool": "named",
}
# Fields that the gateway handles itself.
_GATEWAY_FIELDS = frozenset({"stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"})


def read_request(body: Body) -> ChatRequest:
    """Raises InvalidRequest for a body that parse_request() accepted and that still cannot be read."""
    fields = {key: value for key, value in body.items() if key not in _GATEWAY_FIELDS and value != NULL}
    try:
        return _RequestReader(fields).read()
    except DECODE_ERRORS as decode_error:
        raise InvalidRequest(f"The body cannot be understood: {decode_error}.") from None


class _RequestReader:
    """Reads one request. Each field that is read is removed; the remaining ones are `extra`, in objects by path (`output_config.x`)."""

    def __init__(self, remaining: dict[str, Any]) -> None:
        self._remaining = remaining

    def read(self) -> ChatRequest:
        take = self._take
        output_config: Object = _object.decode(self._remaining.pop("output_config", Raw(b"{}")))
        output = self._output_format(output_config)
        thinking = self._thinking(output_config)
        self._remaining.update({f"output_config.{key}": value for key, value in _without_nulls(output_config).items()})
        user, metadata = self._metadata()
        choice, parallel = self._tool_choice()
        system = self._remaining.pop("system", None)
        messages = tuple(_read_message(each) for each in _objects.decode(self._remaining.pop("messages")))
        if system is not None:
            messages = (Message("system", _read_content(system)), *messages)
        return ChatRequest(
            origin=NAME,
            model=take("model"),
            messages=messages,
            tools=_read_tools(self._remaining.pop("tools", Raw(b"[]")), choice),
            tool_choice=choice,
            parallel_calls=parallel,
            output=output,
            thinking=thinking,
            max_tokens=take("max_tokens"),
            temperature=take("temperature"),
            top_p=take("top_p"),
            top_k=take("top_k"),
            stop=tuple(take("stop_sequences") or ()),
            user=user,
            metadata=metadata,
            service_tier=_read_tier(take("service_tier")),
            extra=self._remaining,
        )

    def _take(self, key: str) -> Any:
        value = self._remaining.pop(key, None)
        return _any.decode(value) if isinstance(value, Raw) else value

    def _metadata(self) -> tuple[str | None, dict[str, str] | None]:
        """The user, and the metadata of the chat, which are strings. Anthropic documents only `user_id`; other values stay in `extra`."""
        fields: Object = _object.decode(self._remaining.pop("metadata", Raw(b"{}")))
        user = _any.decode(fields.pop("user_id", NULL))
        values = {key: _any.decode(value) for key, value in fields.items()}
        if all(isinstance(value, str) for value in values.values()):
            return user, values or None
        self._remaining["metadata"] = Raw(msgspec.json.encode(fields))
        return user, None

    def _thinking(self, output_config: Object) -> Thinking | None:
        """Reads `thinking`, whose `display` becomes the summary. Types that Thinking cannot express stay in `extra`."""
        fields: Object | None = _object.decode(self._remaining.pop("thinking")) if "thinking" in self._remaining else None
        thinking_type = None if fields is None else _any.decode(fields.pop("type", NULL))
        effort: Effort | None = None
        if thinking_type in ("disabled", "between_tools"):
            effort = "none"
        elif output_config.get("effort", NULL) != NULL:
            effort = cast(Effort, _any.decode(output_config.pop("effort")))
        if fields is None:
            return None if effort is None else Thinking(effort)
        display = _any.decode(fields.pop("display", NULL))
        budget = _any.decode(fields.pop("budget_tokens", NULL))
        self._remaining.update({f"thinking.{key}": value for key, value in _without_nulls(fields).items()})
        summary = "auto" if display == "summarized" else display
        return Thinking(effort, budget, thinking_type == "adaptive", summary, thinking_type == "between_tools")

    def _tool_choice(self) -> tuple[ToolChoice | None, bool | None]:
        if "tool_choice" not in self._remaining:
            return None, None
        fields = _object.decode(self._remaining.pop("tool_choice"))
        mode: str = _any.decode(fields.pop("type"))
        disabled = _any.decode(fields.pop("disable_parallel_tool_use", NULL))
        name = _any.decode(fields.pop("name", NULL)) if mode == "tool" else None
        self._remaining.update({f"tool_choice.{key}": value for key, value in _without_nulls(fields).items()})
        return ToolChoice(_TOOL_CHOICE_MODES[mode], name), None if disabled is None else not disabled

    def _output_format(self, output_config: Object) -> JsonSchema | None:
        """Reads the output format. The field `output_format` is the older one, which is ignored beside output_config.format."""
        older, newer = self._remaining.pop("output_format", NULL), output_config.pop("format", NULL)
        path, raw_format = ("output_format", older) if newer == NULL else ("output_config.format", newer)
        if raw_format == NULL:
            return None
        fields = _object.decode(raw_format)
        schema = fields.pop("schema")
        self._remaining.update({f"{path}.{key}": value for key, value in _without_nulls(fields).items() if key != "type"})
        return JsonSchema(schema)


def _read_tier(tier: str | None) -> str | None:
    """The tier in OpenAI's names; one that OpenAI does not have stays as it is."""
    return "default" if tier == "standard_only" else tier


def _read_tools(raw: Raw, choice: ToolChoice | None) -> tuple[Tool | HostTool, ...]:
    tools = tuple(map(_read_tool, _list.decode(raw)))
    names_host_tool = (
        choice is not None and choice.name is not None and all(choice.name != each.name for each in tools if isinstance(each, Tool))
    )
    return tools if names_host_tool else mark_offered_search(tools)


def _read_tool(raw: Raw) -> Tool | HostTool:
    remaining = _object.decode(raw)
    kind = _any.decode(remaining.pop("type", NULL))
    if kind not in (None, "custom"):
        return HostTool(NAME, kind, raw)
    name = _any.decode(remaining.pop("name"))
    description = _any.decode(remaining.pop("description", NULL))
    strict = _any.decode(remaining.pop("strict", NULL))
    return Tool(name, description, remaining.pop("input_schema"), strict, extra=_without_nulls(remaining))


def _read_message(remaining: Object) -> Message:
    role = _any.decode(remaining.pop("role"))
    parts = _read_content(remaining.pop("content"))
    return Message(role, parts, extra=_without_nulls(remaining))


def _without_nulls(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value != NULL}


def _read_content(raw: Raw) -> tuple[Content, ...]:
    content = _content.decode(raw)
    if isinstance(content, str):
        return (Text(content),)
    parts: list[Content] = []
    call_states: dict[str, OpaqueState] = {}
    for each in content:
        part = _read_block(each)
        if isinstance(part, CallState):
            call_states[part.call_id] = OpaqueState(part.origin, part.data)
        else:
            parts.append(part)
    return attach_call_states(parts, call_states)


def _read_block(raw: Raw) -> Content | CallState:
    remaining = _object.decode(raw)
    match _any.decode(remaining.pop("type")):
        case "text":
            text = _any.decode(remaining.pop("text"))
            citations = _list.decode(remaining.pop("citations", NULL) if remaining.get("citations", NULL) != NULL else Raw(b"[]"))
            return Text(text, tuple(read_citation(each) for each in citations), _without_nulls(remaining))
        case "thinking":
            thinking = _any.decode(remaining.pop("thinking"))
            signature = _any.decode(remaining.pop("signature", NULL))
            return Reasoning(thinking, read_signature(signature or ""), _without_nulls(remaining))
        case "redacted_thinking":
            return read_redacted(_any.decode(remaining["data"]), raw)
        case "tool_use":
            id, name = _any.decode(remaining.pop("id")), _any.decode(remaining.pop("name"))
            return ToolCall(id, name, read_arguments(remaining.pop("input")), extra=_without_nulls(remaining))
        case "tool_result":
            return _read_result(remaining)
        case "image":
            source, source_extra = _read_source(remaining.pop("source"))
            return Opaque(NAME, raw) if source is None else Image(source, extra={**_without_nulls(remaining), **source_extra})
        case "document":
            source, source_extra = _read_source(remaining.pop("source"))
            title = _any.decode(remaining.pop("title", NULL))
            return Opaque(NAME, raw) if source is None else File(source, title, {**_without_nulls(remaining), **source_extra})
        case _:
            return Opaque(NAME, raw)


def _read_result(remaining: Object) -> ToolResult:
    id = _any.decode(remaining.pop("tool_use_id"))
    content = remaining.pop("content", NULL)
    is_error = _any.decode(remaining.pop("is_error", NULL))
    parts = () if content == NULL else _read_content(content)
    # parse_request() accepts no others.
    result_parts = tuple(part for part in parts if isinstance(part, Text | Image | File | Opaque))
    return ToolResult(id, result_parts, is_error, extra=_without_nulls(remaining))


def _read_source(raw: Raw) -> tuple[Source | None, Object]:
    """The source and its other fields, by path in the block. None for a document made of blocks, which no other dialect has."""
    remaining = _object.decode(raw)

    def take(key: str) -> Any:
        return _any.decode(remaining.pop(key))

    source: Source
    match take("type"):
        case "base64":
            source = Inline(take("media_type"), take("data"))
        case "text":
            if remaining.get("media_type") == _TEXT_PLAIN:
                del remaining["media_type"]
            source = Inline("text/plain", base64.b64encode(take("data").encode()).decode())
        case "url":
            source = Url(take("url"))
        case "file":
            source = Uploaded(NAME, take("file_id"))
        case _:
            return None, {}
    return source, {f"{SOURCE_PREFIX}{key}": value for key, value in _without_nulls(remaining).items()}
