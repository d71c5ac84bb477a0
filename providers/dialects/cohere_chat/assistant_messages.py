"""Assistant messages of a conversation: thinking and texts in order, tool plans, calls, and Cohere's own citations.

Source: https://docs.cohere.com/reference/chat, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import Audio, Content, File, Image, Message, Opaque, Reasoning, Refusal, Text, ToolCall, ToolResult
from providers.canonical.tool_calls import write_call_input
from providers.dialects.cohere_chat.message_content import WRONG_ROLE, collapse_text, text_block
from providers.dialects.cohere_chat.response_schema import NAME, TOOL_PLAN
from providers.drop_policy import DropPolicy
from providers.unsupported import REASONING_SIGNATURE, drop_opaque_part, drop_part_fields

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def write_assistant_message(message: Message, path: str, drop_policy: DropPolicy) -> dict[str, Any]:
    writer = _AssistantMessageWriter(drop_policy)
    for index, part in enumerate(message.parts):
        writer.add_part(part, f"{path}.content[{index}]")
    return writer.to_message()


class _AssistantMessageWriter:
    def __init__(self, drop_policy: DropPolicy) -> None:
        self._drop_policy = drop_policy
        self._content: list[dict[str, Any]] = []
        self._tool_plans: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._citations: list[dict[str, Any]] = []

    def to_message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant"}
        if self._content or not self._calls:
            message["content"] = collapse_text(self._content)
        for key, value in {"tool_plan": "".join(self._tool_plans), "tool_calls": self._calls, "citations": self._citations}.items():
            if value:
                message[key] = value
        return message

    def add_part(self, part: Content, path: str) -> None:
        match part:
            case Text():
                self._text(part, path)
            case Refusal():
                self._content.append(text_block(part.text))
            case Reasoning():
                self._reasoning(part)
            case ToolCall():
                self._call(part, path)
            case Opaque():
                drop_opaque_part(part, path, self._drop_policy)
            case Image() | File() | Audio() | ToolResult():
                self._drop_policy.drop_or_refuse(path, WRONG_ROLE)
            case _:
                assert_never(part)

    def _text(self, text: Text, path: str) -> None:
        drop_part_fields(text.extra, path, self._drop_policy, from_assistant=True)
        native = [citation.raw for citation in text.citations if citation.origin == NAME]
        if len(native) < len(text.citations):
            self._drop_policy.drop_hint(f"{path}.citations")
        self._citations += [{**_decode_object(raw), "content_index": len(self._content)} for raw in native]
        self._content.append(text_block(text.text))

    def _reasoning(self, reasoning: Reasoning) -> None:
        if reasoning.opaque_state == TOOL_PLAN:
            self._tool_plans.append(reasoning.text)
            return
        if reasoning.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        if reasoning.text:
            self._content.append({"type": "thinking", "thinking": reasoning.text})

    def _call(self, call: ToolCall, path: str) -> None:
        if call.opaque_state is not None:
            self._drop_policy.drop_hint(REASONING_SIGNATURE)
        drop_part_fields(call.extra, path, self._drop_policy, from_assistant=True)
        arguments = msgspec.json.encode(write_call_input(call.arguments, custom=True)).decode() if call.custom else call.arguments
        function = {"name": call.name, "arguments": arguments or "{}"}
        self._calls.append({"id": call.id, "type": "function", "function": function})
