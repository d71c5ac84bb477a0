"""Messages as they are shown: parts in no API's format, each cut to a bound of characters."""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import (
    Audio,
    Content,
    File,
    Image,
    Inline,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Uploaded,
    Url,
)

_MAX_NAME_CHARACTERS = 1000
_MAX_URL_CHARACTERS = 4000


class TextPart(Struct, frozen=True, tag="text", tag_field="kind"):
    """A text. `text`: its first characters; `characters`: how many it has. `is_json`: it is a JSON document."""

    text: str
    characters: int
    is_json: bool = False


class ReasoningPart(Struct, frozen=True, tag="reasoning", tag_field="kind"):
    """Reasoning of the model. `hidden`: its host returned it encrypted only, so that there is no text."""

    text: str
    characters: int
    hidden: bool = False


class RefusalPart(Struct, frozen=True, tag="refusal", tag_field="kind"):
    """A text by which the model refuses."""

    text: str
    characters: int


class ToolCallPart(Struct, frozen=True, tag="tool_call", tag_field="kind"):
    """A call of a tool. `arguments`: the first characters of what the model wrote; `valid`: it is JSON, or may be any text."""

    id: str
    name: str
    arguments: str
    characters: int
    valid: bool


class MediaPart(Struct, frozen=True, tag="media", tag_field="kind"):
    """An image, a document or sound. `number`: of the media of its inference, by which they are read; null: they are not in the record.

    `url`: where they are, as their caller wrote it. `size_bytes`: null if that is not known.
    """

    media: str
    media_type: str | None
    size_bytes: int | None
    number: int | None
    url: str | None
    name: str | None


class OtherPart(Struct, frozen=True, tag="other", tag_field="kind"):
    """A part that only one API has, as it was written: the first characters of its JSON."""

    json: str
    characters: int


class ToolResultPart(Struct, frozen=True, tag="tool_result", tag_field="kind"):
    """The result of a tool's call. `id`: that of the call."""

    id: str
    parts: tuple[TextPart | MediaPart | OtherPart, ...]
    error: bool


ShownPart = TextPart | ReasoningPart | RefusalPart | ToolCallPart | ToolResultPart | MediaPart | OtherPart


class PartReader:
    """Shows the parts of one inference, in order: media are numbered as they come, and `media` keeps those that the record holds."""

    def __init__(self, max_characters: int) -> None:
        self.media: list[Inline] = []
        self._max_characters = max_characters

    def show(self, part: Content, *, may_be_json: bool = False) -> ShownPart:
        match part:
            case ToolResult():
                nested = tuple(self._show_nested(each) for each in part.parts)
                return ToolResultPart(_name(part.id), nested, bool(part.is_error))
            case Reasoning():
                return ReasoningPart(self._cut(part.text), len(part.text), not part.text and part.opaque_state is not None)
            case Refusal():
                return RefusalPart(self._cut(part.text), len(part.text))
            case ToolCall():
                valid = part.custom or is_json(part.arguments)
                return ToolCallPart(_name(part.id), _name(part.name), self._cut(part.arguments), len(part.arguments), valid)
            case Text():
                return self.show_text(part.text, may_be_json=may_be_json)
            case _:
                return self._show_nested(part)

    def show_text(self, text: str, *, may_be_json: bool = False) -> TextPart:
        return TextPart(self._cut(text), len(text), may_be_json and is_json(text))

    def show_json(self, raw: bytes) -> OtherPart:
        text = raw.decode("utf-8", "replace")
        return OtherPart(self._cut(text), len(text))

    def _show_nested(self, part: Text | Image | File | Audio | Opaque) -> TextPart | MediaPart | OtherPart:
        match part:
            case Text():
                return self.show_text(part.text)
            case Opaque():
                return self.show_json(bytes(part.raw))
            case Image() | Audio():
                return self._show_media(part, None)
            case File():
                return self._show_media(part, part.name)

    def _show_media(self, part: Image | File | Audio, name: str | None) -> MediaPart:
        kind = {Image: "image", File: "file", Audio: "audio"}[type(part)]
        shown_name = None if name is None else _name(name)
        match part.source:
            case Inline(media_type=media_type, data=data):
                self.media.append(part.source)
                size = len(data.rstrip("=")) * 3 // 4
                return MediaPart(kind, _name(media_type), size, len(self.media), None, shown_name)
            case Url(url=url):
                return MediaPart(kind, None, None, None, url[:_MAX_URL_CHARACTERS], shown_name)
            case Uploaded(id=id):
                return MediaPart(kind, None, None, None, None, shown_name or _name(id))

    def _cut(self, text: str) -> str:
        return text[: self._max_characters]


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _name(text: str) -> str:
    return text[:_MAX_NAME_CHARACTERS]
