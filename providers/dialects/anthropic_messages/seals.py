"""What is carried for other dialects, and back: seals, citations, and parts that only they have.

What another dialect minted travels in the fields that clients give back unread: the signature of a thinking block, the data of a redacted
one, the index of a citation. Redacted blocks carry a part whole, reasoning of which there is only a seal, or the seal of a call.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.carrier import PREFIX, carried, carry
from providers.chat import Citation, Opaque, Reasoning, Seal, ToolCall
from providers.wire import NULL, UNREADABLE

NAME = "anthropic_messages"

# Before the name of a key of a block's source, among the extra keys of the part.
SOURCE = "source."

# Reasoning that nobody sealed: its signature carries an empty seal, and is read back as none.
_UNSEALED = carry(Seal("openai_chat", ""), through=NAME)

P = TypeVar("P")

_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.encode


class CallSeal(Struct, frozen=True):
    """The seal of a call, which stands in a block of its own. `call`: the call's id."""

    call: str
    origin: str
    data: str


class _CallSeal(Struct):
    call: str
    seal: str


_call_seal = msgspec.json.Decoder(_CallSeal)


class _Cited(Struct):
    """A citation, of a document or a search. Of a document, `start` and `end` are its characters: not those of the text that cites it."""

    url: str | None = None
    source: str | None = None
    title: str | None = None
    document_title: str | None = None
    cited_text: str | None = None
    encrypted_index: str | None = None


_cited = msgspec.json.Decoder(_Cited)


class _Foreign(Struct):
    """A citation as another dialect has it, carried in `encrypted_index`."""

    raw: Raw
    start: int | None = None
    end: int | None = None


_foreign = msgspec.json.Decoder(_Foreign)


def read_citation(raw: Raw) -> Citation:
    told = _cited.decode(raw)
    index = told.encrypted_index or ""
    if index.startswith(PREFIX):
        seal = carried(index, through=NAME)
        try:
            foreign = _foreign.decode(seal.data)
            _object.decode(foreign.raw)
        except UNREADABLE:
            pass
        else:
            return Citation(seal.origin, foreign.raw, told.url or None, told.title, told.cited_text or None, foreign.start, foreign.end)
    return Citation(NAME, raw, told.url or told.source, told.title or told.document_title, told.cited_text)


def write_citation(citation: Citation) -> Any:
    """One of another dialect as a search result, the only kind that names an address; as it was it travels in `encrypted_index`."""
    if citation.origin == NAME:
        return citation.raw
    foreign = _encode(_Foreign(citation.raw, citation.start, citation.end)).decode()
    return {
        "type": "web_search_result_location",
        "url": citation.url or "",
        "title": citation.title,
        "cited_text": citation.quote or "",
        "encrypted_index": carry(Seal(citation.origin, foreign), through=NAME),
    }


def read_seal(signature: str) -> Seal | None:
    seal = carried(signature, through=NAME)
    return seal if seal.data else None


def write_seal(seal: Seal | None) -> str:
    return _UNSEALED if seal is None else carry(seal, through=NAME)


def read_redacted(data: str, raw: Raw) -> Opaque | Reasoning | CallSeal:
    """`raw`: the whole block, as which it is kept if Anthropic minted it."""
    seal = carried(data, through=NAME)
    if seal.origin == NAME:
        return Opaque(NAME, raw)
    held = Raw(seal.data.encode())
    if kind_of(held):
        return Opaque(seal.origin, held)
    try:
        told = _call_seal.decode(seal.data)
    except UNREADABLE:
        return Reasoning("", seal)
    return CallSeal(told.call, seal.origin, told.seal)


def kind_of(raw: Raw) -> str:
    """The type of a block, "" for what is none: whoever gives a carrier back may have made it up."""
    try:
        kind = _any.decode(_object.decode(raw).get("type", NULL))
    except UNREADABLE:
        return ""
    return kind if isinstance(kind, str) else ""


def write_opaque(part: Opaque) -> Any:
    return part.raw if part.origin == NAME else _redacted(Seal(part.origin, bytes(part.raw).decode()))


def write_call_seal(id: str, seal: Seal) -> dict[str, Any]:
    return _redacted(Seal(seal.origin, _encode(_CallSeal(id, seal.data)).decode()))


def is_redacted(part: Reasoning) -> bool:
    """Whether there is nothing of it but another dialect's seal."""
    return not part.text and part.seal is not None and part.seal.origin != NAME


def write_reasoning(part: Reasoning) -> dict[str, Any]:
    if part.seal is not None and is_redacted(part):
        return _redacted(part.seal)
    return {"type": "thinking", "thinking": part.text, "signature": write_seal(part.seal)}


def _redacted(seal: Seal) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": carry(seal, through=NAME)}


def sealed(parts: Iterable[P], seals: Mapping[str, Seal]) -> tuple[P, ...]:
    """The calls with their seals, wherever those stood."""
    if not seals:
        return tuple(parts)
    return tuple(
        msgspec.structs.replace(part, seal=seals[part.id]) if isinstance(part, ToolCall) and part.id in seals else part for part in parts
    )
