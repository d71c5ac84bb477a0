"""Complete responses of POST /inference, as they were recorded."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.carrier import decode_carrier
from providers.canonical.chat import ChatResponse, Choice, Opaque, OpaqueState, Part, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.tensorzero_inference.dialect_name import DIALECT
from providers.dialects.tensorzero_inference.finish_reasons import read_finish_reason
from providers.dialects.tensorzero_inference.opaque_states import CallState, read_unknown
from providers.dialects.tensorzero_inference.request_schema import Block
from providers.dialects.tensorzero_inference.response_schema import WireBlock, WireResponse
from providers.dialects.tensorzero_inference.usage import read_usage

_decode = msgspec.json.Decoder(WireResponse).decode


def read_response(raw: bytes) -> ChatResponse:
    """Raises InvalidUpstreamResponse for anything but a response."""
    try:
        response = _decode(raw)
    except DECODE_ERRORS as fault:
        raise InvalidUpstreamResponse(f"This is no response of /inference: {fault}.") from None
    if response.content is not None:
        parts = tuple(_read_blocks(response.content))
    elif response.output is not None:
        parts = (Text(response.output.raw),) if response.output.raw is not None else ()
    else:
        raise InvalidUpstreamResponse("This is no response of /inference: it has neither `content` nor `output`.")
    choice = Choice(parts, read_finish_reason(response.finish_reason))
    return ChatResponse((choice,), response.variant_name, usage=read_usage(response.usage))


def read_state(signature: str | None) -> OpaqueState | None:
    return decode_carrier(signature, caller_dialect=DIALECT) if signature else None


def read_unknown_block(block: WireBlock) -> Opaque | CallState:
    return read_unknown(Block("unknown", data=Raw(block.data), provider_name=block.provider_name), "content")


def _read_blocks(blocks: Iterable[WireBlock]) -> Iterator[Part]:
    states: dict[str, OpaqueState] = {}
    for block in blocks:
        match block.type:
            case "text":
                yield Text(block.text or "")
            case "thought":
                yield Reasoning(block.text or "", read_state(block.signature))
            case "tool_call":
                call = ToolCall(block.id or "", block.raw_name or "", block.raw_arguments or "")
                yield replace(call, opaque_state=states[call.id]) if call.id in states else call
            case _:
                unknown = read_unknown_block(block)
                if isinstance(unknown, CallState):
                    states[unknown.call_id] = unknown.state
                else:
                    yield unknown
