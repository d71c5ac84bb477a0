"""The byte edit's one cure: calls of tools that engines tell otherwise than OpenAI does, so that official clients put them together wrong.

What strays is written anew: an index that is missing or another call's, an id or arguments that are missing at a call's beginning, and
whatever clients would append to what they have: an id or a name told again. All else, and all of who tells it right, stays as it came.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from providers.dialects.openai_chat.calls import begins
from providers.dialects.openai_chat.shapes import call_id
from providers.wire import NULL

_EMPTY = Raw(b'""')


class _Function(Struct):
    name: str | None = None
    arguments: Raw = NULL


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    type: str | UnsetType | None = UNSET
    function: _Function | None = None
    custom: Raw = NULL


class _Said(Struct):
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Said | None = None
    message: _Said | None = None


_NO_FUNCTION = _Function()
_typed = msgspec.json.Decoder(list[_Choice]).decode
_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode

MARK = b'"tool_calls"'


class _Cure(Struct):
    """Keys of a call, and of its function, with what they are to be; UNSET: they are to go."""

    outer: dict[str, Any]
    function: dict[str, Any]


# By the places of the choice and of the call.
_Cures = Mapping[tuple[int, int], _Cure]


def cured(choices: bytes) -> bytes:
    """Choices of a whole answer."""
    try:
        told = _typed(choices)
    except msgspec.ValidationError:
        return choices
    cures: dict[tuple[int, int], _Cure] = {}
    for number, choice in enumerate(told):
        for at, call in enumerate((choice.message and choice.message.tool_calls) or ()):
            outer = _begun(call)
            function = _arguments(call.function, begins=True)
            if outer or function:
                cures[number, at] = _Cure(outer, function)
    return _written(choices, "message", cures) if cures else choices


def calling(choices: bytes, inside: Literal["message", "delta"]) -> frozenset[int]:
    """Which of the choices make a call here, by their index."""
    try:
        told = _typed(choices)
    except msgspec.ValidationError:
        return frozenset()
    said = ((choice.index or 0, choice.message if inside == "message" else choice.delta) for choice in told)
    return frozenset(index for index, each in said if each is not None and each.tool_calls)


class _Known(Struct):
    """A call as the client knows it: its number, and what has come of it: `fragments` of its arguments."""

    at: int
    id: str | None
    fragments: list[str]
    named: bool = False


class Strays:
    """The calls of one stream."""

    def __init__(self) -> None:
        # By choice and by the engine's index: the call that it is now.
        self._calls: dict[tuple[int, int], _Known] = {}
        self._taken: dict[int, set[int]] = {}

    def cured(self, choices: bytes) -> bytes:
        """Choices of a chunk."""
        try:
            told = _typed(choices)
        except msgspec.ValidationError:
            return choices
        cures: dict[tuple[int, int], _Cure] = {}
        for number, choice in enumerate(told):
            for at, call in enumerate((choice.delta and choice.delta.tool_calls) or ()):
                cure = self._cure(choice.index or 0, at, call)
                if cure is not None:
                    cures[number, at] = cure
        return _written(choices, "delta", cures) if cures else choices

    def _cure(self, choice: int, at: int, call: _Call) -> _Cure | None:
        index = at if call.index is None else call.index
        known = self._calls.get((choice, index))
        function = call.function or _NO_FUNCTION
        fragment = _text(function.arguments)
        if known is None or begins(known.id, known.fragments, call.id, function.name, fragment):
            taken = self._taken.setdefault(choice, set())
            known = self._calls[choice, index] = _Known(index if index not in taken else max(taken) + 1, call.id, [])
            taken.add(known.at)
            outer, inner = _begun(call), _arguments(call.function, begins=True)
        else:
            outer, inner = _goes_on(call), _arguments(call.function, begins=False)
            if known.named and function.name is not None:
                inner["name"] = UNSET
        known.named = known.named or bool(function.name)
        known.fragments.append(fragment)
        if call.index != known.at:
            outer["index"] = known.at
        return _Cure(outer, inner) if outer or inner else None


def _begun(call: _Call) -> dict[str, Any]:
    outer: dict[str, Any] = {}
    if not call.id:
        outer["id"] = call_id(None)
    if not call.type:
        outer["type"] = "function" if call.custom == NULL else "custom"
    return outer


def _goes_on(call: _Call) -> dict[str, Any]:
    """The official client takes the last type that it is told, and appends ids."""
    outer: dict[str, Any] = {}
    if call.id is not None:
        outer["id"] = UNSET
    if call.type is not UNSET and not call.type:
        outer["type"] = UNSET
    return outer


def _arguments(function: _Function | None, *, begins: bool) -> dict[str, Any]:
    if function is None:
        return {}
    if function.arguments == NULL:
        return {"arguments": _EMPTY} if begins else {}
    return {} if _is_text(function.arguments) else {"arguments": _text(function.arguments)}


def _is_text(arguments: Raw) -> bool:
    return bytes(arguments).startswith(b'"')


def _text(arguments: Raw) -> str:
    """Of an object, as engines tell it that have parsed them, its JSON."""
    if arguments == NULL:
        return ""
    return msgspec.json.decode(arguments) if _is_text(arguments) else bytes(arguments).decode()


def _written(choices: bytes, inside: str, cures: _Cures) -> bytes:
    told: list[dict[str, Any]] = _objects(choices)
    for number, choice in enumerate(told):
        mine = {at: cure for (of, at), cure in cures.items() if of == number}
        if mine:
            said = _object(choice[inside])
            calls = [_changed(call, mine[at]) if at in mine else call for at, call in enumerate(_objects(said["tool_calls"]))]
            choice[inside] = {**said, "tool_calls": calls}
    return msgspec.json.encode(told)


def _changed(call: dict[str, Raw], cure: _Cure) -> dict[str, Any]:
    changed = _merged(call, cure.outer)
    if cure.function:
        changed["function"] = _merged(_object(call["function"]), cure.function)
    return changed


def _merged(told: Mapping[str, Raw], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**told, **changes}.items() if value is not UNSET}
