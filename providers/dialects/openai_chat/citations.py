"""Citations as OpenAI's annotations, whose indexes count characters of the message's complete content."""

from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.chat import Citation
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai_chat.dialect_name import DIALECT

_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode


def read_annotations(raw: Raw, preceding_length: int = 0) -> list[Citation]:
    """The citations of a text, with indexes relative to it. A value that is not a list of annotations is ignored.

    Before that text there are `preceding_length` characters of content.
    """
    if raw is NULL or raw == NULL:
        return []
    try:
        entries = _decode_list(raw)
    except DECODE_ERRORS:
        return []
    return [_read_annotation(entry, preceding_length) for entry in entries]


def _read_annotation(entry: dict[str, Any], preceding_length: int) -> Citation:
    """Drops the field `index`, of which each annotation of a stream has one, by which clients put them together."""
    entry.pop("index", None)
    nested = entry.get("url_citation")
    fields = cast("dict[str, Any]", nested) if isinstance(nested, dict) else {}
    return Citation(
        origin=DIALECT,
        raw=Raw(msgspec.json.encode(entry)),
        url=_typed_field(fields, "url", str),
        title=_typed_field(fields, "title", str),
        start=_relative(_typed_field(fields, "start_index", int), preceding_length),
        end=_relative(_typed_field(fields, "end_index", int), preceding_length),
    )


def _typed_field(fields: dict[str, Any], key: str, expected_type: type) -> Any:
    value = fields.get(key)
    return value if isinstance(value, expected_type) else None


def _relative(index: int | None, preceding_length: int) -> int | None:
    return None if index is None else index - preceding_length


def write_annotation(citation: Citation, preceding_length: int, length: int) -> dict[str, Any] | None:
    """The annotation; None for a citation without a URL, which OpenAI cannot express.

    Before the text there are `preceding_length` characters of content. `length` is that of the text, the end of a citation that has no
    position.
    """
    if citation.origin == DIALECT:
        entry = msgspec.json.decode(citation.raw)
        if citation.start is not None and citation.end is not None:
            entry["url_citation"].update(start_index=citation.start + preceding_length, end_index=citation.end + preceding_length)
        return entry
    if citation.url is None:
        return None
    url_citation = {
        "url": citation.url,
        "title": citation.title or "",
        "start_index": preceding_length + (citation.start or 0),
        "end_index": preceding_length + (length if citation.end is None else citation.end),
    }
    return {"type": "url_citation", "url_citation": url_citation}
