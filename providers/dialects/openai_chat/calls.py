"""Calls of tools as chat writes them in messages: functions, custom tools, and the seals that go with them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.carrier import carried, carry
from providers.chat import Seal, ToolCall
from providers.dialects.openai_chat.shapes import Call, Function, arguments, call_id
from providers.wire import NULL, UNREADABLE

_NAME = "openai_chat"


class _Google(Struct):
    thought_signature: str | None = None


class _Ours(Struct):
    seal: str | None = None


class _Extra(Struct):
    google: _Google | None = None
    narthex: _Ours | None = None


_read_extra = msgspec.json.Decoder(_Extra).decode
_NO_FUNCTION = Function()


def read_call(call: Call) -> ToolCall:
    if call.custom is not None:
        return ToolCall(call_id(call.id), call.custom.name or "", call.custom.input or "", custom=True, seal=read_seal(call.extra_content))
    function = call.function or _NO_FUNCTION
    return ToolCall(call_id(call.id), function.name or "", arguments(function), seal=read_seal(call.extra_content))


def begins(known_id: str | None, fragments: Sequence[str], id: str | None, name: str | None, fragment: str) -> bool:
    """Whether what comes under the index of a known call begins another: some engines give all calls the same, each whole.

    `fragments`: of the known call's arguments. `id`, `name` and `fragment`: what comes now.
    """
    if not name:
        return False
    return id != known_id if id else fragment.lstrip().startswith("{") and is_whole(fragments)


def is_whole(fragments: Sequence[str]) -> bool:
    """Whether arguments are a JSON object already."""
    arguments = "".join(fragments)
    if not arguments.startswith("{"):
        return False
    try:
        msgspec.json.decode(arguments)
    except UNREADABLE:
        return False
    return True


def read_seal(extra_content: Raw) -> Seal | None:
    """Google says thought signatures there, and so do we what other dialects seal calls with.

    Source: https://ai.google.dev/gemini-api/docs/thought-signatures, read 2026-11.
    """
    if extra_content is NULL or extra_content == NULL:
        return None
    try:
        told = _read_extra(extra_content)
    except UNREADABLE:
        return None
    if told.google is not None and told.google.thought_signature:
        return Seal("gemini", told.google.thought_signature)
    return carried(told.narthex.seal, through=_NAME) if told.narthex is not None and told.narthex.seal else None


def write_call(call: ToolCall) -> dict[str, Any]:
    if call.custom:
        told: dict[str, Any] = {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    else:
        told = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    return told if call.seal is None else {**told, "extra_content": write_seal(call.seal)}


def write_seal(seal: Seal) -> dict[str, Any]:
    if seal.origin == "gemini":
        return {"google": {"thought_signature": seal.data}}
    return {"narthex": {"seal": carry(seal, through=_NAME)}}
