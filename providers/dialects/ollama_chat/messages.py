"""Messages of Ollama's chat: a text, images beside it, calls with arguments as objects, and the results of tools.

Source: api/types.go (Message, ToolCall) of ollama 0.33, by /reference/engines.md 1.6, read 2026-11.
"""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.chat import (
    Audio,
    ChatRequest,
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
)
from providers.dialect import Concessions
from providers.wire import UNREADABLE

_object = msgspec.json.Decoder(dict[str, Raw])

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_SEALED = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})


def write_messages(chat: ChatRequest, concessions: Concessions) -> list[dict[str, Any]]:
    writing = _Writing(chat, concessions)
    for at, message in enumerate(chat.messages):
        writing.message(message, f"messages[{at}]")
    return writing.told


class _Writing:
    def __init__(self, chat: ChatRequest, concessions: Concessions) -> None:
        self.told: list[dict[str, Any]] = []
        self._concessions = concessions
        # It says of a result which tool gave it; what other APIs say is which call asked for it.
        calls = (part for message in chat.messages for part in message.parts if isinstance(part, ToolCall))
        self._names = {call.id: call.name for call in calls}

    def message(self, message: Message, path: str) -> None:
        given_back = message.role == "assistant"
        if message.name is not None:
            self._concessions.without(f"{path}.name", "its messages name no participants.")
        self._extra(message.extra, path, given_back=given_back)
        if given_back:
            self._assistant(message, path)
            return
        rest: list[tuple[int, Content]] = []
        for at, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                self._result(part, f"{path}.content[{at}]", rest)
            else:
                rest.append((at, part))
        role = "system" if message.role == "developer" else message.role
        if not message.parts:
            self._tell(role, [""], [])  # without any message it only loads the model, and answers nothing
        self._said(role, [(part, f"{path}.content[{at}]") for at, part in rest])

    def _said(self, role: str, parts: Iterable[tuple[Content, str]]) -> None:
        """Images stand before the text of their message: so what follows a text begins another, and all stay in order."""
        texts: list[str] = []
        images: list[str] = []
        for part, path in parts:
            if isinstance(part, Image):
                data = self._image(part, path)
                if data is None:
                    continue
                if texts:
                    self._tell(role, texts, images)
                    texts, images = [], []
                images.append(data)
            else:
                text = self._text(part, path)
                if text is not None:
                    texts.append(text)
        if texts or images:
            self._tell(role, texts, images)

    def _tell(self, role: str, texts: list[str], images: list[str]) -> None:
        # Where an engine takes one string for several texts, lines are kept apart, as vLLM does it.
        told: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
        if images:
            told["images"] = images
        self.told.append(told)

    def _image(self, image: Image, path: str) -> str | None:
        if image.detail not in (None, "auto"):
            self._concessions.hint(f"{path}.detail")
        self._extra(image.extra, path)
        if not isinstance(image.source, Inline):
            self._concessions.without(path, "it takes images in bytes only.")
            return None
        return image.source.data

    def _text(self, part: Content, path: str) -> str | None:
        match part:
            case Text():
                self._extra(part.extra, path)
                return part.text
            case Refusal():
                return part.text
            case File():
                return self._concessions.without(path, "it takes no documents.")
            case Audio():
                return self._concessions.without(path, "it does not hear.")
            case Opaque():
                return self._opaque(part, path)
            case Image() | Reasoning() | ToolCall() | ToolResult():
                return self._concessions.without(path, "it has no place for it in a message of this role.")
            case _:
                assert_never(part)

    def _result(self, result: ToolResult, path: str, rest: list[tuple[int, Content]]) -> None:
        """It takes text alone of a tool: images follow in a message of the user's, said to be of that call."""
        if result.is_error is not None:
            self._concessions.hint(f"{path}.is_error")
        self._extra(result.extra, path)
        texts: list[str] = []
        for at, part in enumerate(result.parts):
            if isinstance(part, Image):
                rest += [(at, Text(f"From the result of tool call {result.id}:")), (at, part)]
            else:
                text = self._text(part, f"{path}.content[{at}]")
                if text is not None:
                    texts.append(text)
        if result.parts and not texts:
            texts.append("The result follows in the next message of the user.")
        told = {"role": "tool", "content": "\n".join(texts), "tool_call_id": result.id}
        name = self._names.get(result.id)
        self.told.append(told if name is None else {**told, "tool_name": name})

    def _assistant(self, message: Message, path: str) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[Any] = []
        for at, part in enumerate(message.parts):
            where = f"{path}.content[{at}]"
            match part:
                case Text():
                    if part.citations:
                        self._concessions.hint(f"{where}.citations")
                    self._extra(part.extra, where, given_back=True)
                    texts.append(part.text)
                case Refusal():
                    texts.append(part.text)
                case Reasoning():
                    if part.seal is not None:
                        self._concessions.hint("reasoning.seal")
                    thoughts.append(part.text)
                case ToolCall():
                    calls.append(self._call(part, where))
                case Opaque():
                    self._opaque(part, where)
                case Image() | File() | Audio() | ToolResult():
                    self._concessions.without(where, "it has no place for it in a message of this role.")
                case _:
                    assert_never(part)
        told: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if any(thoughts):
            told["thinking"] = "".join(thoughts)
        made = [call for call in calls if call is not None]
        if made:
            told["tool_calls"] = made
        self.told.append(told)

    def _call(self, call: ToolCall, path: str) -> dict[str, Any] | None:
        """Arguments that are no object it could not read: what a model wrote instead is put into one, whole."""
        if call.custom:
            return self._concessions.without(path, "its tools take JSON, not free text.")
        if call.seal is not None:
            self._concessions.hint("reasoning.seal")
        self._extra(call.extra, path, given_back=True)
        try:
            arguments: Any = _object.decode(call.arguments or "{}")
        except UNREADABLE:
            arguments = {"_unparsed": call.arguments}
        return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}

    def _opaque(self, part: Opaque, path: str) -> None:
        kind = _object.decode(part.raw).get("type")
        if kind is not None and msgspec.json.decode(kind) in _SEALED:
            self._concessions.hint("reasoning.seal")
        else:
            self._concessions.without(path, f"only {part.origin:.40} has it.")

    def _extra(self, extra: Mapping[str, Raw], path: str, *, given_back: bool = False) -> None:
        """`given_back`: by an assistant, it asks for nothing."""
        for key, value in extra.items():
            if given_back:
                self._concessions.hint(f"{path}.{key}")
            else:
                self._concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
