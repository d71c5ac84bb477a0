"""Citations of Messages, and those of other dialects carried through a caller of Messages.

Source: https://docs.claude.com/en/api/messages, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import PREFIX, decode_carrier, encode_carrier
from providers.canonical.chat import Citation, OpaqueState
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.anthropic_messages.opaque_states import NAME

_object = msgspec.json.Decoder(dict[str, Raw])


class _Citation(Struct):
    """A citation of a document or of a search result. The offsets of a document count its characters, not those of the citing text."""

    url: str | None = None
    source: str | None = None
    title: str | None = None
    document_title: str | None = None
    cited_text: str | None = None
    encrypted_index: str | None = None


class _CarriedCitation(Struct):
    """A citation of another dialect, as it is carried in `encrypted_index`."""

    raw: Raw
    start: int | None = None
    end: int | None = None


_citation_decoder = msgspec.json.Decoder(_Citation)
_carried_decoder = msgspec.json.Decoder(_CarriedCitation)


def read_citation(raw: Raw) -> Citation:
    """Raises one of DECODE_ERRORS."""
    citation = _citation_decoder.decode(raw)
    index = citation.encrypted_index or ""
    if index.startswith(PREFIX):
        opaque_state = decode_carrier(index, caller_dialect=NAME)
        try:
            carried = _carried_decoder.decode(opaque_state.data)
            _object.decode(carried.raw)
        except DECODE_ERRORS:
            pass
        else:
            return Citation(
                opaque_state.origin,
                carried.raw,
                citation.url or None,
                citation.title,
                citation.cited_text or None,
                carried.start,
                carried.end,
            )
    return Citation(NAME, raw, citation.url or citation.source, citation.title or citation.document_title, citation.cited_text)


def write_citation(citation: Citation) -> Any:
    """The citation; one of another dialect becomes a search result, the only kind with a URL, and carries the original."""
    if citation.origin == NAME:
        return citation.raw
    carried = msgspec.json.encode(_CarriedCitation(citation.raw, citation.start, citation.end)).decode()
    return {
        "type": "web_search_result_location",
        "url": citation.url or "",
        "title": citation.title,
        "cited_text": citation.quote or "",
        "encrypted_index": encode_carrier(OpaqueState(citation.origin, carried), caller_dialect=NAME),
    }
