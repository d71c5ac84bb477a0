"""Writes canonical messages as messages of a chat request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never, cast

from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Content,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Uploaded,
    Url,
)
from providers.canonical.extra_fields import write_extra_field
from providers.canonical.media import write_url
from providers.canonical.opaque_parts import SEARCH_KINDS, opaque_kind
from providers.dialects.openai.file_host import FILE_HOST
from providers.dialects.openai_chat.citations import write_annotation
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.tool_calls import write_tool_call
from providers.dialects.openai_chat.write_reasoning_details import write_details
from providers.drop_policy import DropPolicy

_PREFILL_DIALECT = "anthropic_messages"
_CACHE_CONTROL = "cache_control"
# Blocks of other dialects with reasoning that only they can read.
_REASONING_BLOCK_TYPES = (b'"redacted_thinking"', b'"reasoning"', b'"redactedContent"', b'"reasoning.encrypted"')


def write_messages(chat: ChatRequest, drop_policy: DropPolicy) -> list[dict[str, Any]]:
    writer = _MessageWriter(chat.origin == DIALECT, "part" in chat.cache_marks, drop_policy)
    for at, message in enumerate(chat.messages):
        writer.write_message(message, f"messages[{at}]")
    if chat.origin == _PREFILL_DIALECT and not chat.continues and chat.messages and _is_prefill(chat.messages[-1]):
        drop_policy.drop_hint("prefill")
    return writer.messages


def _is_prefill(message: Message) -> bool:
    """Whether the last message is the start of a response, for the target to continue. Chat treats it as an earlier response."""
    kinds = {type(part) for part in message.parts}
    return message.role == "assistant" and Text in kinds and ToolCall not in kinds


def join_texts(content: Any) -> Any:
    """The content as a string, if it is texts alone: DeepSeek and others take no lists there. Anything else as it is.

    Several texts of a result come from MCP tools and from subagents of Claude Code, each of its own: a line break parts them.
    """
    if not isinstance(content, list):
        return content
    parts = cast("list[Any]", content)
    if not all(isinstance(part, dict) and part.keys() == {"type", "text"} for part in parts):
        return parts
    return "\n".join(part["text"] for part in parts)


def _mark_last_text(content: Any, mark: Raw) -> list[Any] | None:
    """The content of a result with its mark in the last text, as chat has none beside the content. None: there is no text."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[Any]", content)
    if not parts or not parts[-1].get("text"):
        return None
    return [*parts[:-1], {**parts[-1], _CACHE_CONTROL: mark}]


class _MessageWriter:
    def __init__(self, same_dialect: bool, writes_marks: bool, drop_policy: DropPolicy) -> None:
        self.messages: list[dict[str, Any]] = []
        self._same_dialect = same_dialect
        self._writes_marks = writes_marks and not same_dialect
        self._drop_policy = drop_policy

    def write_message(self, message: Message, path: str) -> None:
        if message.role == "assistant":
            self.messages.append(self._write_assistant(message, path))
            return
        media_parts: list[Any] = []
        results = [(at, part) for at, part in enumerate(message.parts) if isinstance(part, ToolResult)]
        for at, result in results:
            self.messages.append(self._write_result(result, f"{path}.content[{at}]", media_parts))
        other_parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if results and not other_parts and not media_parts:
            self._write_extra(message.extra, path, {})
            return
        written: dict[str, Any] = {"role": message.role}
        content = self._write_content(enumerate(message.parts), path)
        written["content"] = (
            [*media_parts, *([{"type": "text", "text": content}] if isinstance(content, str) else content)] if media_parts else content
        )
        if message.name is not None:
            written["name"] = message.name
        self._write_extra(message.extra, path, written)
        self.messages.append(written)

    def _write_result(self, result: ToolResult, path: str, media_parts: list[Any]) -> dict[str, Any]:
        """A tool message. Chat accepts only text in it: media go to `media_parts`, for a user message behind it that names the call."""
        result_parts: list[tuple[int, Content]] = []
        for at, part in enumerate(result.parts):
            if isinstance(part, Text) or self._same_dialect:
                result_parts.append((at, part))
                continue
            media_part = self._write_part(part, f"{path}.content[{at}]")
            if media_part is not None:
                media_parts += [{"type": "text", "text": f"From the result of tool call {result.id}:"}, media_part]
        if not result_parts and result.parts:
            result_parts.append((0, Text("The result follows in the next user message.")))
        if result.is_error is not None:
            self._drop_policy.drop_hint(f"{path}.is_error")
        content = self._write_content(result_parts, path)
        tool_message: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": result.id,
            "content": content if self._same_dialect else join_texts(content),
        }
        extra = result.extra
        if self._has_mark(extra) and (content := _mark_last_text(tool_message["content"], extra[_CACHE_CONTROL])) is not None:
            tool_message["content"] = content
            extra = {key: value for key, value in extra.items() if key != _CACHE_CONTROL}
        self._write_extra(extra, path, tool_message)
        return tool_message

    def _has_mark(self, extra: Mapping[str, Raw]) -> bool:
        """Whether these fields hold a mark of a cache that the target reads in a text."""
        return self._writes_marks and _CACHE_CONTROL in extra

    def _write_assistant(self, message: Message, path: str) -> dict[str, Any]:
        portable = ((at, self._without_foreign_state(part, f"{path}.content[{at}]")) for at, part in enumerate(message.parts))
        indexed_parts = [(at, part) for at, part in portable if part is not None]
        parts = [part for _, part in indexed_parts]
        written: dict[str, Any] = {"role": "assistant", "content": None}
        content = [(at, part) for at, part in indexed_parts if not isinstance(part, Reasoning | ToolCall | Opaque | Refusal)]
        if content:
            written["content"] = self._write_content(content, path, from_assistant=True)
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        if reasoning:
            written["reasoning_content"] = reasoning
        response_parts = [part for part in parts if isinstance(part, Part)]
        details = write_details((part, len(part.text) if isinstance(part, Text) else 0) for part in response_parts)
        if details:
            written["reasoning_details"] = details
        refusal = "".join(part.text for part in parts if isinstance(part, Refusal))
        if refusal:
            written["refusal"] = refusal
        annotations = self._write_annotations(indexed_parts, path)
        if annotations:
            written["annotations"] = annotations
        calls = [
            self._write_extra(part.extra, f"{path}.content[{at}]", write_tool_call(part), from_assistant=True)
            for at, part in indexed_parts
            if isinstance(part, ToolCall)
        ]
        if calls:
            written["tool_calls"] = calls
        if message.name is not None:
            written["name"] = message.name
        return self._write_extra(message.extra, path, written, from_assistant=True)

    def _without_foreign_state(self, part: Content, path: str) -> Content | None:
        """The part without signatures and blocks of other dialects, which mean nothing to this engine. None if nothing is left."""
        match part:
            case Reasoning() | ToolCall() if part.opaque_state is not None and part.opaque_state.origin != DIALECT:
                self._drop_policy.drop_hint("reasoning.signature")
                return (
                    None
                    if isinstance(part, Reasoning) and not part.text
                    else self._without_foreign_state(replace(part, opaque_state=None), path)
                )
            case Reasoning() if part.extra and not self._same_dialect:
                self._write_extra(part.extra, path, {}, from_assistant=True)
                return replace(part, extra={})
            case Opaque() if part.origin != DIALECT:
                self._drop_foreign_block(part, path)
                return None
            case _:
                return part

    def _drop_foreign_block(self, part: Opaque, path: str) -> None:
        if any(block_type in bytes(part.raw) for block_type in _REASONING_BLOCK_TYPES):
            self._drop_policy.drop_hint("reasoning.signature")
        elif opaque_kind(part.raw) in SEARCH_KINDS:
            self._drop_policy.drop_hint(path)
        else:
            self._drop_policy.drop_or_refuse(path, f"it is a block that only hosts of {part.origin} understand.")

    def _write_annotations(self, parts: Sequence[tuple[int, Content]], path: str) -> list[Any]:
        annotations: list[Any] = []
        preceding_length = 0
        for at, part in parts:
            if isinstance(part, Text):
                for citation in part.citations:
                    if citation.origin == DIALECT:
                        annotations.append(write_annotation(citation, preceding_length, len(part.text)))
                    else:
                        self._drop_policy.drop_hint(f"{path}.content[{at}].citations")
                preceding_length += len(part.text)
        return annotations

    def _write_content(self, parts: Iterable[tuple[int, Content]], path: str, *, from_assistant: bool = False) -> Any:
        """The content: a string if it is one text, as some engines accept no lists. `parts` come with their positions in the message."""
        content_parts = [(at, part) for at, part in parts if not isinstance(part, ToolResult)]
        if len(content_parts) == 1:
            at, part = content_parts[0]
            if isinstance(part, Text) and not (part.extra and (self._same_dialect or self._has_mark(part.extra))):
                self._write_extra(part.extra, f"{path}.content[{at}]", {}, from_assistant=from_assistant)
                return part.text
        written = [self._write_part(part, f"{path}.content[{at}]", from_assistant=from_assistant) for at, part in content_parts]
        return [each for each in written if each is not None]

    def _write_part(self, part: Content, path: str, *, from_assistant: bool = False) -> Any:
        match part:
            case Text():
                return self._write_extra(part.extra, path, {"type": "text", "text": part.text}, from_assistant=from_assistant)
            case Refusal():
                return {"type": "refusal", "refusal": part.text}
            case Image():
                return self._write_image(part, path)
            case File():
                return self._write_file(part, path)
            case Audio():
                return self._write_audio(part, path)
            case Opaque():
                if part.origin == DIALECT:
                    return part.raw
                return self._drop_foreign_block(part, path)
            case Reasoning() | ToolCall() | ToolResult():
                return self._drop_policy.drop_or_refuse(path, "chat does not allow it in a message of this role.")
            case _:
                assert_never(part)

    def _write_image(self, image: Image, path: str) -> Any:
        source = self._inline_or_url(image.source, path)
        if source is None:
            return None
        image_url: dict[str, Any] = {"url": write_url(source)}
        if image.detail is not None:
            image_url["detail"] = image.detail
        return self._write_extra(image.extra, path, {"type": "image_url", "image_url": image_url})

    def _inline_or_url(self, source: Source, path: str) -> Inline | Url | None:
        if isinstance(source, Uploaded):
            self._drop_policy.drop_or_refuse(path, f"it is a file id of {source.origin}, which chat does not accept here.")
            return None
        return source

    def _write_file(self, file: File, path: str) -> Any:
        file_fields: dict[str, Any] = {}
        match file.source:
            case Uploaded() if file.source.origin == FILE_HOST:
                file_fields["file_id"] = file.source.id
            case Uploaded():
                self._inline_or_url(file.source, path)
                return None
            case Inline() | Url():
                file_fields["file_data"] = write_url(file.source)
        if file.name is not None:
            file_fields["filename"] = file.name
        # A document may have come as an image: fields of `image_url` mean nothing for a file.
        extra = {key: value for key, value in file.extra.items() if not (self._same_dialect and key.startswith("image_url."))}
        return self._write_extra(extra, path, {"type": "file", "file": file_fields})

    def _write_audio(self, audio: Audio, path: str) -> Any:
        source = self._inline_or_url(audio.source, path)
        if source is None:
            return None
        if isinstance(source, Url):
            return self._drop_policy.drop_or_refuse(path, "chat accepts audio only inline, not by URL.")
        input_audio = {"data": source.data, "format": source.media_type.partition("/")[2]}
        return self._write_extra(audio.extra, path, {"type": "input_audio", "input_audio": input_audio})

    def _write_extra(self, extra: Mapping[str, Raw], path: str, written: dict[str, Any], *, from_assistant: bool = False) -> dict[str, Any]:
        """Adds extra fields if the caller uses this dialect, and drops or refuses them otherwise; returns `written`.

        `from_assistant` says that the fields belong to an earlier response, so they request nothing and can always be dropped.
        """
        if self._same_dialect:
            for key, value in extra.items():
                write_extra_field(written, key, value, written.get("type"))
            return written
        for key, value in extra.items():
            if key == _CACHE_CONTROL and self._writes_marks and written.get("type") == "text":
                written[key] = value
            elif from_assistant:
                self._drop_policy.drop_hint(f"{path}.{key}")
            else:
                self._drop_policy.drop_extra_field(f"{path}.{key}", value, "OpenAI's chat has no such field.")
        return written
