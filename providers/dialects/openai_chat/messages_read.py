"""Messages of a request in OpenAI chat as meaning."""

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.chat import (
    Audio,
    Content,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Uploaded,
)
from providers.dialects.openai_chat.calls import read_call
from providers.dialects.openai_chat.citations import read_annotations
from providers.dialects.openai_chat.details import put_together, read_details
from providers.dialects.openai_chat.shapes import Call, Function
from providers.errors import Malformed
from providers.media import read_url
from providers.rest import rest_of
from providers.wire import NULL

NAME = "openai_chat"
# Who keeps files that were uploaded for chat.
_HOST = "openai"

_messages = msgspec.json.Decoder(list[dict[str, Raw]])
_calls = msgspec.json.Decoder(list[Call])
_call_keys = msgspec.json.Decoder(list[dict[str, Raw]])
_function = msgspec.json.Decoder(Function)
_object = msgspec.json.Decoder(dict[str, Raw])
_parts = msgspec.json.Decoder(str | list[dict[str, Raw]])
_any = msgspec.json.decode

_KNOWN = frozenset({"role", "content", "name"})
_KNOWN_OF_ASSISTANT = _KNOWN | {
    *("refusal", "tool_calls", "function_call", "annotations"),
    *("reasoning_content", "reasoning", "reasoning_details"),
}
# The name of a result is that of its call.
_KNOWN_OF_TOOL = frozenset({"role", "content", "tool_call_id", "name"})
_KNOWN_OF_CALL = frozenset({"id", "type", "function", "custom", "extra_content", "index"})
_KNOWN_IN_CALL = (("function", ("name", "arguments")), ("custom", ("name", "input")))


def read_messages(said: Any) -> tuple[Message, ...]:
    """Results of tools that follow one another are one message of the user's."""
    reading = _Reading()
    told = _messages.decode(said if isinstance(said, Raw) else msgspec.json.encode(said))
    for at, message in enumerate(told):
        reading.read(at, {key: value for key, value in message.items() if value != NULL})
    return tuple(reading.messages)


class _Reading:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._results: list[ToolResult] = []
        self._custom: set[str] = set()
        # By the name of a function that was called in OpenAI's first way, which has no ids, the id that we gave the call.
        self._unnamed: dict[str, str] = {}

    def read(self, at: int, told: dict[str, Raw]) -> None:
        path = f"messages[{at}]"
        role = _any(told["role"])
        if role in ("tool", "function"):
            result = self._result(told, path)
            if self._results:
                self.messages.pop()
            self._results.append(result)
            self.messages.append(Message("user", tuple(self._results)))
            return
        self._results = []
        if role == "assistant":
            self.messages.append(self._assistant(at, told, path))
        elif role in ("system", "developer", "user"):
            extra = {key: value for key, value in told.items() if key not in _KNOWN}
            self.messages.append(Message(role, read_content(told.get("content"), path), _text(told.get("name")), extra))
        else:
            raise Malformed(f"`{path}.role` cannot be {role!r:.40}: system, developer, user, assistant or tool.", param=f"{path}.role")

    def _result(self, told: dict[str, Raw], path: str) -> ToolResult:
        id = _text(told.get("tool_call_id")) or self._unnamed.get(_text(told.get("name")) or "")
        if not id:
            raise Malformed(f"`{path}.tool_call_id` must name the call that this is the result of.", param=f"{path}.tool_call_id")
        parts: list[Text | Image | File | Opaque] = []
        for part in read_content(told.get("content"), path):
            if not isinstance(part, Text | Image | File | Opaque):
                raise Malformed(f"`{path}.content` of a tool holds text, images and files.", param=f"{path}.content")
            parts.append(part)
        extra = {key: value for key, value in told.items() if key not in _KNOWN_OF_TOOL}
        return ToolResult(id, tuple(parts), custom=id in self._custom, extra=extra)

    def _assistant(self, at: int, told: dict[str, Raw], path: str) -> Message:
        details = read_details(told.get("reasoning_details", NULL))
        thoughts: list[Content] = []
        texts: list[Text] = []
        rest: list[Refusal | ToolCall] = []
        reasoning = _text(told.get("reasoning_content")) or _text(told.get("reasoning"))
        if reasoning and not any(isinstance(detail.part, Reasoning) and detail.part.text for detail in details):
            thoughts.append(Reasoning(reasoning))
        for part in read_content(told.get("content"), path):
            match part:
                case Text():
                    texts.append(part)
                case Refusal() | ToolCall():
                    rest.append(part)
                case _:
                    thoughts.append(part)
        annotations = read_annotations(told.get("annotations", NULL))
        if annotations and texts:
            texts[-1] = replace(texts[-1], citations=tuple(annotations))
        refusal = _text(told.get("refusal"))
        if refusal:
            rest.append(Refusal(refusal))
        rest += self._calls_of(at, told)
        self._custom |= {call.id for call in rest if isinstance(call, ToolCall) and call.custom}
        extra = {key: value for key, value in told.items() if key not in _KNOWN_OF_ASSISTANT}
        return Message("assistant", (*thoughts, *put_together(details, texts, rest)), _text(told.get("name")), extra)

    def _calls_of(self, at: int, told: dict[str, Raw]) -> list[ToolCall]:
        made: list[ToolCall] = []
        if "tool_calls" in told:
            keys = _call_keys.decode(told["tool_calls"])
            for number, (call, said) in enumerate(zip(_calls.decode(told["tool_calls"]), keys, strict=True)):
                call.id = call.id or f"call_{at}_{number}"
                extra = {key: value for key, value in said.items() if key not in _KNOWN_OF_CALL and value != NULL}
                for kind, known in _KNOWN_IN_CALL:
                    if said.get(kind, NULL) != NULL:
                        extra |= rest_of(_object.decode(said[kind]), kind, *known)
                made.append(replace(read_call(call), extra=extra))
        if "function_call" in told:
            function = _function.decode(told["function_call"])
            more = rest_of(_object.decode(told["function_call"]), "function", "name", "arguments")
            call = replace(read_call(Call(id=f"call_{at}", function=function)), extra=more)
            self._unnamed[call.name] = call.id
            made.append(call)
        return made


def _text(raw: Raw | None) -> str | None:
    return None if raw is None else _any(raw)


def read_content(raw: Raw | None, path: str) -> tuple[Content, ...]:
    if raw is None:
        return ()
    told = _parts.decode(raw)
    if isinstance(told, str):
        return (Text(told),)
    return tuple(_part(part, f"{path}.content[{at}]") for at, part in enumerate(told))


def _part(told: dict[str, Raw], path: str) -> Content:
    """A kind that only some engines know (video_url, ...) stays as it is."""
    kind = _any(told["type"])
    extra = {key: value for key, value in told.items() if key not in ("type", kind) and value != NULL}
    inner = told.get(kind, NULL)
    if inner == NULL:
        return Opaque(NAME, Raw(msgspec.json.encode(told)))
    match kind:
        case "text":
            return Text(_any(inner), extra=extra)
        case "refusal":
            return Refusal(_any(inner))
        case "image_url":
            return _image(_any(inner), extra, path)
        case "file":
            return _file(_any(inner), extra, path)
        case "input_audio":
            return _audio(_any(inner), extra)
        case _:
            return Opaque(NAME, Raw(msgspec.json.encode(told)))


def _image(said: Any, extra: dict[str, Raw], path: str) -> Image | File:
    """Some clients send documents so, because some hosts take them so."""
    said = {"url": said} if isinstance(said, str) else said
    source = read_url(said["url"])
    if isinstance(source, Inline) and source.media_type in ("application/pdf", "text/plain"):
        return File(source, extra=extra | rest_of(said, "image_url", "url"))
    if isinstance(source, Inline) and not source.media_type.startswith("image/"):
        raise Malformed(f"`{path}.image_url` holds {source.media_type}, which is no image.", param=f"{path}.image_url")
    return Image(source, said.get("detail"), extra | rest_of(said, "image_url", "url", "detail"))


def _file(said: dict[str, Any], extra: dict[str, Raw], path: str) -> File:
    """`file_data` is a data URL, or for OpenRouter an address. Mere base64 is a PDF, the one kind that OpenAI reads."""
    data, id, name = said.get("file_data"), said.get("file_id"), said.get("filename")
    extra |= rest_of(said, "file", "file_data", "file_id", "filename")
    if data and id:
        raise Malformed(f"`{path}.file` has `file_data` and `file_id`: send one of them.", param=f"{path}.file.file_id")
    if data:
        source = read_url(data) if ":" in data[:16] else Inline("application/pdf", data)
        return File(source, name, extra)
    if id:
        return File(Uploaded(_HOST, id), name, extra)
    raise Malformed(f"`{path}.file` must have `file_data` or `file_id`.", param=f"{path}.file")


def _audio(said: dict[str, Any], extra: dict[str, Raw]) -> Audio:
    source = read_url(said["data"]) if said["data"].startswith("data:") else Inline(f"audio/{said.get('format') or 'wav'}", said["data"])
    return Audio(source, extra | rest_of(said, "input_audio", "data", "format"))
