"""Repairs tool calls that differ from OpenAI's format, so that official clients put them together correctly.

Repairs: missing or wrong indexes; missing ids and arguments; repeated ids and names, which clients would concatenate; names that come
late, for some clients (the AI SDK) need one at the start of a call. Everything else stays the engine's own bytes.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import NULL
from providers.dialects.openai_chat.response_schema import call_id_or_new
from providers.dialects.openai_chat.tool_calls import join_name, starts_new_call

_EMPTY = Raw(b'""')
_EMPTY_OBJECT = "{}"


class _Function(Struct):
    name: str | None = None
    arguments: Raw = NULL


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    type: str | UnsetType | None = UNSET
    function: _Function | None = None
    custom: Raw = NULL


class _Message(Struct):
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None


_NO_FUNCTION = _Function()
_decode_typed = msgspec.json.Decoder(list[_Choice]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode

TOOL_CALLS_KEY = b'"tool_calls"'


class _Repair(Struct):
    """The changes of a tool call's fields and of its function's fields. UNSET removes a field."""

    call_changes: dict[str, Any]
    function_changes: dict[str, Any]
    is_held: bool = False  # whether the call is left out


# By the positions of the choice and of the tool call.
_Repairs = Mapping[tuple[int, int], _Repair]


def repair_tool_calls(choices: bytes) -> bytes:
    """The choices of a complete response, repaired; the same object if nothing has to change."""
    try:
        typed = _decode_typed(choices)
    except msgspec.ValidationError:
        return choices
    repairs: dict[tuple[int, int], _Repair] = {}
    for choice_index, choice in enumerate(typed):
        for call_index, call in enumerate((choice.message and choice.message.tool_calls) or ()):
            call_changes = _missing_call_fields(call)
            function_changes = _argument_changes(call.function, missing=_EMPTY_OBJECT)
            if call_changes or function_changes:
                repairs[choice_index, call_index] = _Repair(call_changes, function_changes)
    return _apply_repairs(choices, "message", repairs) if repairs else choices


def choices_with_calls(choices: bytes, message_key: Literal["message", "delta"]) -> frozenset[int]:
    """The indexes of the choices that have tool calls in these bytes."""
    try:
        typed = _decode_typed(choices)
    except msgspec.ValidationError:
        return frozenset()
    messages = ((choice.index or 0, choice.message if message_key == "message" else choice.delta) for choice in typed)
    return frozenset(index for index, each in messages if each is not None and each.tool_calls)


class _ClientCall(Struct):
    """A tool call as the client knows it, with the index that the client got and the argument fragments so far."""

    index: int
    id: str | None
    fragments: list[str]
    name: str = ""  # as far as it was sent; a call without one is held
    has_arguments: bool = False  # whether the engine has sent some, if only an empty string


class ToolCallRepair:
    """Repairs the tool calls of a stream. One per stream."""

    def __init__(self) -> None:
        self.awaits_end = False  # whether a call lacks its name or its arguments, which its end brings
        # (choice, engine's index) -> the current call.
        self._calls: dict[tuple[int, int], _ClientCall] = {}
        self._used_indexes: dict[int, set[int]] = {}

    def repair_chunk(self, choices: bytes) -> bytes:
        """The choices of a chunk, repaired; the same object if nothing has to change."""
        try:
            typed = _decode_typed(choices)
        except msgspec.ValidationError:
            return choices
        repairs: dict[tuple[int, int], _Repair] = {}
        for choice_index, choice in enumerate(typed):
            for call_index, call in enumerate((choice.delta and choice.delta.tool_calls) or ()):
                repair = self._repair_call(choice.index or 0, call_index, call)
                if repair is not None:
                    repairs[choice_index, call_index] = repair
        if repairs:
            choices = _apply_repairs(choices, "delta", repairs)
        self.awaits_end = any(not call.name or not call.has_arguments for call in self._calls.values())
        return self._end_calls(choices, typed) if self.awaits_end else choices

    def _end_calls(self, choices: bytes, typed: list[_Choice]) -> bytes:
        """The choices with `{}` as the arguments of calls that got none, where their choice ends.

        Raises InvalidUpstreamResponse for a call with arguments and without a name. One without both was none.
        """
        added: dict[int, list[dict[str, Any]]] = {}
        for choice_index, choice in enumerate(typed):
            for position in [each for each in self._calls if each[0] == (choice.index or 0)] if choice.finish_reason else ():
                call = self._calls.pop(position)
                if not call.name:
                    if "".join(call.fragments).strip():
                        raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
                elif not call.has_arguments:
                    added.setdefault(choice_index, []).append({"index": call.index, "function": {"arguments": _EMPTY_OBJECT}})
        if not added:
            return choices
        decoded: list[dict[str, Any]] = _decode_objects(choices)
        for choice_index, calls in added.items():
            delta = decoded[choice_index].get("delta", NULL)
            fields: dict[str, Any] = {} if delta == NULL else dict(_decode_object(delta))
            earlier = fields.get("tool_calls", NULL)
            decoded[choice_index]["delta"] = {**fields, "tool_calls": [*([] if earlier == NULL else _decode_objects(earlier)), *calls]}
        return msgspec.json.encode(decoded)

    def _repair_call(self, choice: int, call_index: int, call: _Call) -> _Repair | None:
        index = call_index if call.index is None else call.index
        client_call = self._calls.get((choice, index))
        function = call.function or _NO_FUNCTION
        fragment = _arguments_text(function.arguments)
        is_custom = call.custom != NULL
        if client_call is None or (
            (client_call.name or (client_call.id and call.id))
            and starts_new_call(client_call.id, client_call.fragments, call.id, function.name, fragment)
        ):
            used = self._used_indexes.setdefault(choice, set())
            client_call = self._calls[choice, index] = _ClientCall(index if index not in used else max(used) + 1, call.id, [])
            used.add(client_call.index)
            if is_custom:
                client_call.name, client_call.has_arguments = "custom", True
            call_changes, function_changes = _missing_call_fields(call), _argument_changes(call.function, missing=_EMPTY)
        elif not client_call.name:
            call_changes, function_changes = _missing_call_fields(call), _argument_changes(call.function, missing=_EMPTY)
            client_call.id = client_call.id or call.id
            if client_call.id:
                call_changes["id"] = client_call.id
            if client_call.fragments:
                function_changes["arguments"] = "".join(client_call.fragments) + fragment
        else:
            call_changes, function_changes = _repeated_call_fields(call), _argument_changes(call.function, missing=None)
            if function.name is not None:
                function_changes |= _name_changes(client_call, function.name)
        client_call.has_arguments = client_call.has_arguments or function.arguments != NULL
        if fragment:
            client_call.fragments.append(fragment)
        if not client_call.name:
            if not function.name:
                return _Repair({}, {}, is_held=True)
            client_call.name = function.name
        if call.index != client_call.index:
            call_changes["index"] = client_call.index
        return _Repair(call_changes, function_changes) if call_changes or function_changes else None


def _missing_call_fields(call: _Call) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if not call.id:
        changes["id"] = call_id_or_new(None)
    if not call.type:
        changes["type"] = "function" if call.custom == NULL else "custom"
    return changes


def _repeated_call_fields(call: _Call) -> dict[str, Any]:
    """Removes a repeated id and an empty type: the official client concatenates ids and takes the last type."""
    changes: dict[str, Any] = {}
    if call.id is not None:
        changes["id"] = UNSET
    if call.type is not UNSET and not call.type:
        changes["type"] = UNSET
    return changes


def _name_changes(call: _ClientCall, name: str) -> dict[str, Any]:
    """Returns the changes to one more name, for a client that concatenates names.

    The client gets nothing of a name that it has already, and the rest of a name that has grown.
    """
    if not name or name == call.name or any(call.fragments):
        return {"name": UNSET}
    piece, call.name = join_name(call.name, name).removeprefix(call.name), join_name(call.name, name)
    return {} if piece == name else {"name": piece}


def _argument_changes(function: _Function | None, *, missing: Raw | str | None) -> dict[str, Any]:
    """The change that makes a call's arguments a text. `missing` stands for arguments that are null or left out; None: nothing has to."""
    if function is None:
        return {}
    if function.arguments == NULL:
        return {} if missing is None else {"arguments": missing}
    return {} if _is_string(function.arguments) else {"arguments": _arguments_text(function.arguments)}


def _is_string(arguments: Raw) -> bool:
    return bytes(arguments).startswith(b'"')


def _arguments_text(arguments: Raw) -> str:
    """The arguments as a string. Engines that parse them send an object."""
    if arguments == NULL:
        return ""
    return msgspec.json.decode(arguments) if _is_string(arguments) else bytes(arguments).decode()


def _apply_repairs(choices: bytes, message_key: str, repairs: _Repairs) -> bytes:
    decoded: list[dict[str, Any]] = _decode_objects(choices)
    for choice_index, choice in enumerate(decoded):
        choice_repairs = {call_index: repair for (each_choice, call_index), repair in repairs.items() if each_choice == choice_index}
        if choice_repairs:
            message = _decode_object(choice[message_key])
            calls = [
                _apply_repair(call, choice_repairs[call_index]) if call_index in choice_repairs else call
                for call_index, call in enumerate(_decode_objects(message["tool_calls"]))
                if call_index not in choice_repairs or not choice_repairs[call_index].is_held
            ]
            choice[message_key] = {**message, "tool_calls": calls}
            if not calls:
                del choice[message_key]["tool_calls"]
    return msgspec.json.encode(decoded)


def _apply_repair(call: dict[str, Raw], repair: _Repair) -> dict[str, Any]:
    changed = _merge(call, repair.call_changes)
    if repair.function_changes:
        changed["function"] = _merge(_decode_object(call["function"]), repair.function_changes)
    return changed


def _merge(fields: Mapping[str, Raw], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**fields, **changes}.items() if value is not UNSET}
