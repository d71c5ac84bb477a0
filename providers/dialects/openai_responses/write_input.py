"""What was said so far as the input of an ask in Responses."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec
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
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.openai_responses.conversation_items import derive_item_id
from providers.dialects.openai_responses.response_items import FILE_HOST, ORIGIN, write_citations

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}

NO_SUCH_FIELD = "the Responses API has no field for it."


class InputWriter:
    """The messages of one chat, and who is asked what it can go without."""

    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self.same_dialect = chat.origin == ORIGIN
        self.drop_policy = drop_policy
        self._origin = chat.origin
        self._messages = chat.messages
        self._in_assistant_message = False  # whether what is written now was said by an assistant, and is only given back
        self._custom_call_ids = {
            part.id for message in chat.messages for part in message.parts if isinstance(part, ToolCall) and part.custom
        }

    def write(self, body: Body) -> None:
        messages = self._messages
        items: list[Any] = []
        first = 0
        match messages[:1]:
            case (Message(role="system", parts=(Text(text=text, citations=(), extra=extra),), name=None),) if text and not extra:
                body["instructions"] = text
                first = 1
            case _:
                pass
        for at, message in enumerate(messages[first:], first):
            if message.name is not None:
                self.drop_policy.drop_or_refuse(f"messages[{at}].name", "a message of the Responses API has no name.")
            self._in_assistant_message = message.role == "assistant"
            self.drop_extra(f"messages[{at}]", message.extra)
            items += self._write_items(message, f"messages[{at}]")
        self._in_assistant_message = False
        body["input"] = items
        if self._origin == "anthropic_messages" and _ends_with_prefill(messages):
            self.drop_policy.drop_hint("prefill")

    def _write_items(self, message: Message, path: str) -> Iterable[Any]:
        """Content between items of their own is a message."""
        content: list[Any] = []
        texts: list[str | None] = []
        extra = dict(message.extra) if self.same_dialect else {}
        for at, part in enumerate(message.parts):
            part_path = f"{path}.content[{at}]"
            item = self._write_item(part, part_path)
            if item is not None:
                if content:
                    yield self._write_message(message, content, texts, extra, part_path)
                    content, texts, extra = [], [], {}
                yield from item
            elif (written := self._write_content(part, part_path, assistant=message.role == "assistant")) is not None:
                content.append(written)
                texts.append(part.text if isinstance(part, Text) and len(written) == 2 else None)
        if content or extra or not message.parts:
            yield self._write_message(message, content, texts, extra, path)

    def _write_message(
        self, message: Message, content: list[Any], texts: list[str | None], extra: dict[str, Raw], item_path: str
    ) -> dict[str, Any]:
        """An assistant's with an id and a status, for engines (vLLM, llama.cpp) know it by these."""
        if message.role == "assistant":
            return {
                "type": "message", "id": derive_item_id("message", item_path), "status": "completed", "role": "assistant", "content": content, **extra
            }  # fmt: skip
        written_content = texts[0] if len(texts) == 1 and texts[0] is not None else content
        return {"type": "message", "role": message.role, "content": written_content, **extra}

    def _write_item(self, part: Content, path: str) -> list[Any] | None:
        """The item that a part is by itself, or nothing where it is left out; None for the content of a message."""
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
        native = part.opaque_state is not None and part.opaque_state.origin == ORIGIN
        if part.opaque_state is not None and not native:
            self.drop_policy.drop_hint("reasoning.seal")
        if not native and not (self.same_dialect and part.text):
            if part.text:
                self.drop_policy.drop_hint("reasoning")
            return []
        item: dict[str, Any] = {"type": "reasoning", "summary": []}
        if part.opaque_state is not None and native:
            # Without an id: OpenAI refuses what it sealed under another one ("item_id did not match"), and takes it under none.
            item["encrypted_content"] = part.opaque_state.data
        else:
            item["id"] = derive_item_id("reasoning", path)
        if part.text:
            # OpenAI takes no thoughts that it has sealed but their summary; engines that seal nothing take the thoughts.
            key, kind = ("summary", "summary_text") if native else ("content", "reasoning_text")
            item[key] = [{"type": kind, "text": part.text}]
        return [{**item, **(part.extra if self.same_dialect else {})}]

    def _write_call(self, part: ToolCall, path: str) -> list[Any]:
        self.drop_extra(path, part.extra)
        if part.opaque_state is not None:
            self.drop_policy.drop_hint("reasoning.seal")
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
        if part.origin == ORIGIN:
            return None if _is_content(part) else [part.raw]
        kind = _block_type(part)
        if kind == "redacted_thinking" or "reasoning" in kind:
            self.drop_policy.drop_hint("reasoning.seal")
        else:
            self.drop_policy.drop_or_refuse(path, f"what {part.origin} calls {kind!r:.40} is not known to the Responses API.")
        return []

    def _write_content(self, part: Content, path: str, *, assistant: bool) -> Any:
        """None for what is left out."""
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
            case Opaque() if part.origin == ORIGIN:
                return part.raw
            case Opaque():
                self.drop_policy.drop_or_refuse(
                    path, f"what {part.origin} calls {_block_type(part)!r:.40} is not known to the Responses API."
                )
                return None
            case Reasoning() | ToolCall() | ToolResult():
                raise AssertionError("an item by itself is no content")
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
                    self.drop_policy.drop_or_refuse(path, f"the file {source.id!r:.60} is kept by another host ({source.origin}).")
                return {"file_id": source.id}
            case _:
                assert_never(source)

    def _write_audio(self, part: Audio, path: str) -> dict[str, Any]:
        match part.source:
            case Inline():
                kind = part.source.media_type.rpartition("/")[2]
                return {"type": "input_audio", "input_audio": {"data": part.source.data, "format": _AUDIO_FORMATS.get(kind, kind)}}
            case Url() | Uploaded():
                self.drop_policy.drop_or_refuse(path, "the Responses API takes audio in bytes alone.")
                return {"type": "input_text", "text": ""}

    def drop_extra(self, path: str, extra: Extra) -> None:
        """What another dialect says of a thing that has no name of ours. Our own is said again where it stood."""
        if self.same_dialect:
            return
        for key, value in extra.items():
            if self._in_assistant_message:
                self.drop_policy.drop_hint(f"{path}.{key}")
            else:
                self.drop_policy.drop_extra_field(f"{path}.{key}" if path else key, value, NO_SUCH_FIELD)


def _ends_with_prefill(messages: Sequence[Message]) -> bool:
    """Whether it ends with the beginning of the answer, as Anthropic's API lets a caller write one: here it is a message of the past."""
    if not messages or messages[-1].role != "assistant":
        return False
    parts = messages[-1].parts
    return any(isinstance(part, Text) for part in parts) and not any(isinstance(part, ToolCall) for part in parts)


def _block_type(part: Opaque) -> str:
    block = msgspec.json.decode(part.raw)
    kind = block.get("type") if isinstance(block, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return kind if isinstance(kind, str) else ""


def _is_content(part: Opaque) -> bool:
    """Whether it is a part of a message and no item: items that hold one of these are none of OpenAI's."""
    return _block_type(part).startswith("input_")
