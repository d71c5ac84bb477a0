"""An engine's operation: its call, and how arguments become the path, the query and the body of it."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from providers.errors import Malformed

Kind = Literal["string", "integer", "number", "boolean", "object", "array", "any"]
Place = Literal["body", "query", "nowhere"]


class Argument(NamedTuple):
    """An argument that a caller may give, by the engine's own name for it; one that goes nowhere has no name there."""

    kind: Kind = "any"
    required: bool = False
    place: Place = "body"


class Operation(Struct, frozen=True):
    """`paths`: where it is, in turn until one is there. `fixed`: what is always in the body.

    `open`: takes fields that are not among `arguments`, for a call that has very many. `model_as`: the field for the target's model.
    `needs`: with what the engine must be started, by the status with which it says that it was not; 404 counts where no route is there.
    `once`: asked of one endpoint. `confirm`: must be confirmed, for it cannot be taken back. `either`: of these one must say something,
    and one alone: true, or what is not empty; the others are not sent.
    """

    method: Literal["GET", "POST"]
    paths: tuple[str, ...]
    arguments: Mapping[str, Argument] = {}
    fixed: Mapping[str, Any] = {}
    open: bool = False
    model_as: str | None = None
    needs: Mapping[int, str] = {}
    once: bool = False
    confirm: bool = False
    either: tuple[str, ...] = ()


class Call(NamedTuple):
    """What is sent: the path, with its query, below the server's root, and the body."""

    method: str
    paths: tuple[str, ...]
    body: bytes


class Offer(Struct, frozen=True):
    """What an engine can be told to do, and why it cannot be told what others can."""

    operations: Mapping[str, Operation]
    without: Mapping[str, str] = {}


def string(*, required: bool = False, place: Place = "body") -> Argument:
    return Argument("string", required, place)


def integer(*, required: bool = False, place: Place = "body") -> Argument:
    return Argument("integer", required, place)


def flag(*, place: Place = "body") -> Argument:
    return Argument("boolean", False, place)


def items(*, required: bool = False, place: Place = "body") -> Argument:
    return Argument("array", required, place)


def table(*, required: bool = False) -> Argument:
    return Argument("object", required)


_TYPES: Mapping[Kind, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def call(name: str, operation: Operation, said: Mapping[str, Any], model: str) -> Call:
    """The call with these arguments. Raises Malformed for those that are missing, unknown or of a wrong type, and for a stream."""
    for key, argument in operation.arguments.items():
        if argument.required and said.get(key) is None:
            raise Malformed(f"`{name}` needs `{key}`.", param=key)
    if operation.open and said.get("stream"):
        raise Malformed(f"`{name}` is answered whole: leave `stream` out.", param="stream")
    body: dict[str, Any] = dict(operation.fixed)
    query: list[tuple[str, str]] = []
    for key, value in said.items():
        argument = operation.arguments.get(key, Argument() if operation.open else None)
        if argument is None:
            known = ", ".join(operation.arguments) or "none"
            raise Malformed(f"`{name}` has no argument {key!r:.60} at this engine. It has: {known}.", param=key[:60])
        if value is None:
            continue
        if not _is_of(value, argument.kind):
            raise Malformed(f"`{key}` of `{name}` must be of type {argument.kind}.", param=key[:60])
        if argument.place == "nowhere" or (key in operation.either and not _says(value)):
            continue
        if argument.place == "body":
            body[key] = value
        else:
            words = cast("list[object]", value if isinstance(value, list) else [value])
            if not all(isinstance(each, str | int | float) for each in words):
                raise Malformed(f"`{key}` of `{name}` must be a list of words.", param=key[:60])
            query += [(key, _word(each)) for each in words]
    if operation.either and len([key for key in operation.either if _says(said.get(key))]) != 1:
        raise Malformed(f"`{name}` needs one of these, and one alone: {', '.join(operation.either)}.", param=operation.either[0])
    if operation.model_as is not None:
        body.setdefault(operation.model_as, model)
    tail = f"?{urlencode(query)}" if query else ""
    sent = msgspec.json.encode(body) if operation.method == "POST" else b""
    return Call(operation.method, tuple(path + tail for path in operation.paths), sent)


def _is_of(value: Any, kind: Kind) -> bool:
    types = _TYPES.get(kind)
    return types is None or (isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool)))


def _says(value: Any) -> bool:
    """A number does, 0 too."""
    return bool(value) or type(value) is int


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
