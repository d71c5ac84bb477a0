"""What a request to /v1/messages means.

Source: https://docs.claude.com/en/api/messages and the types of anthropic-python 2.11, read 2026-11.
"""

import base64
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw

from providers.chat import (
    ChatRequest,
    Content,
    Effort,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    Reasoning,
    Seal,
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
from providers.dialects.anthropic_messages.blocks import read_input
from providers.dialects.anthropic_messages.seals import NAME, SOURCE, CallSeal, read_citation, read_redacted, read_seal, sealed
from providers.errors import Malformed
from providers.guided import JsonSchema
from providers.wire import NULL, UNREADABLE, Body

Object = dict[str, Raw]

_any = msgspec.json.Decoder()
_list = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Raw])
_object = msgspec.json.Decoder(Object)
_objects = msgspec.json.Decoder(list[Object])
_PLAIN = Raw(b'"text/plain"')

# Handled by the road, or none of the chat's business.
_CHOICES: Mapping[str, Literal["auto", "none", "required", "named"]] = {"auto": "auto", "none": "none", "any": "required", "tool": "named"}
_NOT_MEANT = frozenset({"stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"})


def read_request(body: Body) -> ChatRequest:
    """Raises Malformed for what open() lets pass and cannot be understood."""
    left = {key: value for key, value in body.items() if key not in _NOT_MEANT and value != NULL}
    try:
        return _Reading(left).request()
    except UNREADABLE as fault:
        raise Malformed(f"The body cannot be understood: {fault}.") from None


class _Reading:
    """One request: what is read is taken away, and what is left is `extra`, of an object by its path: `output_config.task_budget`."""

    def __init__(self, left: dict[str, Any]) -> None:
        self._left = left

    def request(self) -> ChatRequest:
        take = self._take
        output_config: Object = _object.decode(self._left.pop("output_config", Raw(b"{}")))
        output = self._format(output_config)
        thinking = self._thinking(output_config)
        self._left.update({f"output_config.{key}": value for key, value in _said(output_config).items()})
        user, metadata = self._metadata()
        choice, parallel = self._tool_choice()
        system = self._left.pop("system", None)
        messages = tuple(_read_message(each) for each in _objects.decode(self._left.pop("messages")))
        if system is not None:
            messages = (Message("system", _read_content(system)), *messages)
        return ChatRequest(
            origin=NAME,
            model=take("model"),
            messages=messages,
            tools=tuple(_read_tool(raw) for raw in _list.decode(self._left.pop("tools", Raw(b"[]")))),
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
            extra=self._left,
        )

    def _take(self, key: str) -> Any:
        value = self._left.pop(key, None)
        return _any.decode(value) if isinstance(value, Raw) else value

    def _metadata(self) -> tuple[str | None, dict[str, str] | None]:
        """Anthropic documents `user_id` alone. What others hold besides is the metadata of the chat where that can be said: texts."""
        said: Object = _object.decode(self._left.pop("metadata", Raw(b"{}")))
        user = _any.decode(said.pop("user_id", NULL))
        values = {key: _any.decode(value) for key, value in said.items()}
        if all(isinstance(value, str) for value in values.values()):
            return user, values or None
        self._left["metadata"] = Raw(msgspec.json.encode(said))
        return user, None

    def _thinking(self, output_config: Object) -> Thinking | None:
        """`display` omitted is a summary of that name. What a word of the meaning cannot say beside another stays where it was."""
        said: Object | None = _object.decode(self._left.pop("thinking")) if "thinking" in self._left else None
        kind = None if said is None else _any.decode(said.pop("type", NULL))
        if kind == "between_tools":
            self._left["thinking"] = Raw(msgspec.json.encode({"type": kind, **(said or {})}))
            said = None
        effort: Effort | None = None
        if kind == "disabled":
            effort = "none"
        elif output_config.get("effort", NULL) != NULL:
            effort = cast(Effort, _any.decode(output_config.pop("effort")))
        if said is None:
            return None if effort is None else Thinking(effort)
        display = _any.decode(said.pop("display", NULL))
        budget = _any.decode(said.pop("budget_tokens", NULL))
        self._left.update({f"thinking.{key}": value for key, value in _said(said).items()})
        return Thinking(effort, budget, kind == "adaptive", "auto" if display == "summarized" else display)

    def _tool_choice(self) -> tuple[ToolChoice | None, bool | None]:
        if "tool_choice" not in self._left:
            return None, None
        said = _object.decode(self._left.pop("tool_choice"))
        mode: str = _any.decode(said.pop("type"))
        disabled = _any.decode(said.pop("disable_parallel_tool_use", NULL))
        name = _any.decode(said.pop("name", NULL)) if mode == "tool" else None
        self._left.update({f"tool_choice.{key}": value for key, value in _said(said).items()})
        return ToolChoice(_CHOICES[mode], name), None if disabled is None else not disabled

    def _format(self, output_config: Object) -> JsonSchema | None:
        """`output_format` is the word of the time before output_config, which says nothing beside that."""
        older, newer = self._left.pop("output_format", NULL), output_config.pop("format", NULL)
        path, told = ("output_format", older) if newer == NULL else ("output_config.format", newer)
        if told == NULL:
            return None
        said = _object.decode(told)
        schema = said.pop("schema")
        self._left.update({f"{path}.{key}": value for key, value in _said(said).items() if key != "type"})
        return JsonSchema(schema)


def _read_tier(said: str | None) -> str | None:
    """In OpenAI's words; what neither has a word for stays as it is."""
    return "default" if said == "standard_only" else said


def _read_tool(raw: Raw) -> Tool | HostTool:
    left = _object.decode(raw)
    kind = _any.decode(left.pop("type", NULL))
    if kind not in (None, "custom"):
        return HostTool(NAME, kind, raw)
    name = _any.decode(left.pop("name"))
    description = _any.decode(left.pop("description", NULL))
    strict = _any.decode(left.pop("strict", NULL))
    return Tool(name, description, left.pop("input_schema"), strict, extra=_said(left))


def _read_message(left: Object) -> Message:
    role = _any.decode(left.pop("role"))
    parts = _read_content(left.pop("content"))
    return Message(role, parts, extra=_said(left))


def _said(left: Object) -> Object:
    return {key: value for key, value in left.items() if value != NULL}


def _read_content(raw: Raw) -> tuple[Content, ...]:
    content = _content.decode(raw)
    if isinstance(content, str):
        return (Text(content),)
    parts: list[Content] = []
    seals: dict[str, Seal] = {}
    for each in content:
        part = _read_block(each)
        if isinstance(part, CallSeal):
            seals[part.call] = Seal(part.origin, part.data)
        else:
            parts.append(part)
    return sealed(parts, seals)


def _read_block(raw: Raw) -> Content | CallSeal:
    left = _object.decode(raw)
    match _any.decode(left.pop("type")):
        case "text":
            text = _any.decode(left.pop("text"))
            citations = _list.decode(left.pop("citations", NULL) if left.get("citations", NULL) != NULL else Raw(b"[]"))
            return Text(text, tuple(read_citation(each) for each in citations), _said(left))
        case "thinking":
            thinking = _any.decode(left.pop("thinking"))
            signature = _any.decode(left.pop("signature", NULL))
            return Reasoning(thinking, read_seal(signature or ""), _said(left))
        case "redacted_thinking":
            return read_redacted(_any.decode(left["data"]), raw)
        case "tool_use":
            id, name = _any.decode(left.pop("id")), _any.decode(left.pop("name"))
            return ToolCall(id, name, read_input(left.pop("input")), extra=_said(left))
        case "tool_result":
            return _read_result(left)
        case "image":
            source, more = _read_source(left.pop("source"))
            return Opaque(NAME, raw) if source is None else Image(source, extra={**_said(left), **more})
        case "document":
            source, more = _read_source(left.pop("source"))
            title = _any.decode(left.pop("title", NULL))
            return Opaque(NAME, raw) if source is None else File(source, title, {**_said(left), **more})
        case _:
            return Opaque(NAME, raw)


def _read_result(left: Object) -> ToolResult:
    id = _any.decode(left.pop("tool_use_id"))
    content = left.pop("content", NULL)
    is_error = _any.decode(left.pop("is_error", NULL))
    parts = () if content == NULL else _read_content(content)
    # open() lets pass no others.
    held = tuple(part for part in parts if isinstance(part, Text | Image | File | Opaque))
    return ToolResult(id, held, is_error, extra=_said(left))


def _read_source(raw: Raw) -> tuple[Source | None, Object]:
    """And what it says beside, by its path in the block. None for a document made of blocks, which no other dialect has."""
    left = _object.decode(raw)

    def take(key: str) -> Any:
        return _any.decode(left.pop(key))

    source: Source
    match take("type"):
        case "base64":
            source = Inline(take("media_type"), take("data"))
        case "text":
            if left.get("media_type") == _PLAIN:
                del left["media_type"]
            source = Inline("text/plain", base64.b64encode(take("data").encode()).decode())
        case "url":
            source = Url(take("url"))
        case "file":
            source = Uploaded(NAME, take("file_id"))
        case _:
            return None, {}
    return source, {f"{SOURCE}{key}": value for key, value in _said(left).items()}
