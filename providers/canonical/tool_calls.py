"""Ids and arguments of tool calls, for dialects whose arguments are a JSON object.

The canonical model keeps arguments as the string that the model wrote, which need not be JSON. A string that is no JSON object
travels in an object of one key, `_unparsed`, and is taken out again when a caller sends it back.
"""

import uuid
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import DECODE_ERRORS, NULL

_UNPARSED = "_unparsed"

_object = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


def new_call_id() -> str:
    """An id for a call to which the engine gave none."""
    return f"call_{uuid.uuid4().hex[:24]}"


def write_arguments(arguments: str, *, custom: bool = False) -> Any:
    """The arguments as a JSON object. If they are `custom`, they are free text, even if they look like JSON."""
    if not arguments.strip():
        return {}
    return {_UNPARSED: arguments} if custom or not is_json_object(arguments) else Raw(arguments.encode())


def write_call_input(arguments: str, *, custom: bool) -> Any:
    """The input of a call in a history, as a JSON object. A `custom` call, of a tool for free text, is written as a function's.

    Sessions that move to another model have such calls behind them: vm0-ai/vm0#28274, awsl-project/maxx#813, read 2026-11.
    """
    return {"input": arguments} if custom else write_arguments(arguments)


def read_arguments(raw: Raw) -> str:
    """The reverse of write_arguments. Null counts as an empty object. Raises msgspec.ValidationError for anything else."""
    if raw == NULL:
        return "{}"
    fields = _object.decode(raw)
    if len(fields) == 1 and _UNPARSED in fields and bytes(fields[_UNPARSED]).startswith(b'"'):
        return _string.decode(fields[_UNPARSED])
    return bytes(raw).decode()


def is_json_object(arguments: str) -> bool:
    try:
        _object.decode(arguments)
    except DECODE_ERRORS:
        return False
    return True


def is_unparsed(fragment: str) -> bool:
    """Whether a fragment of a stream is the complete `_unparsed` object that write_arguments makes."""
    return fragment.startswith(f'{{"{_UNPARSED}":') and is_json_object(fragment)
