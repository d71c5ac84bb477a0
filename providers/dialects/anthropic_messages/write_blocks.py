"""The blocks of a request to /v1/messages: what was said, and what cannot be said there of it."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any, assert_never

from msgspec import Raw

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
    Url,
)
from providers.dialect import Concessions
from providers.dialects.anthropic_messages.blocks import plain, write_input
from providers.dialects.anthropic_messages.seals import NAME, SOURCE, kind_of

Blocks = list[Any]

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_SEALED = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})


def write_content(message: Message, path: str, concessions: Concessions, *, own: bool) -> Blocks:
    """`path`: the message's. Results of calls come first, as Anthropic wants them; empty texts it refuses, so they are left out."""
    writing = _Writing(concessions, own=own, given_back=message.role == "assistant")
    blocks = [(part, writing.part(part, f"{path}.content[{at}]")) for at, part in enumerate(message.parts)]
    blocks.sort(key=lambda told: not isinstance(told[0], ToolResult))
    return [block for _, block in blocks if block is not None]


class _Writing:
    """`given_back`: it is an answer, of which callers only repeat what they were given: no field of it is a demand."""

    def __init__(self, concessions: Concessions, *, own: bool, given_back: bool) -> None:
        self._concessions = concessions
        self._own = own
        self._given_back = given_back

    def part(self, part: Content, path: str) -> Any:
        """None for what is not said."""
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
                self._concessions.without(path, "it does not hear.")
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
            self._concessions.hint(f"{path}.citations")
        return self._with_extra(block, part.extra, path)

    def _reasoning(self, part: Reasoning, path: str) -> dict[str, Any] | None:
        if part.seal is None or part.seal.origin != NAME:
            if part.seal is not None:
                self._concessions.hint("reasoning.seal")
            if part.text:
                self._concessions.hint("reasoning")
            return None
        return self._with_extra({"type": "thinking", "thinking": part.text, "signature": part.seal.data}, part.extra, path)

    def _call(self, part: ToolCall, path: str) -> dict[str, Any] | None:
        if part.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return None
        if part.seal is not None:
            self._concessions.hint("reasoning.seal")
        block = {"type": "tool_use", "id": _call_id(part.id), "name": part.name, "input": write_input(part.arguments, part.custom)}
        return self._with_extra(block, part.extra, path)

    def _result(self, part: ToolResult, path: str) -> dict[str, Any] | None:
        if part.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return None
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _call_id(part.id)}
        inner = [self.part(each, f"{path}.content[{at}]") for at, each in enumerate(part.parts)]
        content = [each for each in inner if each is not None]
        if content:
            block["content"] = plain(content)
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
                    self._concessions.without(path, "the file is kept by another host.")
                    return None
                source = {"type": "file", "file_id": part.source.id}
            case _:
                assert_never(part.source)
        if part.detail not in (None, "auto"):
            self._concessions.hint(f"{path}.detail")
        return self._with_extra({"type": "image", "source": source}, part.extra, path)

    def _file(self, part: File, path: str) -> dict[str, Any] | None:
        source: dict[str, Any] | None
        match part.source:
            case Inline():
                source = _document(part.source)
                if source is None:
                    self._concessions.without(path, f"its documents are PDF or text, not {part.source.media_type}.")
                    return None
            case Url(url):
                source = {"type": "url", "url": url}
            case Uploaded():
                if part.source.origin != NAME:
                    self._concessions.without(path, "the file is kept by another host.")
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
        kind = kind_of(part.raw)
        if kind in _SEALED:
            self._concessions.hint("reasoning.seal")
        else:
            self._concessions.without(path, f"only {part.origin:.40} has {kind or 'it':.40}.")
        return None

    def _with_extra(self, block: dict[str, Any], extra: Mapping[str, Raw], path: str) -> dict[str, Any]:
        """Cache hints are Anthropic's own word, whoever says it."""
        for key, value in extra.items():
            if self._own and key.startswith(SOURCE) and "source" in block:
                block["source"][key.removeprefix(SOURCE)] = value
            elif self._own or key == "cache_control":
                block[key] = value
            elif self._given_back:
                self._concessions.hint(f"{path}.{key}")
            else:
                self._concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
        return block


def _call_id(id: str) -> str:
    """Anthropic refuses other characters; what takes the place of such an id is the same in the call and in its result."""
    return id if _CALL_ID.fullmatch(id) else "toolu_" + hashlib.sha256(id.encode()).hexdigest()[:24]


def _document(source: Inline) -> dict[str, Any] | None:
    """None for what is neither PDF nor text."""
    if source.media_type == "application/pdf":
        return {"type": "base64", "media_type": source.media_type, "data": source.data}
    if not source.media_type.startswith("text/") and source.media_type not in ("application/json", "application/xml"):
        return None
    try:
        text = base64.b64decode(source.data).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return {"type": "text", "media_type": "text/plain", "data": text}
