"""Writes canonical messages as instructions and input items of a Responses request."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from msgspec import Raw

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Content,
    Extra,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Uploaded,
    Url,
)
from providers.canonical.media import write_url
from providers.canonical.opaque_parts import opaque_kind
from providers.canonical.raw_json import Body
from providers.dialects.openai.file_host import FILE_HOST
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.item_ids import derive_item_id
from providers.dialects.openai_responses.write_output_items import write_citations
from providers.drop_policy import DropPolicy
from providers.participant_names import write_participant_names

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}

NO_SUCH_FIELD = "the Responses API has no field for it."


class InputWriter:
    """Writes the messages of one chat. What cannot be expressed goes to the drop policy."""

    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self.same_dialect = chat.origin == DIALECT
        self.drop_policy = drop_policy
        self._origin = chat.origin
        self._messages = chat.messages
        self._in_assistant_message = False  # an earlier response is being written
        self._custom_call_ids = {
            part.id for message in chat.messages for part in message.parts if isinstance(part, ToolCall) and part.custom
        }

    def write(self, body: Body) -> None:
        messages = write_participant_names(self._messages, self.drop_policy)
        items: list[Any] = []
        first = 0
        match messages[:1]:
            case (Message(role="system", parts=(Text(text=text, citations=(), extra=extra),), name=None),) if text and not extra:
                body["instructions"] = text
                first = 1
            case _:
                pass
        for at, message in enumerate(messages[first:], first):
            self._in_assistant_message = message.role == "assistant"
            self.drop_extra(f"messages[{at}]", message.extra)
            items += self._write_items(message, f"messages[{at}]")
        self._in_assistant_message = False
        body["input"] = items
        if self._origin == "anthropic_messages" and _ends_with_prefill(messages):
            self.drop_policy.drop_hint("prefill")

    def _write_items(self, message: Message, path: str) -> Iterable[Any]:
        """The items of a message. Content between parts that are items themselves becomes a message item."""
        content: list[Any] = []
        texts: list[str | None] = []
        extra = dict(message.extra) if self.same_dialect else {}
        phase = {"phase": extra["phase"]} if "phase" in extra else {}  # of each of its items
        for at, part in enumerate(message.parts):
            part_path = f"{path}.content[{at}]"
            item = self._write_item(part, part_path)
            if item is not None:
                if content:
                    yield self._write_message(message, content, texts, phase | extra, part_path)
                    content, texts, extra = [], [], {}
                yield from item
            elif (written := self._write_content(part, part_path, assistant=message.role == "assistant")) is not None:
                content.append(written)
                texts.append(part.text if isinstance(part, Text) and len(written) == 2 else None)
        if content or extra or not message.parts:
            yield self._write_message(message, content, texts, phase | extra, path)

    def _write_message(
        self, message: Message, content: list[Any], texts: list[str | None], extra: dict[str, Raw], item_path: str
    ) -> dict[str, Any]:
        """A message item. That of an assistant has an id and a status, by which engines (vLLM, llama.cpp) recognise it."""
        if message.role == "assistant":
            head = {"type": "message", "id": derive_item_id("message", item_path), "status": "completed", "role": "assistant"}
            return {**head, "content": content, **extra}
        written_content = texts[0] if len(texts) == 1 and texts[0] is not None else content
        return {"type": "message", "role": message.role, "content": written_content, **extra}

    def _write_item(self, part: Content, path: str) -> list[Any] | None:
        """The item of a part, or an empty list if it is left out; None for a part that is content of a message."""
        match part:
            case Reasoning():
                return self._write_reasoning(part, path)
            case ToolCall():
                return self._write_call(part, path)
            case ToolResult():
                return [self._write_result(part, path)]
            case Opaque():
                return self._write_opaque(part, path)
            case Text() | Refusal() | Image() | File() | Audio():
                return None
            case _:
                assert_never(part)

    def _write_reasoning(self, part: Reasoning, path: str) -> list[Any]:
        self.drop_extra(path, part.extra)
        native = part.opaque_state is not None and part.opaque_state.origin == DIALECT
        if part.opaque_state is not None and not native:
            self.drop_policy.drop_hint("reasoning.signature")
        if not native and not (self.same_dialect and part.text):
            if part.text:
                self.drop_policy.drop_hint("reasoning")
            return []
        item: dict[str, Any] = {"type": "reasoning", "summary": []}
        if part.opaque_state is not None and native:
            # Without an id: OpenAI rejects encrypted content under another id ("item_id did not match"), but accepts it without one.
            item["encrypted_content"] = part.opaque_state.data
        else:
            item["id"] = derive_item_id("reasoning", path)
        if part.text:
            # With encrypted content OpenAI accepts only the summary; engines that encrypt nothing accept the reasoning itself.
            key, kind = ("summary", "summary_text") if native else ("content", "reasoning_text")
            item[key] = [{"type": kind, "text": part.text}]
        return [{**item, **(part.extra if self.same_dialect else {})}]

    def _write_call(self, part: ToolCall, path: str) -> list[Any]:
        self.drop_extra(path, part.extra)
        if part.opaque_state is not None:
            self.drop_policy.drop_hint("reasoning.signature")
        item: dict[str, Any] = {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
        if part.custom:
            item = {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": part.arguments}
        return [{**item, **(part.extra if self.same_dialect else {})}]

    def _write_result(self, part: ToolResult, path: str) -> dict[str, Any]:
        self.drop_extra(path, part.extra)
        if part.is_error:
            self.drop_policy.drop_hint(f"{path}.is_error")
        written = [self._write_content(each, f"{path}.content[{at}]", assistant=False) for at, each in enumerate(part.parts)]
        output: Any = [each_part for each_part in written if each_part is not None]
        match part.parts:
            case (Text(text=text),) if len(output) == 1 and len(output[0]) == 2:
                output = text
            case _:
                pass
        kind = "custom_tool_call_output" if part.custom or part.id in self._custom_call_ids else "function_call_output"
        return {"type": kind, "call_id": part.id, "output": output, **(part.extra if self.same_dialect else {})}

    def _write_opaque(self, part: Opaque, path: str) -> list[Any] | None:
        if part.origin == DIALECT:
            return None if _is_content(part) else [part.raw]
        kind = opaque_kind(part.raw)
        if kind == "redacted_thinking" or "reasoning" in kind:
            self.drop_policy.drop_hint("reasoning.signature")
        else:
            self.drop_policy.drop_or_refuse(path, f"the Responses API has no equivalent of {kind!r:.40} of {part.origin}.")
        return []

    def _write_content(self, part: Content, path: str, *, assistant: bool) -> Any:
        """The content part; None if it is left out."""
        match part:
            case Text():
                written: dict[str, Any] = {"type": "output_text" if assistant else "input_text", "text": part.text}
                if assistant or part.citations:
                    written["annotations"] = write_citations(part.text, part.citations)
                if len(written.get("annotations", ())) < len(part.citations):
                    self.drop_policy.drop_hint(f"{path}.citations")
            case Refusal():
                written = {"type": "refusal", "refusal": part.text}
            case Image():
                written = {
                    "type": "input_image",
                    "detail": part.detail or "auto",
                    **self._write_source(part.source, "image_url", "image_url", path),
                }
            case File():
                written = {"type": "input_file", **self._write_source(part.source, "file_url", "file_data", path)}
                if part.name is not None:
                    written["filename"] = part.name
            case Audio():
                written = self._write_audio(part, path)
            case Opaque() if part.origin == DIALECT:
                return part.raw
            case Opaque():
                kind = opaque_kind(part.raw)
                self.drop_policy.drop_or_refuse(path, f"the Responses API has no equivalent of {kind!r:.40} of {part.origin}.")
                return None
            case Reasoning() | ToolCall() | ToolResult():
                raise AssertionError("a part that is an item is not content")
            case _:
                assert_never(part)
        extra: Extra = {} if isinstance(part, Refusal) else part.extra
        self.drop_extra(path, extra)
        return {**written, **extra} if self.same_dialect else written

    def _write_source(self, source: Source, url: str, data: str, path: str) -> dict[str, str]:
        match source:
            case Url():
                return {url: source.url}
            case Inline():
                return {data: write_url(source)}
            case Uploaded():
                if source.origin != FILE_HOST:
                    self.drop_policy.drop_or_refuse(path, f"the file {source.id!r:.60} is stored at another host ({source.origin}).")
                return {"file_id": source.id}
            case _:
                assert_never(source)

    def _write_audio(self, part: Audio, path: str) -> dict[str, Any]:
        match part.source:
            case Inline():
                kind = part.source.media_type.rpartition("/")[2]
                return {"type": "input_audio", "input_audio": {"data": part.source.data, "format": _AUDIO_FORMATS.get(kind, kind)}}
            case Url() | Uploaded():
                self.drop_policy.drop_or_refuse(path, "the Responses API accepts audio only inline, not by URL.")
                return {"type": "input_text", "text": ""}

    def drop_extra(self, path: str, extra: Extra) -> None:
        """Drops or refuses extra fields of another dialect. Those of this dialect are written by the caller of this method."""
        if self.same_dialect:
            return
        for key, value in extra.items():
            if self._in_assistant_message:
                self.drop_policy.drop_hint(f"{path}.{key}")
            else:
                self.drop_policy.drop_extra_field(f"{path}.{key}" if path else key, value, NO_SUCH_FIELD)


def _ends_with_prefill(messages: Sequence[Message]) -> bool:
    """Whether the chat ends with the start of a response, which Anthropic's API continues: here it is treated as an earlier message."""
    if not messages or messages[-1].role != "assistant":
        return False
    parts = messages[-1].parts
    return any(isinstance(part, Text) for part in parts) and not any(isinstance(part, ToolCall) for part in parts)


def _is_content(part: Opaque) -> bool:
    """Whether it is a content part and not an item: the type of a content part that stays opaque starts with `input_`."""
    return opaque_kind(part.raw).startswith("input_")
