"""What was said so far as the input of an ask in Responses."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.chat import (
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
from providers.dialect import Concessions
from providers.dialects.openai_responses.conversation import minted
from providers.dialects.openai_responses.items import HOST, ORIGIN, write_citations
from providers.media import write_url
from providers.wire import Body

_AUDIO = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}

UNSAID = "the Responses API has no field for it."


class InputWriter:
    """The messages of one chat, and who is asked what it can go without."""

    def __init__(self, chat: ChatRequest, concessions: Concessions) -> None:
        self.own = chat.origin == ORIGIN
        self.ask = concessions
        self._origin = chat.origin
        self._messages = chat.messages
        self._history = False  # whether what is written now was said by an assistant, and is only given back
        self._custom = {part.id for message in chat.messages for part in message.parts if isinstance(part, ToolCall) and part.custom}

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
                self.ask.without(f"messages[{at}].name", "a message of the Responses API has no name.")
            self._history = message.role == "assistant"
            self.without_extra(f"messages[{at}]", message.extra)
            items += self._items(message, f"messages[{at}]")
        self._history = False
        body["input"] = items
        if self._origin == "anthropic_messages" and _is_begun(messages):
            self.ask.hint("prefill")

    def _items(self, message: Message, path: str) -> Iterable[Any]:
        """Content between items of their own is a message."""
        content: list[Any] = []
        texts: list[str | None] = []
        extra = dict(message.extra) if self.own else {}
        for at, part in enumerate(message.parts):
            place = f"{path}.content[{at}]"
            item = self._item(part, place)
            if item is not None:
                if content:
                    yield self._message(message, content, texts, extra, place)
                    content, texts, extra = [], [], {}
                yield from item
            elif (said := self._content(part, place, assistant=message.role == "assistant")) is not None:
                content.append(said)
                texts.append(part.text if isinstance(part, Text) and len(said) == 2 else None)
        if content or extra or not message.parts:
            yield self._message(message, content, texts, extra, path)

    def _message(self, message: Message, content: list[Any], texts: list[str | None], extra: dict[str, Raw], place: str) -> dict[str, Any]:
        """An assistant's with an id and a status, for engines (vLLM, llama.cpp) know it by these."""
        if message.role == "assistant":
            return {
                "type": "message", "id": minted("message", place), "status": "completed", "role": "assistant", "content": content, **extra
            }  # fmt: skip
        said = texts[0] if len(texts) == 1 and texts[0] is not None else content
        return {"type": "message", "role": message.role, "content": said, **extra}

    def _item(self, part: Content, path: str) -> list[Any] | None:
        """The item that a part is by itself, or nothing where it is left out; None for the content of a message."""
        match part:
            case Reasoning():
                return self._reasoning(part, path)
            case ToolCall():
                return self._call(part, path)
            case ToolResult():
                return [self._result(part, path)]
            case Opaque():
                return self._opaque(part, path)
            case Text() | Refusal() | Image() | File() | Audio():
                return None
            case _:
                assert_never(part)

    def _reasoning(self, part: Reasoning, path: str) -> list[Any]:
        self.without_extra(path, part.extra)
        native = part.seal is not None and part.seal.origin == ORIGIN
        if part.seal is not None and not native:
            self.ask.hint("reasoning.seal")
        if not native and not (self.own and part.text):
            if part.text:
                self.ask.hint("reasoning")
            return []
        item: dict[str, Any] = {"type": "reasoning", "summary": []}
        if part.seal is not None and native:
            # Without an id: OpenAI refuses what it sealed under another one ("item_id did not match"), and takes it under none.
            item["encrypted_content"] = part.seal.data
        else:
            item["id"] = minted("reasoning", path)
        if part.text:
            # OpenAI takes no thoughts that it has sealed but their summary; engines that seal nothing take the thoughts.
            key, kind = ("summary", "summary_text") if native else ("content", "reasoning_text")
            item[key] = [{"type": kind, "text": part.text}]
        return [{**item, **(part.extra if self.own else {})}]

    def _call(self, part: ToolCall, path: str) -> list[Any]:
        self.without_extra(path, part.extra)
        if part.seal is not None:
            self.ask.hint("reasoning.seal")
        item: dict[str, Any] = {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
        if part.custom:
            item = {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": part.arguments}
        return [{**item, **(part.extra if self.own else {})}]

    def _result(self, part: ToolResult, path: str) -> dict[str, Any]:
        self.without_extra(path, part.extra)
        if part.is_error:
            self.ask.hint(f"{path}.is_error")
        told = [self._content(each, f"{path}.content[{at}]", assistant=False) for at, each in enumerate(part.parts)]
        output: Any = [said for said in told if said is not None]
        match part.parts:
            case (Text(text=text),) if len(output) == 1 and len(output[0]) == 2:
                output = text
            case _:
                pass
        kind = "custom_tool_call_output" if part.custom or part.id in self._custom else "function_call_output"
        return {"type": kind, "call_id": part.id, "output": output, **(part.extra if self.own else {})}

    def _opaque(self, part: Opaque, path: str) -> list[Any] | None:
        if part.origin == ORIGIN:
            return None if _is_content(part) else [part.raw]
        kind = _kind(part)
        if kind == "redacted_thinking" or "reasoning" in kind:
            self.ask.hint("reasoning.seal")
        else:
            self.ask.without(path, f"what {part.origin} calls {kind!r:.40} is not known to the Responses API.")
        return []

    def _content(self, part: Content, path: str, *, assistant: bool) -> Any:
        """None for what is left out."""
        match part:
            case Text():
                said: dict[str, Any] = {"type": "output_text" if assistant else "input_text", "text": part.text}
                if assistant or part.citations:
                    said["annotations"] = write_citations(part.text, part.citations)
                if len(said.get("annotations", ())) < len(part.citations):
                    self.ask.hint(f"{path}.citations")
            case Refusal():
                said = {"type": "refusal", "refusal": part.text}
            case Image():
                said = {"type": "input_image", "detail": part.detail or "auto", **self._source(part.source, "image_url", "image_url", path)}
            case File():
                said = {"type": "input_file", **self._source(part.source, "file_url", "file_data", path)}
                if part.name is not None:
                    said["filename"] = part.name
            case Audio():
                said = self._audio(part, path)
            case Opaque() if part.origin == ORIGIN:
                return part.raw
            case Opaque():
                self.ask.without(path, f"what {part.origin} calls {_kind(part)!r:.40} is not known to the Responses API.")
                return None
            case Reasoning() | ToolCall() | ToolResult():
                raise AssertionError("an item by itself is no content")
            case _:
                assert_never(part)
        extra: Extra = {} if isinstance(part, Refusal) else part.extra
        self.without_extra(path, extra)
        return {**said, **extra} if self.own else said

    def _source(self, source: Source, url: str, data: str, path: str) -> dict[str, str]:
        match source:
            case Url():
                return {url: source.url}
            case Inline():
                return {data: write_url(source)}
            case Uploaded():
                if source.origin != HOST:
                    self.ask.without(path, f"the file {source.id!r:.60} is kept by another host ({source.origin}).")
                return {"file_id": source.id}
            case _:
                assert_never(source)

    def _audio(self, part: Audio, path: str) -> dict[str, Any]:
        match part.source:
            case Inline():
                kind = part.source.media_type.rpartition("/")[2]
                return {"type": "input_audio", "input_audio": {"data": part.source.data, "format": _AUDIO.get(kind, kind)}}
            case Url() | Uploaded():
                self.ask.without(path, "the Responses API takes audio in bytes alone.")
                return {"type": "input_text", "text": ""}

    def without_extra(self, path: str, extra: Extra) -> None:
        """What another dialect says of a thing that has no name of ours. Our own is said again where it stood."""
        if self.own:
            return
        for key, value in extra.items():
            if self._history:
                self.ask.hint(f"{path}.{key}")
            else:
                self.ask.extra(f"{path}.{key}" if path else key, value, UNSAID)


def _is_begun(messages: Sequence[Message]) -> bool:
    """Whether it ends with the beginning of the answer, as Anthropic's API lets a caller write one: here it is a message of the past."""
    if not messages or messages[-1].role != "assistant":
        return False
    said = messages[-1].parts
    return any(isinstance(part, Text) for part in said) and not any(isinstance(part, ToolCall) for part in said)


def _kind(part: Opaque) -> str:
    told = msgspec.json.decode(part.raw)
    kind = told.get("type") if isinstance(told, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return kind if isinstance(kind, str) else ""


def _is_content(part: Opaque) -> bool:
    """Whether it is a part of a message and no item: items that hold one of these are none of OpenAI's."""
    return _kind(part).startswith("input_")
