"""Tool calls in messages of chat: functions, custom tools, and the signatures that go with them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import decode_carrier, encode_carrier
from providers.canonical.chat import OpaqueState, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.response_schema import Function, WireToolCall, arguments_text, call_id_or_new


class _Google(Struct):
    thought_signature: str | None = None


class _Narthex(Struct):
    seal: str | None = None


class _ExtraContent(Struct):
    google: _Google | None = None
    narthex: _Narthex | None = None


_decode_extra_content = msgspec.json.Decoder(_ExtraContent).decode
_NO_FUNCTION = Function()


def read_tool_calls(calls: Iterable[WireToolCall]) -> Iterator[ToolCall]:
    """The calls of a response, without those of which there is nothing. Raises InvalidUpstreamResponse for one without a name."""
    for wire in calls:
        call = read_tool_call(wire)
        if call.name:
            yield call
        elif call.arguments not in ("", "{}"):
            raise InvalidUpstreamResponse("The engine sent a tool call without a name.")


def read_tool_call(call: WireToolCall) -> ToolCall:
    """A call. Without arguments they are an empty object: whoever gets them parses them."""
    if call.custom is not None:
        return ToolCall(
            call_id_or_new(call.id),
            call.custom.name or "",
            call.custom.input or "",
            custom=True,
            opaque_state=read_opaque_state(call.extra_content),
        )
    function = call.function or _NO_FUNCTION
    return ToolCall(
        call_id_or_new(call.id),
        function.name or "",
        _or_empty_object(arguments_text(function)),
        opaque_state=read_opaque_state(call.extra_content),
    )


def _or_empty_object(arguments: str) -> str:
    return arguments if arguments and not arguments.isspace() else "{}"


def join_name(known: str, piece: str | None) -> str:
    """A name that comes in pieces, or again and again as a whole, as far as it is known."""
    if not piece or piece == known:
        return known
    return piece if piece.startswith(known) else known + piece


def starts_new_call(current_id: str | None, fragments: Sequence[str], id: str | None, name: str | None, fragment: str) -> bool:
    """Whether a delta with the index of a known call starts another call: some engines give all their calls the same index.

    `current_id` and `fragments` (of the arguments) are those of the known call; `id`, `name` and `fragment` those of the delta.
    """
    if not name:
        return False
    return id != current_id if id else fragment.lstrip().startswith("{") and is_complete_json(fragments)


def is_complete_json(fragments: Sequence[str]) -> bool:
    """Whether the fragments so far are a JSON object."""
    arguments = "".join(fragments)
    if not arguments.startswith("{"):
        return False
    try:
        msgspec.json.decode(arguments)
    except DECODE_ERRORS:
        return False
    return True


def read_opaque_state(extra_content: Raw) -> OpaqueState | None:
    """The signature of a tool call. Google puts thought signatures there, and we put those of other dialects there.

    Source: https://ai.google.dev/gemini-api/docs/thought-signatures, read 2026-11.
    """
    if extra_content is NULL or extra_content == NULL:
        return None
    try:
        parsed = _decode_extra_content(extra_content)
    except DECODE_ERRORS:
        return None
    if parsed.google is not None and parsed.google.thought_signature:
        return OpaqueState("gemini", parsed.google.thought_signature)
    return decode_carrier(parsed.narthex.seal, caller_dialect=DIALECT) if parsed.narthex is not None and parsed.narthex.seal else None


def write_tool_call(call: ToolCall) -> dict[str, Any]:
    if call.custom:
        written: dict[str, Any] = {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    else:
        written = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    return written if call.opaque_state is None else {**written, "extra_content": write_opaque_state(call.opaque_state)}


def write_opaque_state(opaque_state: OpaqueState) -> dict[str, Any]:
    if opaque_state.origin == "gemini":
        return {"google": {"thought_signature": opaque_state.data}}
    return {"narthex": {"seal": encode_carrier(opaque_state, caller_dialect=DIALECT)}}
