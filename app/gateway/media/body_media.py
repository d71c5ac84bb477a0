"""Media that a caller's body names by URL, for engines: these would open files and addresses of their own network.

An engine resolves a name again, so that checking an address here would not bind it (DNS rebinding): what it may not read itself is fetched
by the gateway and sent inline. A path without a scheme is refused as well: some engines open it as a file.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Inline
from providers.canonical.errors import InvalidRequest
from providers.canonical.media import write_url
from providers.canonical.parse_body import undecodable
from providers.canonical.raw_json import DECODE_ERRORS, Body

# Fields of a body that may hold parts with media.
_FIELDS = frozenset(
    {
        *("contents", "messages", "input", "system", "prompt", "content", "conversation", "items"),
        *("documents", "query", "queries", "text_1", "text_2", "data_1", "data_2"),
    }
)
# SGLang's fields for media beside a prompt: URLs, paths, or base64.
_DATA_FIELDS = frozenset({"image_data", "video_data", "audio_data"})
# Keys below which parts may hold more parts. Not those of tool calls' arguments, of citations and of search results.
_CONTAINERS = frozenset({"content", "output", "source", "messages", "parts", "functionResponse"})
_MEDIA_KEYS = frozenset({"image", "video", "audio", "file", "input_image", "input_video", "input_audio"})
_TYPES_WITH_URL = frozenset({"url", "image", "video", "audio", "document", "file"})
# Its letters may be written as escapes, which encoders never do to plain letters.
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
_KEY_ENDS = (b'url"', b'fileUri"', b'_data"', b'audio"', b'video"', b'"image"')
_HTTP_URL = re.compile(r"https?://(?P<host>[A-Za-z0-9.-]+)(?::\d{1,5})?(?:[/?][^\\\s]*)?", re.ASCII)
_FETCHED_SCHEMES = ("http://", "https://")
_CHECKED_CHARS = 256
_BASE64 = re.compile(r"(?:/9j/|[A-Za-z0-9+])[A-Za-z0-9+/=\s]*")  # /9j/ begins every JPEG; any other slash would begin a path


class MediaSlot(Struct):
    """A place where a body names media by URL: `holder[key]`."""

    holder: dict[str, Any] | list[Any]
    key: Any
    url: str


def may_name_media(raw: bytes) -> bool:
    """A cheap test, which nearly every request without media passes: whether a key of the body may be one of media."""
    for key_end in _KEY_ENDS:
        if key_end in raw:
            return True
    return b"\\u00" in raw and _ESCAPED_LETTER.search(raw) is not None


def decode_media(body: Body) -> tuple[Mapping[str, Any], list[MediaSlot]]:
    """The fields of a body that name media, decoded, and where in them.

    Raises InvalidRequest for a field that cannot be decoded: an engine may read what we do not, such as the number 1e400.
    """
    fields: dict[str, Any] = {}
    slots: list[MediaSlot] = []
    for key, value in body.items():
        if key not in _FIELDS and key not in _DATA_FIELDS:
            continue
        if isinstance(value, Raw):
            raw = bytes(value)
            if not (key in _DATA_FIELDS or may_name_media(raw)):
                continue
            try:
                value = msgspec.json.decode(raw)
            except DECODE_ERRORS as fault:
                raise undecodable(fault, param=key) from None
        found = list(_data_slots(fields, key, value) if key in _DATA_FIELDS else _slots(value))
        if found:
            fields[key] = value
            slots += found
    return fields, slots


def urls_to_fetch(slots: list[MediaSlot], sent_as_they_are: Collection[str]) -> set[str]:
    """Those that are neither inline nor on a host that the operator lists. Raises InvalidRequest for what is no URL of media."""
    urls: set[str] = set()
    for slot in slots:
        if slot.url[:5].lower() == "data:" or is_listed(slot.url, sent_as_they_are):
            continue
        if not slot.url[:8].lower().startswith(_FETCHED_SCHEMES):
            raise InvalidRequest("Media is named by an http, https or data: URL; this is none of them.", param=str(slot.key))
        urls.add(slot.url)
    return urls


def is_listed(url: str, hosts: Collection[str]) -> bool:
    """Whether a plain URL is on one of these hosts: names, or *.NAME for all below one."""
    match = _HTTP_URL.fullmatch(url)
    if match is None:
        return False
    host = match["host"].lower()
    return any(host.endswith(each[1:]) if each.startswith("*.") else host == each for each in hosts)


def write_inline(slots: list[MediaSlot], fetched: Mapping[str, Inline]) -> None:
    """Puts fetched media in place of its URL, in the fields that decode_media() returned."""
    for slot in slots:
        if (inline := fetched.get(slot.url)) is None:
            continue
        holder = slot.holder
        if isinstance(holder, dict) and holder.get("type") == "url":  # Anthropic's source, which takes no data URL
            holder.clear()
            holder.update({"type": "base64", "media_type": inline.media_type, "data": inline.data})
        elif slot.key == "fileData" and isinstance(holder, dict):  # Google's, whose place for bytes is another one
            del holder["fileData"]
            holder["inlineData"] = {"mimeType": inline.media_type, "data": inline.data}
        elif slot.key == "file_url" and isinstance(holder, dict):  # OpenAI Responses has another field for bytes
            del holder["file_url"]
            holder["file_data"] = write_url(inline)
        else:
            cast("dict[Any, Any]", holder)[slot.key] = write_url(inline)


def _slots(value: Any) -> Iterator[MediaSlot]:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(cast("list[Any]", node))
        elif isinstance(node, dict):
            part = cast("dict[str, Any]", node)
            for key, each in part.items():
                if key == "fileData" and (url := _google_url(each)) is not None:
                    yield MediaSlot(part, key, url)
                elif key.endswith("_url") or key in _MEDIA_KEYS:
                    yield from _media_slots(part, key, each, key)
                elif key == "url" and isinstance(each, str) and part.get("type") in _TYPES_WITH_URL:
                    yield MediaSlot(part, key, each)
                elif key in _CONTAINERS:
                    pending.append(each)


def _google_url(file: Any) -> str | None:
    """The URL of a file as Google's callers name it; None: it is no such file."""
    match file:
        case {"fileUri": str(url)}:
            return url
        case _:
            return None


def _media_slots(holder: dict[str, Any] | list[Any], at: Any, value: Any, name: str) -> Iterator[MediaSlot]:
    """The URLs below a key such as image_url, which is its `name`. The value is a URL, an object with it, or a list of them, as of a
    video's frames.

    llama.cpp reads one in the `data` of input_audio as well.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        for index, item in enumerate(items):
            yield from _media_slots(items, index, item, name)
    elif isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        if isinstance(inside.get("url"), str | list):
            yield from _media_slots(inside, "url", inside["url"], "url")
        if isinstance(inside.get("data"), str) and not _is_base64(inside["data"]):
            yield MediaSlot(inside, "data", inside["data"])
    elif isinstance(value, str) and (name not in _MEDIA_KEYS or not _is_base64(value)):
        yield MediaSlot(holder, at, value)


def _data_slots(fields: dict[str, Any], key: str, value: Any) -> Iterator[MediaSlot]:
    pending: list[tuple[dict[str, Any] | list[Any], Any, Any]] = [(fields, key, value)]
    while pending:
        holder, at, each = pending.pop()
        if isinstance(each, list):
            items = cast("list[Any]", each)
            pending.extend((items, index, item) for index, item in enumerate(items))
        elif isinstance(each, str) and not _is_base64(each):
            yield MediaSlot(holder, at, each)


def _is_base64(text: str) -> bool:
    """Returns whether the text is base64, judged by its beginning.

    It may be tens of megabytes, and a path or a URL shows itself in the first characters.
    """
    return _BASE64.fullmatch(text[:_CHECKED_CHARS]) is not None
