"""Messages of Cohere's chat: what is asked, and what tools gave. Documents stand beside them.

Source: https://docs.cohere.com/reference/chat, read 2026-11; /shared/exchanges/cohere/01-plain for documents.
"""

import base64
import binascii
from typing import Any, assert_never

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
    Uploaded,
)
from providers.dialect import Concessions
from providers.dialects.cohere_chat.contents import NOT_HERE, leave_extra, leave_opaque, plain, text_of
from providers.dialects.cohere_chat.given_back import write_answer
from providers.media import write_url


def write_messages(chat: ChatRequest, concessions: Concessions, *, constrained: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages, and the documents that callers have put into theirs. `constrained`: beside a response_format, there can be none."""
    writing = _Writing(concessions, constrained=constrained)
    for at, message in enumerate(chat.messages):
        writing.message(message, f"messages[{at}]")
    return writing.told, writing.documents


class _Writing:
    def __init__(self, concessions: Concessions, *, constrained: bool) -> None:
        self.told: list[dict[str, Any]] = []
        self.documents: list[dict[str, Any]] = []
        self._concessions = concessions
        self._constrained = constrained

    def message(self, message: Message, path: str) -> None:
        given_back = message.role == "assistant"
        if message.name is not None:
            self._concessions.without(f"{path}.name", "its messages name no participants.")
        leave_extra(message.extra, path, self._concessions, given_back=given_back)
        if given_back:
            answer = write_answer(message, path, self._concessions)
            if answer.keys() - {"role", "content"} or answer.get("content"):
                self.told.append(answer)  # or it says nothing
            return
        rest: list[tuple[str, Content]] = []
        for at, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                self._result(part, f"{path}.content[{at}]", rest)
            else:
                rest.append((f"{path}.content[{at}]", part))
        if message.parts and not rest:
            return
        role = "system" if message.role == "developer" else message.role
        before = len(self.documents)
        content = [said for where, part in rest if (said := self._said(part, where)) is not None]
        if not content and len(self.documents) > before:
            # Documents alone: without a word beside them there would be nothing that the user says.
            content = [text_of(each["data"]["text"]) for each in self.documents[before:]]
            del self.documents[before:]
        if content or not rest:
            self.told.append({"role": role, "content": plain(content)})

    def _said(self, part: Content, path: str) -> dict[str, Any] | None:
        match part:
            case Text():
                leave_extra(part.extra, path, self._concessions)
                return text_of(part.text)
            case Refusal():
                return text_of(part.text)
            case Image():
                return self._image(part, path)
            case File():
                document = self._document(part, path)
                if document is not None and self._constrained:
                    return self._concessions.without(path, "its response_format cannot be used together with documents.")
                if document is not None:
                    self.documents.append({"id": f"doc:{len(self.documents)}", "data": document})
                return None
            case Audio():
                return self._concessions.without(path, "it does not hear.")
            case Opaque():
                return leave_opaque(part, path, self._concessions)
            case Reasoning() | ToolCall() | ToolResult():
                return self._concessions.without(path, NOT_HERE)
            case _:
                assert_never(part)

    def _image(self, image: Image, path: str) -> dict[str, Any] | None:
        leave_extra(image.extra, path, self._concessions)
        if isinstance(image.source, Uploaded):
            return self._concessions.without(path, f"{image.source.origin} keeps it under an id, which is none here.")
        told = {"url": write_url(image.source)}
        if image.detail is not None:
            told["detail"] = image.detail
        return {"type": "image_url", "image_url": told}

    def _document(self, file: File, path: str) -> dict[str, str] | None:
        """It reads text alone."""
        leave_extra(file.extra, path, self._concessions)
        source = file.source
        if not isinstance(source, Inline) or not source.media_type.startswith(("text/", "application/json")):
            return self._concessions.without(path, "its documents are of text alone.")
        try:
            text = base64.b64decode(source.data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return self._concessions.without(path, "what it holds is no text in UTF-8.")
        return {"text": text} if file.name is None else {"title": file.name, "text": text}

    def _result(self, result: ToolResult, path: str, rest: list[tuple[str, Content]]) -> None:
        """It takes text and documents of a tool: images follow in a message of the user's, said to be of that call."""
        if result.is_error is not None:
            self._concessions.hint(f"{path}.is_error")
        if result.custom:
            self._concessions.without(path, "its tools take JSON, not free text.")
            return
        leave_extra(result.extra, path, self._concessions)
        content: list[dict[str, Any]] = []
        for at, part in enumerate(result.parts):
            where = f"{path}.content[{at}]"
            if isinstance(part, Image):
                rest += [(where, Text(f"From the result of tool call {result.id}:")), (where, part)]
            elif isinstance(part, File):
                document = self._document(part, where)
                content += [] if document is None else [{"type": "document", "document": {"data": document}}]
            elif (said := self._said(part, where)) is not None:
                content.append(said)
        if result.parts and not content:
            content.append(text_of("The result follows in the next message of the user."))
        self.told.append({"role": "tool", "tool_call_id": result.id, "content": plain(content)})
