"""Signatures and opaque parts, and those of other dialects carried through a caller of Messages.

What another dialect issued travels in fields that clients send back unread: the signature of a thinking block, or the data of a redacted
block. A redacted block carries a complete part, reasoning that is nothing but a signature, or the signature of a call.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import decode_carrier, encode_carrier
from providers.canonical.chat import Opaque, OpaqueState, Reasoning, ToolCall
from providers.canonical.opaque_parts import opaque_kind
from providers.canonical.raw_json import DECODE_ERRORS

NAME = "anthropic_messages"

# Prefixes the keys of a block's source among the extra fields of a part.
SOURCE_PREFIX = "source."

# The signature of unsigned reasoning: an empty state of another dialect, which is read back as None.
_NO_SIGNATURE = encode_carrier(OpaqueState("openai_chat", ""), caller_dialect=NAME)

P = TypeVar("P")


class CallState(Struct, frozen=True):
    """The signature of a call, which has a block of its own."""

    call_id: str
    origin: str
    data: str


class _CarriedCallState(Struct):
    """The content of such a block. Callers send it back, so that its keys must not change."""

    call: str
    seal: str


_call_state_decoder = msgspec.json.Decoder(_CarriedCallState)


def read_signature(signature: str) -> OpaqueState | None:
    opaque_state = decode_carrier(signature, caller_dialect=NAME)
    return opaque_state if opaque_state.data else None


def write_signature(opaque_state: OpaqueState | None) -> str:
    return _NO_SIGNATURE if opaque_state is None else encode_carrier(opaque_state, caller_dialect=NAME)


def read_redacted(data: str, raw: Raw) -> Opaque | Reasoning | CallState:
    """The content of a redacted block. `raw` is the block itself, which is kept if Anthropic issued it."""
    opaque_state = decode_carrier(data, caller_dialect=NAME)
    if opaque_state.origin == NAME:
        return Opaque(NAME, raw)
    carried_part = Raw(opaque_state.data.encode())
    if opaque_kind(carried_part):
        return Opaque(opaque_state.origin, carried_part)
    try:
        call_state = _call_state_decoder.decode(opaque_state.data)
    except DECODE_ERRORS:
        return Reasoning("", opaque_state)
    return CallState(call_state.call, opaque_state.origin, call_state.seal)


def write_opaque(part: Opaque) -> Any:
    return part.raw if part.origin == NAME else _redacted(OpaqueState(part.origin, bytes(part.raw).decode()))


def write_call_state(id: str, opaque_state: OpaqueState) -> dict[str, Any]:
    return _redacted(OpaqueState(opaque_state.origin, msgspec.json.encode(_CarriedCallState(id, opaque_state.data)).decode()))


def is_redacted(part: Reasoning) -> bool:
    """Whether the reasoning is nothing but a signature of another dialect."""
    return not part.text and part.opaque_state is not None and part.opaque_state.origin != NAME


def write_reasoning(part: Reasoning) -> dict[str, Any]:
    if part.opaque_state is not None and is_redacted(part):
        return _redacted(part.opaque_state)
    return {"type": "thinking", "thinking": part.text, "signature": write_signature(part.opaque_state)}


def _redacted(opaque_state: OpaqueState) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": encode_carrier(opaque_state, caller_dialect=NAME)}


def attach_call_states(parts: Iterable[P], call_states: Mapping[str, OpaqueState]) -> tuple[P, ...]:
    """The parts, with the signatures of calls, by id, in those calls."""
    if not call_states:
        return tuple(parts)
    return tuple(
        msgspec.structs.replace(part, opaque_state=call_states[part.id]) if isinstance(part, ToolCall) and part.id in call_states else part
        for part in parts
    )
