"""Operations: calls of an engine beside inference, such as sleep, and how arguments become their path, query and body."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from providers.canonical.errors import InvalidRequest

ArgumentType = Literal["string", "integer", "number", "boolean", "object", "array", "any"]
ArgumentLocation = Literal["body", "query", "nowhere"]


class Argument(NamedTuple):
    """An argument of an operation, by the engine's own name. Location "nowhere": the engine has no such field."""

    type_name: ArgumentType = "any"
    required: bool = False
    location: ArgumentLocation = "body"


class Operation(Struct, frozen=True):
    """One operation of one engine."""

    method: Literal["GET", "POST"]
    paths: tuple[str, ...]  # tried in this order until one exists
    arguments: Mapping[str, Argument] = {}
    fixed_body: Mapping[str, Any] = {}  # fields that are always sent
    accepts_any_field: bool = False  # whether it takes fields beyond `arguments`, for calls with very many
    model_field: str | None = None  # the field for the target's model
    # how the engine has to be started, by the status that it answers otherwise; 404 counts only where the route does not exist
    startup_requirements: Mapping[int, str] = {}
    on_one_endpoint: bool = False  # whether it is sent to a single endpoint
    needs_confirmation: bool = False  # whether it cannot be undone
    exactly_one_of: tuple[str, ...] = ()  # exactly one of these arguments has to be set (true, or not empty); the others are not sent


# Why an engine has no operation `abort`.
ABORTED_BY_CLOSING = "this engine stops a request when its connection is closed."


class OperationCall(NamedTuple):
    """A call to send: the paths with their query, below the server's root, and the body."""

    method: str
    paths: tuple[str, ...]
    body: bytes


class EngineOperations(Struct, frozen=True):
    """The operations of an engine, and why it lacks those that other engines have."""

    operations: Mapping[str, Operation]
    unavailable: Mapping[str, str] = {}


def string_argument(*, required: bool = False, location: ArgumentLocation = "body") -> Argument:
    return Argument("string", required, location)


def integer_argument(*, required: bool = False, location: ArgumentLocation = "body") -> Argument:
    return Argument("integer", required, location)


def boolean_argument(*, location: ArgumentLocation = "body") -> Argument:
    return Argument("boolean", False, location)


def array_argument(*, required: bool = False, location: ArgumentLocation = "body") -> Argument:
    return Argument("array", required, location)


def object_argument(*, required: bool = False) -> Argument:
    return Argument("object", required)


_PYTHON_TYPES: Mapping[ArgumentType, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def build_call(name: str, operation: Operation, values: Mapping[str, Any], model: str) -> OperationCall:
    """The call with these arguments. Raises InvalidRequest for missing or unknown ones, wrong types, and for a stream."""
    for key, argument in operation.arguments.items():
        if argument.required and values.get(key) is None:
            raise InvalidRequest(f"`{name}` needs `{key}`.", param=key)
    if operation.accepts_any_field and values.get("stream"):
        raise InvalidRequest(f"`{name}` is never streamed: leave `stream` out.", param="stream")
    body: dict[str, Any] = dict(operation.fixed_body)
    query: list[tuple[str, str]] = []
    for key, value in values.items():
        argument = operation.arguments.get(key, Argument() if operation.accepts_any_field else None)
        if argument is None:
            allowed = ", ".join(operation.arguments) or "none"
            raise InvalidRequest(f"`{name}` has no argument {key!r:.60} at this engine. It has: {allowed}.", param=key[:60])
        if value is None:
            continue
        if not _has_type(value, argument.type_name):
            raise InvalidRequest(f"`{key}` of `{name}` must be of type {argument.type_name}.", param=key[:60])
        if argument.location == "nowhere" or (key in operation.exactly_one_of and not _is_set(value)):
            continue
        if argument.location == "body":
            body[key] = value
        else:
            items = cast("list[object]", value if isinstance(value, list) else [value])
            if not all(isinstance(each, str | int | float) for each in items):
                raise InvalidRequest(f"`{key}` of `{name}` must be a list of strings or numbers.", param=key[:60])
            query += [(key, _query_value(each)) for each in items]
    if operation.exactly_one_of and len([key for key in operation.exactly_one_of if _is_set(values.get(key))]) != 1:
        raise InvalidRequest(
            f"`{name}` needs exactly one of these: {', '.join(operation.exactly_one_of)}.", param=operation.exactly_one_of[0]
        )
    if operation.model_field is not None:
        body.setdefault(operation.model_field, model)
    query_string = f"?{urlencode(query)}" if query else ""
    encoded = msgspec.json.encode(body) if operation.method == "POST" else b""
    return OperationCall(operation.method, tuple(path + query_string for path in operation.paths), encoded)


def _has_type(value: Any, type_name: ArgumentType) -> bool:
    types = _PYTHON_TYPES.get(type_name)
    return types is None or (isinstance(value, types) and (type_name == "boolean" or not isinstance(value, bool)))


def _is_set(value: Any) -> bool:
    """Numbers are set, 0 too."""
    return bool(value) or type(value) is int


def _query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
