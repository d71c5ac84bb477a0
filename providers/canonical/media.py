"""Media of a chat: data URLs to bytes and back, and the URLs that the gateway fetches for a target."""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from providers.canonical.chat import Audio, ChatRequest, Content, File, Image, Inline, Source, ToolResult, Url

# Of what precedes the comma of a data URL: the media type and its parameters.
_MAX_HEADER_CHARS = 1024

MediaKind = Literal["image", "file", "audio"]


def read_url(url: str) -> Source:
    """The content of a base64 data URL; any other URL as it is."""
    if url[:5].lower() != "data:":
        return Url(url)
    comma = url.find(",", 0, _MAX_HEADER_CHARS)
    head = url[5:comma].lower()
    if comma < 0 or not head.endswith(";base64"):
        return Url(url)
    return Inline(head.partition(";")[0] or "text/plain", url[comma + 1 :])


def write_url(source: Inline | Url) -> str:
    """The URL, or the content as a data URL."""
    return source.url if isinstance(source, Url) else f"data:{source.media_type};base64,{source.data}"


def media_urls(chat: ChatRequest, kinds: frozenset[MediaKind]) -> frozenset[str]:
    """The URLs of all media of these kinds, including those in tool results."""
    return frozenset(
        part.source.url
        for message in chat.messages
        for part in _with_nested_parts(message.parts)
        if isinstance(part, Image | File | Audio) and isinstance(part.source, Url) and _kind(part) in kinds
    )


def inline_media(chat: ChatRequest, kinds: frozenset[MediaKind], fetched: Mapping[str, Inline]) -> ChatRequest:
    """The chat with the fetched content in place of its URL, for media of these kinds. `fetched` has it by URL."""
    return replace(
        chat,
        messages=tuple(replace(message, parts=tuple(_inline(part, kinds, fetched) for part in message.parts)) for message in chat.messages),
    )


def _inline(part: Content, kinds: frozenset[MediaKind], fetched: Mapping[str, Inline]) -> Content:
    match part:
        case Image() | File() | Audio() if isinstance(part.source, Url) and _kind(part) in kinds:
            return replace(part, source=fetched.get(part.source.url, part.source))
        case ToolResult():
            return replace(part, parts=tuple(_inline(each, kinds, fetched) for each in part.parts))
        case _:
            return part


def _with_nested_parts(parts: tuple[Content, ...]) -> Iterator[Content]:
    for part in parts:
        yield part
        if isinstance(part, ToolResult):
            yield from part.parts


def _kind(part: Image | File | Audio) -> MediaKind:
    match part:
        case Image():
            return "image"
        case File():
            return "file"
        case Audio():
            return "audio"
