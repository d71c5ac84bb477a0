"""Earlier answers, as callers give them back: thinking and texts in their order, plans of tools, calls, and citations of its own.

Source: https://docs.cohere.com/reference/chat, read 2026-11.
"""

from typing import Any, assert_never

from providers.chat import Audio, Content, File, Image, Message, Opaque, Reasoning, Refusal, Text, ToolCall, ToolResult
from providers.dialect import Concessions
from providers.dialects.cohere_chat.contents import NOT_HERE, leave_extra, leave_opaque, plain, read_object, text_of
from providers.dialects.cohere_chat.shapes import NAME, PLAN


def write_answer(message: Message, path: str, concessions: Concessions) -> dict[str, Any]:
    writing = _Writing(concessions)
    for at, part in enumerate(message.parts):
        writing.part(part, f"{path}.content[{at}]")
    return writing.told()


class _Writing:
    def __init__(self, concessions: Concessions) -> None:
        self._concessions = concessions
        self._content: list[dict[str, Any]] = []
        self._plans: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._citations: list[dict[str, Any]] = []

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"role": "assistant"}
        if self._content or not self._calls:
            told["content"] = plain(self._content)
        for key, value in {"tool_plan": "".join(self._plans), "tool_calls": self._calls, "citations": self._citations}.items():
            if value:
                told[key] = value
        return told

    def part(self, part: Content, path: str) -> None:
        match part:
            case Text():
                self._text(part, path)
            case Refusal():
                self._content.append(text_of(part.text))
            case Reasoning():
                self._reasoning(part)
            case ToolCall():
                self._call(part, path)
            case Opaque():
                leave_opaque(part, path, self._concessions)
            case Image() | File() | Audio() | ToolResult():
                self._concessions.without(path, NOT_HERE)
            case _:
                assert_never(part)

    def _text(self, text: Text, path: str) -> None:
        leave_extra(text.extra, path, self._concessions, given_back=True)
        own = [citation.raw for citation in text.citations if citation.origin == NAME]
        if len(own) < len(text.citations):
            self._concessions.hint(f"{path}.citations")
        self._citations += [{**read_object(raw), "content_index": len(self._content)} for raw in own]
        self._content.append(text_of(text.text))

    def _reasoning(self, reasoning: Reasoning) -> None:
        if reasoning.seal == PLAN:
            self._plans.append(reasoning.text)
            return
        if reasoning.seal is not None:
            self._concessions.hint("reasoning.seal")
        if reasoning.text:
            self._content.append({"type": "thinking", "thinking": reasoning.text})

    def _call(self, call: ToolCall, path: str) -> None:
        if call.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return
        if call.seal is not None:
            self._concessions.hint("reasoning.seal")
        leave_extra(call.extra, path, self._concessions, given_back=True)
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        self._calls.append({"id": call.id, "type": "function", "function": function})
