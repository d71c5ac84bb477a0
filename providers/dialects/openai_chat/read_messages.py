"""Reads the messages of a chat request."""

from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import (
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
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import read_extra_fields
from providers.canonical.media import read_url
from providers.canonical.raw_json import NULL
from providers.dialects.openai.file_host import FILE_HOST
from providers.dialects.openai_chat.citations import read_annotations
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.merge_parts import merge_parts
from providers.dialects.openai_chat.read_reasoning_details import read_details
from providers.dialects.openai_chat.response_schema import Function, WireToolCall
from providers.dialects.openai_chat.tool_calls import read_tool_call

_messages_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_calls_decoder = msgspec.json.Decoder(list[WireToolCall])
_call_fields_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_function_decoder = msgspec.json.Decoder(Function)
_object_decoder = msgspec.json.Decoder(dict[str, Raw])
_content_decoder = msgspec.json.Decoder(str | list[dict[str, Raw]])
_decode = msgspec.json.decode

_MESSAGE_FIELDS = frozenset({"role", "content", "name"})
_ASSISTANT_FIELDS = _MESSAGE_FIELDS | {
    *("refusal", "tool_calls", "function_call", "annotations"),
    *("reasoning_content", "reasoning", "reasoning_details"),
}
# The name of a tool result repeats that of its call.
_TOOL_RESULT_FIELDS = frozenset({"role", "content", "tool_call_id", "name"})
_CALL_FIELDS = frozenset({"id", "type", "function", "custom", "extra_content", "index"})
_NESTED_CALL_FIELDS = (("function", ("name", "arguments")), ("custom", ("name", "input")))


def read_messages(messages: Any) -> tuple[Message, ...]:
    """The canonical messages. Neighbouring tool results become one user message."""
    reader = _MessageReader()
    decoded = _messages_decoder.decode(messages if isinstance(messages, Raw) else msgspec.json.encode(messages))
    for at, message in enumerate(decoded):
        reader.read_message(at, {key: value for key, value in message.items() if value != NULL})
    return tuple(reader.messages)


class _MessageReader:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._pending_results: list[ToolResult] = []
        self._custom_call_ids: set[str] = set()
        # Function name -> the id that we gave its call: OpenAI's older `function_call` has no ids.
        self._function_call_ids: dict[str, str] = {}

    def read_message(self, at: int, fields: dict[str, Raw]) -> None:
        path = f"messages[{at}]"
        role = _decode(fields["role"])
        if role in ("tool", "function"):
            result = self._read_result(fields, path)
            if self._pending_results:
                self.messages.pop()
            self._pending_results.append(result)
            self.messages.append(Message("user", tuple(self._pending_results)))
            return
        self._pending_results = []
        if role == "assistant":
            self.messages.append(self._read_assistant(at, fields, path))
        elif role in ("system", "developer", "user"):
            extra = {key: value for key, value in fields.items() if key not in _MESSAGE_FIELDS}
            self.messages.append(Message(role, read_content(fields.get("content"), path), _decode_text(fields.get("name")), extra))
        else:
            raise InvalidRequest(f"`{path}.role` cannot be {role!r:.40}: system, developer, user, assistant or tool.", param=f"{path}.role")

    def _read_result(self, fields: dict[str, Raw], path: str) -> ToolResult:
        id = _decode_text(fields.get("tool_call_id")) or self._function_call_ids.get(_decode_text(fields.get("name")) or "")
        if not id:
            raise InvalidRequest(f"`{path}.tool_call_id` must name the call that this is the result of.", param=f"{path}.tool_call_id")
        parts: list[Text | Image | File | Opaque] = []
        for part in read_content(fields.get("content"), path):
            if not isinstance(part, Text | Image | File | Opaque):
                raise InvalidRequest(f"`{path}.content` of a tool holds text, images and files.", param=f"{path}.content")
            parts.append(part)
        extra = {key: value for key, value in fields.items() if key not in _TOOL_RESULT_FIELDS}
        return ToolResult(id, tuple(parts), custom=id in self._custom_call_ids, extra=extra)

    def _read_assistant(self, at: int, fields: dict[str, Raw], path: str) -> Message:
        details = read_details(fields.get("reasoning_details", NULL))
        leading_parts: list[Content] = []
        texts: list[Text] = []
        other_parts: list[Refusal | ToolCall] = []
        reasoning = _decode_text(fields.get("reasoning_content")) or _decode_text(fields.get("reasoning"))
        if reasoning and not any(isinstance(detail.part, Reasoning) and detail.part.text for detail in details):
            leading_parts.append(Reasoning(reasoning))
        for part in read_content(fields.get("content"), path):
            match part:
                case Text():
                    texts.append(part)
                case Refusal() | ToolCall():
                    other_parts.append(part)
                case _:
                    leading_parts.append(part)
        annotations = read_annotations(fields.get("annotations", NULL))
        if annotations and texts:
            texts[-1] = replace(texts[-1], citations=tuple(annotations))
        refusal = _decode_text(fields.get("refusal"))
        if refusal:
            other_parts.append(Refusal(refusal))
        other_parts += self._read_calls(at, fields)
        self._custom_call_ids |= {call.id for call in other_parts if isinstance(call, ToolCall) and call.custom}
        extra = {key: value for key, value in fields.items() if key not in _ASSISTANT_FIELDS}
        return Message("assistant", (*leading_parts, *merge_parts(details, texts, other_parts)), _decode_text(fields.get("name")), extra)

    def _read_calls(self, at: int, fields: dict[str, Raw]) -> list[ToolCall]:
        calls: list[ToolCall] = []
        if "tool_calls" in fields:
            keys = _call_fields_decoder.decode(fields["tool_calls"])
            for number, (call, call_fields) in enumerate(zip(_calls_decoder.decode(fields["tool_calls"]), keys, strict=True)):
                call.id = call.id or f"call_{at}_{number}"
                extra = {key: value for key, value in call_fields.items() if key not in _CALL_FIELDS and value != NULL}
                for kind, known in _NESTED_CALL_FIELDS:
                    if call_fields.get(kind, NULL) != NULL:
                        extra |= read_extra_fields(_object_decoder.decode(call_fields[kind]), kind, *known)
                calls.append(replace(read_tool_call(call), extra=extra))
        if "function_call" in fields:
            function = _function_decoder.decode(fields["function_call"])
            function_extra = read_extra_fields(_object_decoder.decode(fields["function_call"]), "function", "name", "arguments")
            call = replace(read_tool_call(WireToolCall(id=f"call_{at}", function=function)), extra=function_extra)
            self._function_call_ids[call.name] = call.id
            calls.append(call)
        return calls


def _decode_text(raw: Raw | None) -> str | None:
    return None if raw is None else _decode(raw)


def read_content(raw: Raw | None, path: str) -> tuple[Content, ...]:
    if raw is None:
        return ()
    content = _content_decoder.decode(raw)
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_read_part(part, f"{path}.content[{at}]") for at, part in enumerate(content))


def _read_part(fields: dict[str, Raw], path: str) -> Content:
    """A part. Types that only some engines know (video_url, ...) stay as they are."""
    kind = _decode(fields["type"])
    extra = {key: value for key, value in fields.items() if key not in ("type", kind) and value != NULL}
    inner = fields.get(kind, NULL)
    if inner == NULL:
        return Opaque(DIALECT, Raw(msgspec.json.encode(fields)))
    match kind:
        case "text":
            return Text(_decode(inner), extra=extra)
        case "refusal":
            return Refusal(_decode(inner))
        case "image_url":
            return _read_image(_decode(inner), extra, path)
        case "file":
            return _read_file(_decode(inner), extra, path)
        case "input_audio":
            return _read_audio(_decode(inner), extra)
        case _:
            return Opaque(DIALECT, Raw(msgspec.json.encode(fields)))


def _read_image(image: Any, extra: dict[str, Raw], path: str) -> Image | File:
    """An image, or a document: some clients send documents as images, because some hosts accept that."""
    image = {"url": image} if isinstance(image, str) else image
    source = read_url(image["url"])
    if isinstance(source, Inline) and source.media_type in ("application/pdf", "text/plain"):
        return File(source, extra=extra | read_extra_fields(image, "image_url", "url"))
    if isinstance(source, Inline) and not source.media_type.startswith("image/"):
        raise InvalidRequest(f"`{path}.image_url` holds {source.media_type}, which is no image.", param=f"{path}.image_url")
    return Image(source, image.get("detail"), extra | read_extra_fields(image, "image_url", "url", "detail"))


def _read_file(file: dict[str, Any], extra: dict[str, Raw], path: str) -> File:
    """A file. `file_data` is a data URL, or for OpenRouter any URL. Plain base64 is a PDF, the only type that OpenAI reads."""
    data, id, name = file.get("file_data"), file.get("file_id"), file.get("filename")
    extra |= read_extra_fields(file, "file", "file_data", "file_id", "filename")
    if data and id:
        raise InvalidRequest(f"`{path}.file` has `file_data` and `file_id`: send one of them.", param=f"{path}.file.file_id")
    if data:
        source = read_url(data) if ":" in data[:16] else Inline("application/pdf", data)
        return File(source, name, extra)
    if id:
        return File(Uploaded(FILE_HOST, id), name, extra)
    raise InvalidRequest(f"`{path}.file` must have `file_data` or `file_id`.", param=f"{path}.file")


def _read_audio(audio: dict[str, Any], extra: dict[str, Raw]) -> Audio:
    source = (
        read_url(audio["data"]) if audio["data"].startswith("data:") else Inline(f"audio/{audio.get('format') or 'wav'}", audio["data"])
    )
    return Audio(source, extra | read_extra_fields(audio, "input_audio", "data", "format"))
