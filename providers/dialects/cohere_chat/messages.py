"""Messages of Cohere's chat, and the documents beside them.

Source: https://docs.cohere.com/reference/chat, read 2026-11; recording cohere/01-plain for documents.
"""

import base64
import binascii
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
    Uploaded,
)
from providers.canonical.media import write_url
from providers.dialects.cohere_chat.assistant_messages import write_assistant_message
from providers.dialects.cohere_chat.message_content import WRONG_ROLE, collapse_text, text_block
from providers.drop_policy import DropPolicy
from providers.participant_names import write_participant_names
from providers.unsupported import drop_opaque_part, drop_part_fields


def write_messages(chat: ChatRequest, drop_policy: DropPolicy, *, constrained: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages, and the documents that callers put into theirs. If it is `constrained`, a response_format allows no documents."""
    writer = _MessagesWriter(drop_policy, constrained=constrained)
    for index, message in enumerate(write_participant_names(chat.messages, drop_policy)):
        writer.add_message(message, f"messages[{index}]")
    return writer.messages, writer.documents


class _MessagesWriter:
    def __init__(self, drop_policy: DropPolicy, *, constrained: bool) -> None:
        self.messages: list[dict[str, Any]] = []
        self.documents: list[dict[str, Any]] = []
        self._drop_policy = drop_policy
        self._constrained = constrained

    def add_message(self, message: Message, path: str) -> None:
        from_assistant = message.role == "assistant"
        drop_part_fields(message.extra, path, self._drop_policy, from_assistant=from_assistant)
        if from_assistant:
            assistant_message = write_assistant_message(message, path, self._drop_policy)
            if assistant_message.keys() - {"role", "content"} or assistant_message.get("content"):
                self.messages.append(assistant_message)
            return
        others: list[tuple[str, Content]] = []
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                self._result(part, f"{path}.content[{index}]", others)
            else:
                others.append((f"{path}.content[{index}]", part))
        if message.parts and not others:
            return
        role = "system" if message.role == "developer" else message.role
        document_count = len(self.documents)
        content = [block for part_path, part in others if (block := self._write_part(part, part_path)) is not None]
        if not content and len(self.documents) > document_count:
            # A message of documents alone would have no content, so they become its text.
            content = [text_block(document["data"]["text"]) for document in self.documents[document_count:]]
            del self.documents[document_count:]
        if content or not others:
            self.messages.append({"role": role, "content": collapse_text(content)})

    def _write_part(self, part: Content, path: str) -> dict[str, Any] | None:
        match part:
            case Text():
                drop_part_fields(part.extra, path, self._drop_policy)
                return text_block(part.text)
            case Refusal():
                return text_block(part.text)
            case Image():
                return self._image(part, path)
            case File():
                document = self._document(part, path)
                if document is not None and self._constrained:
                    return self._drop_policy.drop_or_refuse(path, "its response_format cannot be used together with documents.")
                if document is not None:
                    self.documents.append({"id": f"doc:{len(self.documents)}", "data": document})
                return None
            case Audio():
                return self._drop_policy.drop_or_refuse(path, "it takes no audio.")
            case Opaque():
                return drop_opaque_part(part, path, self._drop_policy)
            case Reasoning() | ToolCall() | ToolResult():
                return self._drop_policy.drop_or_refuse(path, WRONG_ROLE)
            case _:
                assert_never(part)

    def _image(self, image: Image, path: str) -> dict[str, Any] | None:
        drop_part_fields(image.extra, path, self._drop_policy)
        if isinstance(image.source, Uploaded):
            return self._drop_policy.drop_or_refuse(path, f"it is an id of a file at {image.source.origin}.")
        image_url = {"url": write_url(image.source)}
        if image.detail is not None:
            image_url["detail"] = image.detail
        return {"type": "image_url", "image_url": image_url}

    def _document(self, file: File, path: str) -> dict[str, str] | None:
        """The document of a text file; others are dropped or refused."""
        drop_part_fields(file.extra, path, self._drop_policy)
        source = file.source
        if not isinstance(source, Inline) or not source.media_type.startswith(("text/", "application/json")):
            return self._drop_policy.drop_or_refuse(path, "its documents are text alone.")
        try:
            text = base64.b64decode(source.data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return self._drop_policy.drop_or_refuse(path, "its content is not text in UTF-8.")
        return {"text": text} if file.name is None else {"title": file.name, "text": text}

    def _result(self, result: ToolResult, path: str, following: list[tuple[str, Content]]) -> None:
        """A result holds text and documents. Its images are added to `following`, for a user message that names the call."""
        if result.is_error is not None:
            self._drop_policy.drop_hint(f"{path}.is_error")
        drop_part_fields(result.extra, path, self._drop_policy)
        content: list[dict[str, Any]] = []
        for index, part in enumerate(result.parts):
            part_path = f"{path}.content[{index}]"
            if isinstance(part, Image):
                following += [(part_path, Text(f"From the result of tool call {result.id}:")), (part_path, part)]
            elif isinstance(part, File):
                document = self._document(part, part_path)
                content += [] if document is None else [{"type": "document", "document": {"data": document}}]
            elif (block := self._write_part(part, part_path)) is not None:
                content.append(block)
        if result.parts and not content:
            content.append(text_block("The result follows in the next message of the user."))
        self.messages.append({"role": "tool", "tool_call_id": result.id, "content": collapse_text(content)})
