"""Thought signatures, and state of other dialects carried through a caller of Gemini in their place.

A signature is base64, which SDKs decode and encode again. So a carrier (providers/canonical/carrier.py) is written as base64 too, and all
carriers begin alike. Clients such as the Gemini CLI leave thoughts out of what they send back, but keep the signatures of calls: that of
the first call of a turn therefore carries the reasoning before it as well, as parts.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import TypeGuard

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import PREFIX, decode_carrier, encode_carrier
from providers.canonical.chat import Opaque, OpaqueState, Part, Reasoning
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.gemini.opaque_parts import NAME

# The beginning of `nx1.` and a letter in base64: its last character has two bits of the letter.
_BASE64_PREFIX = "bngxL"
_BASE64_PREFIX_BYTES = _BASE64_PREFIX.encode()
# The origin of a carrier that holds parts, and perhaps the state of the call that it came with.
_PARTS = "narthex_parts"
_PART = "narthex_part"


class _CarriedPart(Struct, omit_defaults=True):
    """Reasoning, or a part that only its origin reads (`raw`)."""

    origin: str = ""
    text: str = ""
    data: str | None = None
    raw: Raw = NULL


class _CarriedParts(Struct, omit_defaults=True):
    """The parts before a call, and the state of the call itself."""

    parts: list[_CarriedPart]
    origin: str = ""
    data: str | None = None


class CallSignature(Struct, frozen=True):
    """The content of the signature of a call: the state of the call, and the reasoning before it."""

    state: OpaqueState | None
    parts: tuple[Reasoning | Opaque, ...] = ()


_parts_decoder = msgspec.json.Decoder(_CarriedParts)
_part_decoder = msgspec.json.Decoder(_CarriedPart)


def holds_signature_carrier(raw: bytes) -> bool:
    """Whether a body may hold a carrier in place of a signature."""
    return _BASE64_PREFIX_BYTES in raw


def write_signature(state: OpaqueState) -> str:
    """The signature for this state; one of Gemini's own is unchanged."""
    return state.data if state.origin == NAME else _encode(state)


def write_opaque(part: Opaque) -> str:
    """A part of another dialect as the signature of an empty thought."""
    return _encode(OpaqueState(_PART, msgspec.json.encode(_carry(part)).decode()))


def write_call_signature(state: OpaqueState | None, before: Sequence[Reasoning | Opaque]) -> str | None:
    """The signature of a call. Gemini's own stays as it is: a thought that Gemini wrote needs no other."""
    if state is not None and state.origin == NAME:
        return state.data
    if not before:
        return None if state is None else _encode(state)
    carried = _CarriedParts([_carry(part) for part in before])
    if state is not None:
        carried.origin, carried.data = state.origin, state.data
    return _encode(OpaqueState(_PARTS, msgspec.json.encode(carried).decode()))


def is_carried(part: Part) -> TypeGuard[Reasoning | Opaque]:
    """Whether a part belongs to another dialect, so that a call after it carries it."""
    if isinstance(part, Opaque):
        return part.origin != NAME
    return isinstance(part, Reasoning) and part.opaque_state is not None and part.opaque_state.origin != NAME


def read_signature(signature: str) -> OpaqueState:
    return _decode(signature)


def read_thought(text: str, signature: str | None) -> Reasoning | Opaque:
    """The thought with this signature."""
    state = _decode(signature) if signature else None
    if state is not None and state.origin == _PART:
        try:
            return _read_part(_part_decoder.decode(state.data))
        except DECODE_ERRORS:
            return Reasoning(text)  # somebody made it up
    return Reasoning(text, state)


def read_call_signature(signature: str | None) -> CallSignature:
    if not signature:
        return CallSignature(None)
    state = _decode(signature)
    if state.origin != _PARTS:
        return CallSignature(state)
    try:
        carried = _parts_decoder.decode(state.data)
    except DECODE_ERRORS:
        return CallSignature(None)
    own = None if carried.data is None else OpaqueState(carried.origin, carried.data)
    return CallSignature(own, tuple(_read_part(each) for each in carried.parts))


def _carry(part: Reasoning | Opaque) -> _CarriedPart:
    if isinstance(part, Opaque):
        return _CarriedPart(part.origin, raw=part.raw)
    state = part.opaque_state
    return _CarriedPart("" if state is None else state.origin, part.text, None if state is None else state.data)


def _read_part(carried: _CarriedPart) -> Reasoning | Opaque:
    if carried.raw != NULL:
        return Opaque(carried.origin, Raw(bytes(carried.raw)))
    return Reasoning(carried.text, None if carried.data is None else OpaqueState(carried.origin, carried.data))


def _encode(state: OpaqueState) -> str:
    return base64.b64encode(encode_carrier(state, caller_dialect=NAME).encode()).decode()


def _decode(signature: str) -> OpaqueState:
    if not signature.startswith(_BASE64_PREFIX):
        return OpaqueState(NAME, signature)
    try:
        text = base64.b64decode(signature.replace("-", "+").replace("_", "/") + "=" * (-len(signature) % 4)).decode()
    except (binascii.Error, ValueError):
        return OpaqueState(NAME, signature)
    return decode_carrier(text, caller_dialect=NAME) if text.startswith(PREFIX) else OpaqueState(NAME, signature)
