"""Messages of Ollama's chat: a text, images beside it, calls with arguments as objects, and the results of tools.

Source: api/types.go (Message, ToolCall) of ollama 0.33, by /reference/engines.md 1.6, read 2026-11.
"""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import (
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
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialect import DropPolicy

_object = msgspec.json.Decoder(dict[str, Raw])

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_REASONING_BLOCK_TYPES = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})


def write_messages(chat: ChatRequest, drop_policy: DropPolicy) -> list[dict[str, Any]]:
    writer = _MessagesWriter(chat, drop_policy)
    for index, message in enumerate(chat.messages):
        writer.add_message(message, f"messages[{index}]")
    return writer.messages


class _MessagesWriter:
    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self.messages: list[dict[str, Any]] = []
        self._drop_policy = drop_policy
        # It says of a result which tool gave it; what other APIs say is which call asked for it.
        calls = (part for message in chat.messages for part in message.parts if isinstance(part, ToolCall))
        self._tool_names = {call.id: call.name for call in calls}

    def add_message(self, message: Message, path: str) -> None:
        from_assistant = message.role == "assistant"
        if message.name is not None:
            self._drop_policy.drop_or_refuse(f"{path}.name", "its messages name no participants.")
        self._drop_extra(message.extra, path, from_assistant=from_assistant)
        if from_assistant:
            self._add_assistant(message, path)
            return
        others: list[tuple[int, Content]] = []
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                self._result(part, f"{path}.content[{index}]", others)
            else:
                others.append((index, part))
        role = "system" if message.role == "developer" else message.role
        if not message.parts:
            self._append(role, [""], [])  # without any message it only loads the model, and answers nothing
        self._add_parts(role, [(part, f"{path}.content[{at}]") for at, part in others])

    def _add_parts(self, role: str, parts: Iterable[tuple[Content, str]]) -> None:
        """Images stand before the text of their message: so what follows a text begins another, and all stay in order."""
        texts: list[str] = []
        images: list[str] = []
        for part, path in parts:
            if isinstance(part, Image):
                data = self._image(part, path)
                if data is None:
                    continue
                if texts:
                    self._append(role, texts, images)
                    texts, images = [], []
                images.append(data)
            else:
                text = self._text(part, path)
                if text is not None:
                    texts.append(text)
        if texts or images:
            self._append(role, texts, images)

    def _append(self, role: str, texts: list[str], images: list[str]) -> None:
        # Where an engine takes one string for several texts, lines are kept apart, as vLLM does it.
        message: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
        if images:
            message["images"] = images
        self.messages.append(message)

    def _image(self, image: Image, path: str) -> str | None:
        if image.detail not in (None, "auto"):
            self._drop_policy.drop_hint(f"{path}.detail")
        self._drop_extra(image.extra, path)
        if not isinstance(image.source, Inline):
            self._drop_policy.drop_or_refuse(path, "it takes images in bytes only.")
            return None
        return image.source.data

    def _text(self, part: Content, path: str) -> str | None:
        match part:
            case Text():
                self._drop_extra(part.extra, path)
                return part.text
            case Refusal():
                return part.text
            case File():
                return self._drop_policy.drop_or_refuse(path, "it takes no documents.")
            case Audio():
                return self._drop_policy.drop_or_refuse(path, "it does not hear.")
            case Opaque():
                return self._opaque(part, path)
            case Image() | Reasoning() | ToolCall() | ToolResult():
                return self._drop_policy.drop_or_refuse(path, "it has no place for it in a message of this role.")
            case _:
                assert_never(part)

    def _result(self, result: ToolResult, path: str, deferred: list[tuple[int, Content]]) -> None:
        """It takes text alone of a tool: images follow in a message of the user's, said to be of that call."""
        if result.is_error is not None:
            self._drop_policy.drop_hint(f"{path}.is_error")
        self._drop_extra(result.extra, path)
        texts: list[str] = []
        for index, part in enumerate(result.parts):
            if isinstance(part, Image):
                deferred += [(index, Text(f"From the result of tool call {result.id}:")), (index, part)]
            else:
                text = self._text(part, f"{path}.content[{index}]")
                if text is not None:
                    texts.append(text)
        if result.parts and not texts:
            texts.append("The result follows in the next message of the user.")
        tool_message = {"role": "tool", "content": "\n".join(texts), "tool_call_id": result.id}
        name = self._tool_names.get(result.id)
        self.messages.append(tool_message if name is None else {**tool_message, "tool_name": name})

    def _add_assistant(self, message: Message, path: str) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[Any] = []
        for index, part in enumerate(message.parts):
            part_path = f"{path}.content[{index}]"
            match part:
                case Text():
                    if part.citations:
                        self._drop_policy.drop_hint(f"{part_path}.citations")
                    self._drop_extra(part.extra, part_path, from_assistant=True)
                    texts.append(part.text)
                case Refusal():
                    texts.append(part.text)
                case Reasoning():
                    if part.opaque_state is not None:
                        self._drop_policy.drop_hint("reasoning.seal")
                    thoughts.append(part.text)
                case ToolCall():
                    calls.append(self._call(part, part_path))
                case Opaque():
                    self._opaque(part, part_path)
                case Image() | File() | Audio() | ToolResult():
                    self._drop_policy.drop_or_refuse(part_path, "it has no place for it in a message of this role.")
                case _:
                    assert_never(part)
        assistant_message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if any(thoughts):
            assistant_message["thinking"] = "".join(thoughts)
        valid_calls = [call for call in calls if call is not None]
        if valid_calls:
            assistant_message["tool_calls"] = valid_calls
        self.messages.append(assistant_message)

    def _call(self, call: ToolCall, path: str) -> dict[str, Any] | None:
        """Arguments that are no object it could not read: what a model wrote instead is put into one, whole."""
        if call.custom:
            return self._drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
        if call.opaque_state is not None:
            self._drop_policy.drop_hint("reasoning.seal")
        self._drop_extra(call.extra, path, from_assistant=True)
        try:
            arguments: Any = _object.decode(call.arguments or "{}")
        except DECODE_ERRORS:
            arguments = {"_unparsed": call.arguments}
        return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}

    def _opaque(self, part: Opaque, path: str) -> None:
        kind = _object.decode(part.raw).get("type")
        if kind is not None and msgspec.json.decode(kind) in _REASONING_BLOCK_TYPES:
            self._drop_policy.drop_hint("reasoning.seal")
        else:
            self._drop_policy.drop_or_refuse(path, f"only {part.origin:.40} has it.")

    def _drop_extra(self, extra: Mapping[str, Raw], path: str, *, from_assistant: bool = False) -> None:
        """`given_back`: by an assistant, it asks for nothing."""
        for key, value in extra.items():
            if from_assistant:
                self._drop_policy.drop_hint(f"{path}.{key}")
            else:
                self._drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")
