"""Messages of Ollama's chat: a text, images beside it, calls with arguments as objects, and the results of tools.

Source: api/types.go (Message, ToolCall) of ollama 0.33, by docs/sources.md#ollama, read 2026-11.
"""

from collections.abc import Iterable
from typing import Any, assert_never

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
from providers.canonical.tool_calls import write_call_input
from providers.drop_policy import DropPolicy
from providers.participant_names import write_participant_names
from providers.unsupported import REASONING_SIGNATURE, drop_opaque_part, drop_part_fields

_WRONG_ROLE = "a message of this role cannot hold it."


def write_messages(chat: ChatRequest, drop_policy: DropPolicy) -> list[dict[str, Any]]:
    writer = _MessagesWriter(chat, drop_policy)
    for index, message in enumerate(write_participant_names(chat.messages, drop_policy)):
        writer.add_message(message, f"messages[{index}]")
    return writer.messages


class _MessagesWriter:
    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self.messages: list[dict[str, Any]] = []
        self._drop_policy = drop_policy
        # A result names the tool that gave it; other APIs give the id of the call.
        calls = (part for message in chat.messages for part in message.parts if isinstance(part, ToolCall))
        self._tool_names = {call.id: call.name for call in calls}

    def add_message(self, message: Message, path: str) -> None:
        from_assistant = message.role == "assistant"
        drop_part_fields(message.extra, path, self._drop_policy, from_assistant=from_assistant)
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
            self._append(role, [""], [])  # without any message Ollama loads the model and answers nothing
        self._add_parts(role, [(part, f"{path}.content[{at}]") for at, part in others])

    def _add_parts(self, role: str, parts: Iterable[tuple[Content, str]]) -> None:
        """Images precede the text of their message, so an image after a text begins another message and the order stays."""
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
        # Several texts become lines of one string, as in vLLM.
        message: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
        if images:
            message["images"] = images
        self.messages.append(message)

    def _image(self, image: Image, path: str) -> str | None:
        if image.detail not in (None, "auto"):
            self._drop_policy.drop_hint(f"{path}.detail")
        drop_part_fields(image.extra, path, self._drop_policy)
        if not isinstance(image.source, Inline):
            self._drop_policy.drop_or_refuse(path, "it takes images in bytes only.")
            return None
        return image.source.data

    def _text(self, part: Content, path: str) -> str | None:
        match part:
            case Text():
                drop_part_fields(part.extra, path, self._drop_policy)
                return part.text
            case Refusal():
                return part.text
            case File():
                return self._drop_policy.drop_or_refuse(path, "it takes no documents.")
            case Audio():
                return self._drop_policy.drop_or_refuse(path, "it takes no audio.")
            case Opaque():
                return drop_opaque_part(part, path, self._drop_policy)
            case Image() | Reasoning() | ToolCall() | ToolResult():
                return self._drop_policy.drop_or_refuse(path, _WRONG_ROLE)
            case _:
                assert_never(part)

    def _result(self, result: ToolResult, path: str, following: list[tuple[int, Content]]) -> None:
        """A result holds text alone. Its images are added to `following`, for a user message that names the call."""
        if result.is_error is not None:
            self._drop_policy.drop_hint(f"{path}.is_error")
        drop_part_fields(result.extra, path, self._drop_policy)
        texts: list[str] = []
        for index, part in enumerate(result.parts):
            if isinstance(part, Image):
                following += [(index, Text(f"From the result of tool call {result.id}:")), (index, part)]
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
        reasoning: list[str] = []
        calls: list[Any] = []
        for index, part in enumerate(message.parts):
            part_path = f"{path}.content[{index}]"
            match part:
                case Text():
                    if part.citations:
                        self._drop_policy.drop_hint(f"{part_path}.citations")
                    drop_part_fields(part.extra, part_path, self._drop_policy, from_assistant=True)
                    texts.append(part.text)
                case Refusal():
                    texts.append(part.text)
                case Reasoning():
                    if part.opaque_state is not None:
                        self._drop_policy.drop_hint(REASONING_SIGNATURE)
                    reasoning.append(part.text)
                case ToolCall():
                    calls.append(self._call(part, part_path))
                case Opaque():
                    drop_opaque_part(part, part_path, self._drop_policy)
                case Image() | File() | Audio() | ToolResult():
                    self._drop_policy.drop_or_refuse(part_path, _WRONG_ROLE)
                case _:
                    assert_never(part)
        assistant_message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if any(reasoning):
            assistant_message["thinking"] = "".join(reasoning)
        valid_calls = [call for call in calls if call is not None]
        if valid_calls:
            assistant_message["tool_calls"] = valid_calls
        self.messages.append(assistant_message)

    def _call(self, call: ToolCall, path: str) -> dict[str, Any] | None:
        if call.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        drop_part_fields(call.extra, path, self._drop_policy, from_assistant=True)
        return {"id": call.id, "function": {"name": call.name, "arguments": write_call_input(call.arguments, custom=call.custom)}}
