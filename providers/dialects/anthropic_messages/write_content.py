"""Parts of messages as content blocks of a request; what they cannot express is dropped or refused."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any, assert_never

from msgspec import Raw

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
    Url,
)
from providers.canonical.tool_calls import write_call_input
from providers.dialects.anthropic_messages.opaque_states import NAME, SOURCE_PREFIX
from providers.drop_policy import DropPolicy
from providers.unsupported import REASONING_SIGNATURE, drop_opaque_part, drop_part_fields

Blocks = list[Any]

_TEXT_KEYS = frozenset({"type", "text"})
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def write_content(message: Message, path: str, drop_policy: DropPolicy, *, is_native: bool) -> Blocks:
    """The blocks of the message at `path`. Results of tools come first and empty texts are left out, as Anthropic requires."""
    writer = _ContentWriter(drop_policy, is_native=is_native, from_assistant=message.role == "assistant")
    blocks = [(part, writer.write_part(part, f"{path}.content[{index}]")) for index, part in enumerate(message.parts)]
    blocks.sort(key=lambda written: not isinstance(written[0], ToolResult))
    return [block for _, block in blocks if block is not None]


class _ContentWriter:
    """Writes the parts of a message as blocks.

    `from_assistant` says that the message is an earlier answer, which callers only repeat, so that its fields demand nothing.
    """

    def __init__(self, drop_policy: DropPolicy, *, is_native: bool, from_assistant: bool) -> None:
        self._drop_policy = drop_policy
        self._is_native = is_native
        self._from_assistant = from_assistant

    def write_part(self, part: Content, path: str) -> Any:
        """The block of a part. None if it is left out."""
        match part:
            case Text():
                return self._text(part, path)
            case Refusal():
                return {"type": "text", "text": part.text} if part.text else None
            case Reasoning():
                return self._reasoning(part, path)
            case ToolCall():
                return self._call(part, path)
            case ToolResult():
                return self._result(part, path)
            case Image():
                return self._image(part, path)
            case File():
                return self._file(part, path)
            case Opaque():
                return self._opaque(part, path)
            case Audio():
                self._drop_policy.drop_or_refuse(path, "it takes no audio.")
                return None
            case _:
                assert_never(part)

    def _text(self, part: Text, path: str) -> dict[str, Any] | None:
        if not part.text:
            return None
        block: dict[str, Any] = {"type": "text", "text": part.text}
        native = [citation.raw for citation in part.citations if citation.origin == NAME]
        if native:
            block["citations"] = native
        if len(native) < len(part.citations):
            self._drop_policy.drop_hint(f"{path}.citations")
        return self._with_extra(block, part.extra, path)

    def _reasoning(self, part: Reasoning, path: str) -> dict[str, Any] | None:
        if part.opaque_state is None or part.opaque_state.origin != NAME:
            if part.opaque_state is not None:
                self._drop_policy.drop_hint(REASONING_SIGNATURE)
            if part.text:
                self._drop_policy.drop_hint("reasoning")
            return None
        return self._with_extra({"type": "thinking", "thinking": part.text, "signature": part.opaque_state.data}, part.extra, path)

    def _call(self, part: ToolCall, path: str) -> dict[str, Any] | None:
        if part.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        block = {
            "type": "tool_use",
            "id": _valid_call_id(part.id),
            "name": part.name,
            "input": write_call_input(part.arguments, custom=part.custom),
        }
        return self._with_extra(block, part.extra, path)

    def _result(self, part: ToolResult, path: str) -> dict[str, Any] | None:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _valid_call_id(part.id)}
        written = [self.write_part(result_part, f"{path}.content[{index}]") for index, result_part in enumerate(part.parts)]
        content = [each for each in written if each is not None]
        if content:
            block["content"] = collapse_text(content)
        if part.is_error is not None:
            block["is_error"] = part.is_error
        return self._with_extra(block, part.extra, path)

    def _image(self, part: Image, path: str) -> dict[str, Any] | None:
        source: dict[str, Any]
        match part.source:
            case Inline(media_type, data):
                source = {"type": "base64", "media_type": media_type, "data": data}
            case Url(url):
                source = {"type": "url", "url": url}
            case Uploaded():
                if part.source.origin != NAME:
                    self._drop_policy.drop_or_refuse(path, "the file is kept by another host.")
                    return None
                source = {"type": "file", "file_id": part.source.id}
            case _:
                assert_never(part.source)
        if part.detail not in (None, "auto"):
            self._drop_policy.drop_hint(f"{path}.detail")
        return self._with_extra({"type": "image", "source": source}, part.extra, path)

    def _file(self, part: File, path: str) -> dict[str, Any] | None:
        source: dict[str, Any] | None
        match part.source:
            case Inline():
                source = _document_source(part.source)
                if source is None:
                    self._drop_policy.drop_or_refuse(path, f"its documents are PDF or text, not {part.source.media_type}.")
                    return None
            case Url(url):
                source = {"type": "url", "url": url}
            case Uploaded():
                if part.source.origin != NAME:
                    self._drop_policy.drop_or_refuse(path, "the file is kept by another host.")
                    return None
                source = {"type": "file", "file_id": part.source.id}
            case _:
                assert_never(part.source)
        block: dict[str, Any] = {"type": "document", "source": source}
        if part.name is not None:
            block["title"] = part.name
        return self._with_extra(block, part.extra, path)

    def _opaque(self, part: Opaque, path: str) -> Raw | None:
        if part.origin == NAME:
            return part.raw
        return drop_opaque_part(part, path, self._drop_policy)

    def _with_extra(self, block: dict[str, Any], extra: Mapping[str, Raw], path: str) -> dict[str, Any]:
        """Adds the extra fields of a part to its block. `cache_control` is Anthropic's own field, in whichever dialect it was sent."""
        for key, value in extra.items():
            if self._is_native and key.startswith(SOURCE_PREFIX) and "source" in block:
                block["source"][key.removeprefix(SOURCE_PREFIX)] = value
            elif self._is_native or key == "cache_control":
                block[key] = value
            else:
                drop_part_fields({key: value}, path, self._drop_policy, from_assistant=self._from_assistant)
        return block


def _valid_call_id(id: str) -> str:
    """The id, or a hash of an id with characters that Anthropic refuses: the same for the call and its result."""
    return id if _CALL_ID.fullmatch(id) else "toolu_" + hashlib.sha256(id.encode()).hexdigest()[:24]


def _document_source(source: Inline) -> dict[str, Any] | None:
    """Returns the source of a document block, or None for a file that is neither PDF nor text."""
    if source.media_type == "application/pdf":
        return {"type": "base64", "media_type": source.media_type, "data": source.data}
    if not source.media_type.startswith("text/") and source.media_type not in ("application/json", "application/xml"):
        return None
    try:
        text = base64.b64decode(source.data).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return {"type": "text", "media_type": "text/plain", "data": text}


def collapse_text(blocks: list[Any]) -> Any:
    """The text alone if it is the only block, else the blocks. Engines that imitate Anthropic support a string best."""
    only_block: Any = blocks[0] if len(blocks) == 1 else None
    return only_block["text"] if isinstance(only_block, dict) and only_block.keys() == _TEXT_KEYS else blocks  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
