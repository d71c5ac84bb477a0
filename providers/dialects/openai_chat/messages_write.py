"""Meaning as messages of a request in OpenAI chat."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from msgspec import Raw
from msgspec.structs import replace

from providers.chat import (
    Audio,
    ChatRequest,
    Content,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    Part,
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
from providers.dialects.openai_chat.calls import write_call
from providers.dialects.openai_chat.citations import write_annotation
from providers.dialects.openai_chat.details import write_details
from providers.media import write_url
from providers.rest import put

NAME = "openai_chat"
# Who keeps files that were uploaded for chat.
_HOST = "openai"
_PREFILLS = "anthropic_messages"
# Blocks in which other dialects hold reasoning that only they can read.
_SEALED = (b'"redacted_thinking"', b'"reasoning"', b'"redactedContent"', b'"reasoning.encrypted"')


def write_messages(chat: ChatRequest, concessions: Concessions) -> list[dict[str, Any]]:
    writing = _Writing(chat.origin == NAME, concessions)
    for at, message in enumerate(chat.messages):
        writing.write(message, f"messages[{at}]")
    if chat.origin == _PREFILLS and chat.messages and _is_begun(chat.messages[-1]):
        concessions.hint("prefill")
    return writing.told


def _is_begun(message: Message) -> bool:
    """An answer that the target is to go on with; chat takes it for one that was given."""
    kinds = {type(part) for part in message.parts}
    return message.role == "assistant" and Text in kinds and ToolCall not in kinds


class _Writing:
    def __init__(self, own: bool, concessions: Concessions) -> None:
        self.told: list[dict[str, Any]] = []
        self._own = own
        self._concessions = concessions

    def write(self, message: Message, path: str) -> None:
        if message.role == "assistant":
            self.told.append(self._assistant(message, path))
            return
        pictures: list[Any] = []
        results = [(at, part) for at, part in enumerate(message.parts) if isinstance(part, ToolResult)]
        for at, result in results:
            self.told.append(self._result(result, f"{path}.content[{at}]", pictures))
        rest = [part for part in message.parts if not isinstance(part, ToolResult)]
        if results and not rest and not pictures:
            self._extra(message.extra, path, {})
            return
        told: dict[str, Any] = {"role": message.role}
        content = self._content(enumerate(message.parts), path)
        told["content"] = (
            [*pictures, *([{"type": "text", "text": content}] if isinstance(content, str) else content)] if pictures else content
        )
        if message.name is not None:
            told["name"] = message.name
        self._extra(message.extra, path, told)
        self.told.append(told)

    def _result(self, result: ToolResult, path: str, pictures: list[Any]) -> dict[str, Any]:
        """Chat takes text alone of a tool: what else it gave follows in a message of the user's, said to be of that call."""
        kept: list[tuple[int, Content]] = []
        for at, part in enumerate(result.parts):
            if isinstance(part, Text) or self._own:
                kept.append((at, part))
                continue
            written = self._part(part, f"{path}.content[{at}]")
            if written is not None:
                pictures += [{"type": "text", "text": f"From the result of tool call {result.id}:"}, written]
        if not kept and result.parts:
            kept.append((0, Text("The result follows in the next message of the user.")))
        if result.is_error is not None:
            self._concessions.hint(f"{path}.is_error")
        told: dict[str, Any] = {"role": "tool", "tool_call_id": result.id, "content": self._content(kept, path)}
        self._extra(result.extra, path, told)
        return told

    def _assistant(self, message: Message, path: str) -> dict[str, Any]:
        unsealed = ((at, self._unsealed(part, f"{path}.content[{at}]")) for at, part in enumerate(message.parts))
        placed = [(at, part) for at, part in unsealed if part is not None]
        kept = [part for _, part in placed]
        told: dict[str, Any] = {"role": "assistant", "content": None}
        content = [(at, part) for at, part in placed if not isinstance(part, Reasoning | ToolCall | Opaque | Refusal)]
        if content:
            told["content"] = self._content(content, path, given_back=True)
        thoughts = "".join(part.text for part in kept if isinstance(part, Reasoning))
        if thoughts:
            told["reasoning_content"] = thoughts
        spoken = [part for part in kept if isinstance(part, Part)]
        details = write_details((part, len(part.text) if isinstance(part, Text) else 0) for part in spoken)
        if details:
            told["reasoning_details"] = details
        refusal = "".join(part.text for part in kept if isinstance(part, Refusal))
        if refusal:
            told["refusal"] = refusal
        annotations = self._annotations(placed, path)
        if annotations:
            told["annotations"] = annotations
        calls = [
            self._extra(part.extra, f"{path}.content[{at}]", write_call(part), given_back=True)
            for at, part in placed
            if isinstance(part, ToolCall)
        ]
        if calls:
            told["tool_calls"] = calls
        if message.name is not None:
            told["name"] = message.name
        return self._extra(message.extra, path, told, given_back=True)

    def _unsealed(self, part: Content, path: str) -> Content | None:
        """Seals of other dialects are of no use to an engine of this one. None: nothing is left."""
        match part:
            case Reasoning() | ToolCall() if part.seal is not None and part.seal.origin != NAME:
                self._concessions.hint("reasoning.seal")
                return None if isinstance(part, Reasoning) and not part.text else self._unsealed(replace(part, seal=None), path)
            case Reasoning() if part.extra and not self._own:
                self._extra(part.extra, path, {}, given_back=True)
                return replace(part, extra={})
            case Opaque() if part.origin != NAME:
                self._foreign(part, path)
                return None
            case _:
                return part

    def _foreign(self, part: Opaque, path: str) -> None:
        if any(word in bytes(part.raw) for word in _SEALED):
            self._concessions.hint("reasoning.seal")
        else:
            self._concessions.without(path, f"it is a block that hosts of {part.origin} alone understand.")

    def _annotations(self, parts: Sequence[tuple[int, Content]], path: str) -> list[Any]:
        told: list[Any] = []
        before = 0
        for at, part in parts:
            if isinstance(part, Text):
                for citation in part.citations:
                    if citation.origin == NAME:
                        told.append(write_annotation(citation, before, len(part.text)))
                    else:
                        self._concessions.hint(f"{path}.content[{at}].citations")
                before += len(part.text)
        return told

    def _content(self, parts: Iterable[tuple[int, Content]], path: str, *, given_back: bool = False) -> Any:
        """`parts` with their places. A string where it is one text: some engines take no lists."""
        wanted = [(at, part) for at, part in parts if not isinstance(part, ToolResult)]
        if len(wanted) == 1:
            at, part = wanted[0]
            if isinstance(part, Text) and not (part.extra and self._own):
                self._extra(part.extra, f"{path}.content[{at}]", {}, given_back=given_back)
                return part.text
        told = [self._part(part, f"{path}.content[{at}]", given_back=given_back) for at, part in wanted]
        return [each for each in told if each is not None]

    def _part(self, part: Content, path: str, *, given_back: bool = False) -> Any:
        match part:
            case Text():
                return self._extra(part.extra, path, {"type": "text", "text": part.text}, given_back=given_back)
            case Refusal():
                return {"type": "refusal", "refusal": part.text}
            case Image():
                return self._image(part, path)
            case File():
                return self._file(part, path)
            case Audio():
                return self._audio(part, path)
            case Opaque():
                if part.origin == NAME:
                    return part.raw
                return self._foreign(part, path)
            case Reasoning() | ToolCall() | ToolResult():
                return self._concessions.without(path, "chat has no place for it in a message of this role.")
            case _:
                assert_never(part)

    def _image(self, image: Image, path: str) -> Any:
        source = self._addressed(image.source, path)
        if source is None:
            return None
        said: dict[str, Any] = {"url": write_url(source)}
        if image.detail is not None:
            said["detail"] = image.detail
        return self._extra(image.extra, path, {"type": "image_url", "image_url": said})

    def _addressed(self, source: Source, path: str) -> Inline | Url | None:
        if isinstance(source, Uploaded):
            self._concessions.without(path, f"{source.origin} keeps it under an id, for which chat has no place here.")
            return None
        return source

    def _file(self, file: File, path: str) -> Any:
        said: dict[str, Any] = {}
        match file.source:
            case Uploaded() if file.source.origin == _HOST:
                said["file_id"] = file.source.id
            case Uploaded():
                self._addressed(file.source, path)
                return None
            case Inline() | Url():
                said["file_data"] = write_url(file.source)
        if file.name is not None:
            said["filename"] = file.name
        # Of a document that came as an image, what was said of it as one asks for nothing here.
        extra = {key: value for key, value in file.extra.items() if not (self._own and key.startswith("image_url."))}
        return self._extra(extra, path, {"type": "file", "file": said})

    def _audio(self, audio: Audio, path: str) -> Any:
        source = self._addressed(audio.source, path)
        if source is None:
            return None
        if isinstance(source, Url):
            return self._concessions.without(path, "chat takes audio in bytes only.")
        said = {"data": source.data, "format": source.media_type.partition("/")[2]}
        return self._extra(audio.extra, path, {"type": "input_audio", "input_audio": said})

    def _extra(self, extra: Mapping[str, Raw], path: str, told: dict[str, Any], *, given_back: bool = False) -> dict[str, Any]:
        """What has no name in the meaning goes back to its own dialect alone. `given_back`: by an assistant, it asks for nothing."""
        if self._own:
            for key, value in extra.items():
                put(told, key, value, told.get("type"))
            return told
        for key, value in extra.items():
            if given_back:
                self._concessions.hint(f"{path}.{key}")
            else:
                self._concessions.extra(f"{path}.{key}", value, "OpenAI's chat has no such field.")
        return told
