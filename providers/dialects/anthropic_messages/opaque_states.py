"""What is carried for other dialects, and back: seals, citations, and parts that only they have.

What another dialect minted travels in the fields that clients give back unread: the signature of a thinking block, the data of a redacted
one, the index of a citation. Redacted blocks carry a part whole, reasoning of which there is only a seal, or the seal of a call.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import PREFIX, decode_carrier, encode_carrier
from providers.canonical.chat import Citation, Opaque, OpaqueState, Reasoning, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS, NULL

NAME = "anthropic_messages"

# Before the name of a key of a block's source, among the extra keys of the part.
SOURCE_PREFIX = "source."

# Reasoning that nobody sealed: its signature carries an empty seal, and is read back as none.
_NO_SIGNATURE = encode_carrier(OpaqueState("openai_chat", ""), caller_dialect=NAME)

P = TypeVar("P")

_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.encode


class CallState(Struct, frozen=True):
    """The seal of a call, which stands in a block of its own. `call`: the call's id."""

    call_id: str
    origin: str
    data: str


class _CarriedCallState(Struct):
    call: str
    seal: str


_call_state_decoder = msgspec.json.Decoder(_CarriedCallState)


class _Citation(Struct):
    """A citation, of a document or a search. Of a document, `start` and `end` are its characters: not those of the text that cites it."""

    url: str | None = None
    source: str | None = None
    title: str | None = None
    document_title: str | None = None
    cited_text: str | None = None
    encrypted_index: str | None = None


_citation_decoder = msgspec.json.Decoder(_Citation)


class _ForeignCitation(Struct):
    """A citation as another dialect has it, carried in `encrypted_index`."""

    raw: Raw
    start: int | None = None
    end: int | None = None


_foreign_decoder = msgspec.json.Decoder(_ForeignCitation)


def read_citation(raw: Raw) -> Citation:
    citation = _citation_decoder.decode(raw)
    index = citation.encrypted_index or ""
    if index.startswith(PREFIX):
        opaque_state = decode_carrier(index, caller_dialect=NAME)
        try:
            foreign = _foreign_decoder.decode(opaque_state.data)
            _object.decode(foreign.raw)
        except DECODE_ERRORS:
            pass
        else:
            return Citation(
                opaque_state.origin,
                foreign.raw,
                citation.url or None,
                citation.title,
                citation.cited_text or None,
                foreign.start,
                foreign.end,
            )
    return Citation(NAME, raw, citation.url or citation.source, citation.title or citation.document_title, citation.cited_text)


def write_citation(citation: Citation) -> Any:
    """One of another dialect as a search result, the only kind that names an address; as it was it travels in `encrypted_index`."""
    if citation.origin == NAME:
        return citation.raw
    foreign = _encode(_ForeignCitation(citation.raw, citation.start, citation.end)).decode()
    return {
        "type": "web_search_result_location",
        "url": citation.url or "",
        "title": citation.title,
        "cited_text": citation.quote or "",
        "encrypted_index": encode_carrier(OpaqueState(citation.origin, foreign), caller_dialect=NAME),
    }


def read_signature(signature: str) -> OpaqueState | None:
    opaque_state = decode_carrier(signature, caller_dialect=NAME)
    return opaque_state if opaque_state.data else None


def write_signature(opaque_state: OpaqueState | None) -> str:
    return _NO_SIGNATURE if opaque_state is None else encode_carrier(opaque_state, caller_dialect=NAME)


def read_redacted(data: str, raw: Raw) -> Opaque | Reasoning | CallState:
    """`raw`: the whole block, as which it is kept if Anthropic minted it."""
    opaque_state = decode_carrier(data, caller_dialect=NAME)
    if opaque_state.origin == NAME:
        return Opaque(NAME, raw)
    carried_part = Raw(opaque_state.data.encode())
    if kind_of(carried_part):
        return Opaque(opaque_state.origin, carried_part)
    try:
        call_state = _call_state_decoder.decode(opaque_state.data)
    except DECODE_ERRORS:
        return Reasoning("", opaque_state)
    return CallState(call_state.call, opaque_state.origin, call_state.seal)


def kind_of(raw: Raw) -> str:
    """The type of a block, "" for what is none: whoever gives a carrier back may have made it up."""
    try:
        kind = _any.decode(_object.decode(raw).get("type", NULL))
    except DECODE_ERRORS:
        return ""
    return kind if isinstance(kind, str) else ""


def write_opaque(part: Opaque) -> Any:
    return part.raw if part.origin == NAME else _redacted(OpaqueState(part.origin, bytes(part.raw).decode()))


def write_call_state(id: str, opaque_state: OpaqueState) -> dict[str, Any]:
    return _redacted(OpaqueState(opaque_state.origin, _encode(_CarriedCallState(id, opaque_state.data)).decode()))


def is_redacted(part: Reasoning) -> bool:
    """Whether there is nothing of it but another dialect's seal."""
    return not part.text and part.opaque_state is not None and part.opaque_state.origin != NAME


def write_reasoning(part: Reasoning) -> dict[str, Any]:
    if part.opaque_state is not None and is_redacted(part):
        return _redacted(part.opaque_state)
    return {"type": "thinking", "thinking": part.text, "signature": write_signature(part.opaque_state)}


def _redacted(opaque_state: OpaqueState) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": encode_carrier(opaque_state, caller_dialect=NAME)}


def attach_call_states(parts: Iterable[P], call_states: Mapping[str, OpaqueState]) -> tuple[P, ...]:
    """The calls with their seals, wherever those stood."""
    if not call_states:
        return tuple(parts)
    return tuple(
        msgspec.structs.replace(part, opaque_state=call_states[part.id]) if isinstance(part, ToolCall) and part.id in call_states else part
        for part in parts
    )
