"""Bodies and query parameters of admin routes; an unknown name is an error that names it."""

import re
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta, inspect

from app.api.server.query_parameters import read_repeated_parameters
from app.process.decoding_errors import choices_at, field_names_at, in_plain_words, name_keys
from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import too_many_slow_numbers
from providers.canonical.slow_numbers import has_slow_numbers

T = TypeVar("T")

# A time in a query: parse_time() reads it.
TimeText = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, description="ISO 8601; without a zone it is UTC.")]

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
_FIRST_YEAR, _LAST_YEAR = 1970, 9000


def parse_admin_body(raw: bytes, body_type: type[T]) -> T:
    """Decode a JSON body. Raises InvalidRequest, which names the field at fault."""
    if not raw.strip():
        raise InvalidRequest("The body is empty: it must be a JSON object.")
    if has_slow_numbers(raw):
        raise too_many_slow_numbers()
    try:
        try:
            body = msgspec.json.decode(raw, type=body_type)
        except msgspec.ValidationError as fault:  # what comes after the fault may be no JSON
            raise _invalid(fault, body_type, _decode_untyped(raw)) from None
        if b"\\u0000" in raw and _has_nul(msgspec.json.decode(raw)):
            raise InvalidRequest("The body holds a NUL character (\\u0000), which cannot be stored.")
    except msgspec.DecodeError as fault:
        raise InvalidRequest(f"The body is not JSON: {fault}.") from None
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply: no field of this route needs more than a few levels.") from None
    return body


def _decode_untyped(raw: bytes) -> Any:
    """Returns the decoded JSON, or None if it is nested too deeply. Raises DecodeError."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        return None


def convert_admin_body(value: Any, body_type: type[T]) -> T:
    """Does what parse_admin_body() does, for a body that already consists of JSON's own types."""
    try:
        return msgspec.convert(value, body_type)
    except msgspec.ValidationError as fault:
        raise _invalid(fault, body_type, value) from None


def parse_query(raw: bytes, query_type: type[T]) -> T:
    """Decode a query string into a Struct, whose fields are the parameters, or into a dict, for which any name is known.

    A field that also takes a tuple takes a repeated parameter. Raises InvalidRequest for unknown, empty, repeated or invalid ones: a
    filter with a mistyped name must not show everything.
    """
    known, repeatable = _parameters_of(query_type)
    given = read_repeated_parameters(raw, known, repeatable)
    values = {name: each[0] if len(each) == 1 else each for name, each in given.items()}
    try:
        return msgspec.convert(values, query_type, strict=False)
    except msgspec.ValidationError as fault:
        raise _invalid(fault, query_type, values) from None


@cache
def _parameters_of(query_type: type[Any]) -> tuple[list[str] | None, frozenset[str]]:
    """The names of the parameters, None: any, and those of them that may be repeated."""
    info = inspect.type_info(query_type)
    if isinstance(info, inspect.DictType):
        return None, frozenset()
    fields: tuple[inspect.Field, ...] = getattr(info, "fields", ())
    return [each.encode_name for each in fields], frozenset(each.encode_name for each in fields if _takes_several(each.type))


def repeatable_names(query_type: type[Any]) -> frozenset[str]:
    """The names of the parameters that take several values."""
    return _parameters_of(query_type)[1]


def _takes_several(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _takes_several(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_takes_several, kind.types))
    return isinstance(kind, inspect.VarTupleType)


def parse_time(text: str, name: str) -> datetime:
    """A time of a query or body, with its zone; without one it is UTC. Raises InvalidRequest."""
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # a plus that was not percent-encoded
    except ValueError:
        raise InvalidRequest(f"`{name}` must be a time in ISO 8601, such as 2026-11-27T09:30:00Z.", param=name) from None
    if not _FIRST_YEAR < moment.year < _LAST_YEAR:  # beyond, zones and periods would leave the calendar
        raise InvalidRequest(f"`{name}` must be after {_FIRST_YEAR} and before {_LAST_YEAR}.", param=name)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _invalid(fault: msgspec.ValidationError, body_type: type[Any], value: Any) -> InvalidRequest:
    problem, _, path = str(fault).partition(" - at `$")
    path = path.rstrip("`")
    field_path = name_keys(value, body_type, fault).removeprefix(".")
    if unknown := _UNKNOWN_FIELD.fullmatch(problem):
        param = _join(field_path, unknown[1][:60])
        names = ", ".join(field_names_at(body_type, f"${path}"))
        return InvalidRequest(
            f"Unknown field `{param}`. The fields{f' of `{field_path}`' if field_path else ''} are: {names}.", param=param
        )
    if missing := _MISSING_FIELD.fullmatch(problem):
        param = _join(field_path, missing[1])
        return InvalidRequest(f"`{param}` is required.", param=param)
    if problem == "Invalid RFC3339 encoded datetime":
        return InvalidRequest(f"`{field_path}` must be a time in ISO 8601, such as 2026-11-27T09:30:00Z.", param=field_path)
    choices = choices_at(body_type, f"${path}") if problem.startswith("Invalid enum value") else ()
    if choices:
        return InvalidRequest(f"`{field_path}` may be {', '.join(choices)}.", param=field_path)
    words = in_plain_words(problem)
    return InvalidRequest(f"{words} at `{field_path}`." if field_path else f"{words}.", param=field_path or None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _has_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_has_nul(each) for pair in cast("dict[str, Any]", value).items() for each in pair)
        case list():
            return any(_has_nul(each) for each in cast("list[Any]", value))
        case _:
            return False
