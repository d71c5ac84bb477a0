"""Signatures, and parts that only their host can read, in the blocks that clients send back: `thought` and `unknown`.

What an Opaque part holds is the `data` of an `unknown` block whose `provider_name` is `narthex::` and the dialect that it is of. The
signature of a tool call has an `unknown` block of its own before the call, with the call's id.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import PREFIX, decode_carrier, encode_carrier
from providers.canonical.chat import Opaque, OpaqueState
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.tensorzero_inference.dialect_name import DIALECT
from providers.dialects.tensorzero_inference.request_schema import Block

_ORIGIN_PREFIX = "narthex::"
_CALL_STATE = "narthex::call_state"
# The dialect of signatures that TensorZero passed on as they were, by the `provider_type` that it gave them.
_SIGNED_BY = {"anthropic": "anthropic_messages", "aws_bedrock": "anthropic_messages", "gcp_vertex_anthropic": "anthropic_messages"}


class CallState(Struct, frozen=True):
    call_id: str
    state: OpaqueState


class _CarriedCallState(Struct):
    type: str
    call: str
    state: str


_call_state_decoder = msgspec.json.Decoder(_CarriedCallState)


def write_signature(state: OpaqueState) -> str:
    return encode_carrier(state, caller_dialect=DIALECT)


def read_signature(signature: str | None, provider_type: str | None) -> OpaqueState | None:
    """Returns the state in a signature, or None if there is none or nobody knows whose it is."""
    if not signature:
        return None
    if signature.startswith(PREFIX):
        return decode_carrier(signature, caller_dialect=DIALECT)
    origin = _SIGNED_BY.get(provider_type or "")
    return None if origin is None else OpaqueState(origin, signature)


def write_opaque(part: Opaque) -> dict[str, Any]:
    return {"type": "unknown", "data": part.raw, "provider_name": _ORIGIN_PREFIX + part.origin}


def write_call_state(call_id: str, state: OpaqueState) -> dict[str, Any]:
    carried = _CarriedCallState(_CALL_STATE, call_id, write_signature(state))
    return {"type": "unknown", "data": carried, "provider_name": _CALL_STATE}


def read_unknown(block: Block, path: str) -> Opaque | CallState:
    """A block of type `unknown`. One without a provider is a part as OpenAI's chat has it. Raises InvalidRequest for one of another."""
    name = block.provider_name
    if name == _CALL_STATE:
        try:
            carried = _call_state_decoder.decode(block.data)
        except DECODE_ERRORS:
            raise InvalidRequest(f"`{path}.data` is not what this gateway wrote there.", param=f"{path}.data") from None
        return CallState(carried.call, decode_carrier(carried.state, caller_dialect=DIALECT))
    if name is not None and name.startswith(_ORIGIN_PREFIX):
        return Opaque(name.removeprefix(_ORIGIN_PREFIX), Raw(block.data))
    if name is not None or block.model_name is not None:
        raise InvalidRequest(
            f"`{path}`: blocks of type unknown cannot be for one model or provider only. Leave the block out, or `model_name` and "
            "`provider_name`.",
            param=path,
        )
    return Opaque("openai_chat", Raw(block.data))
