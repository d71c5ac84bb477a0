"""Where texts come from: OpenAI's annotations, whose indexes count the characters of a message's whole content."""

from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.chat import Citation
from providers.wire import NULL, UNREADABLE

_read_list = msgspec.json.Decoder(list[dict[str, Any]]).decode


def read_annotations(raw: Raw, before: int = 0) -> list[Citation]:
    """`before`: the characters of content before the text that they are about. What is no list of annotations is passed over."""
    if raw is NULL or raw == NULL:
        return []
    try:
        told = _read_list(raw)
    except UNREADABLE:
        return []
    return [_read(entry, before) for entry in told]


def _read(entry: dict[str, Any], before: int) -> Citation:
    """In a stream each has an index of its own, by which clients put them together."""
    entry.pop("index", None)
    told = entry.get("url_citation")
    said = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    return Citation(
        origin="openai_chat",
        raw=Raw(msgspec.json.encode(entry)),
        url=_of(said, "url", str),
        title=_of(said, "title", str),
        start=_less(_of(said, "start_index", int), before),
        end=_less(_of(said, "end_index", int), before),
    )


def _of(said: dict[str, Any], key: str, kind: type) -> Any:
    value = said.get(key)
    return value if isinstance(value, kind) else None


def _less(at: int | None, before: int) -> int | None:
    return None if at is None else at - before


def write_annotation(citation: Citation, before: int, length: int) -> dict[str, Any] | None:
    """None for one that OpenAI has no word for: it knows addresses alone. `length`: of the text, where no place in it is known."""
    if citation.origin == "openai_chat":
        entry = msgspec.json.decode(citation.raw)
        if citation.start is not None and citation.end is not None:
            entry["url_citation"].update(start_index=citation.start + before, end_index=citation.end + before)
        return entry
    if citation.url is None:
        return None
    told = {
        "url": citation.url,
        "title": citation.title or "",
        "start_index": before + (citation.start or 0),
        "end_index": before + (length if citation.end is None else citation.end),
    }
    return {"type": "url_citation", "url_citation": told}
