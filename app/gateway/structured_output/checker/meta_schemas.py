"""Explains by jsonschema how a schema violates its meta-schema, once jsonschema-rs has found that it does.

jsonschema takes a hundred times as long: for a schema of 10 kB half of the time that a check may take. So it gets only the part of the
schema that jsonschema-rs reports, which costs less than a millisecond.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

import jsonschema
import msgspec
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]

from app.gateway.structured_output.checker.errors import CheckFailed

META_SCHEMA_VALIDATORS: Mapping[str, Any] = {
    "json-schema.org/draft-04/schema": jsonschema.Draft4Validator(jsonschema.Draft4Validator.META_SCHEMA),
    "json-schema.org/draft-06/schema": jsonschema.Draft6Validator(jsonschema.Draft6Validator.META_SCHEMA),
    "json-schema.org/draft-07/schema": jsonschema.Draft7Validator(jsonschema.Draft7Validator.META_SCHEMA),
    "json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator(jsonschema.Draft201909Validator.META_SCHEMA),
    "json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA),
}
_TYPE_HINT = "a type is one of array, boolean, integer, null, number, object and string, or a list of some of them"
_MAX_PART_CHARS = 2_000
_MAX_STEPS = 24

Path = tuple[str | int, ...]


def explain_violation(draft: str, schema: Any, fault: Any) -> CheckFailed:
    """The error to raise for jsonschema-rs's: `fault` has its path in the schema, the value there, and a message.

    Its own message is used for what jsonschema does not object to, as a pattern that is no regex, and for a part that is large or deep.
    """
    path: Path = tuple(fault.instance_path)
    error = _best_error(META_SCHEMA_VALIDATORS[draft], schema, path)
    if error is None:
        return CheckFailed(_type_message(fault.instance) if _is_type(path) else fault.message, path)
    # In the part that was checked, each list on the path has one item only.
    error_path: Path = tuple(path[depth] if depth < len(path) else step for depth, step in enumerate(error.absolute_path))
    return CheckFailed(_message(error, error_path), error_path)


def _best_error(validator: Any, schema: Any, path: Path) -> Any:
    if len(path) > _MAX_STEPS:
        return None
    try:
        part = _part_along(schema, path)
        if len(msgspec.json.encode(part)) > _MAX_PART_CHARS:
            return None
        # An error further up may be about what is missing in the part only: in draft 4 exclusiveMinimum requires minimum.
        return cast("Any", best_match(error for error in validator.iter_errors(part) if len(error.absolute_path) >= len(path)))
    except (LookupError, TypeError, RecursionError):
        return None


def _part_along(value: Any, path: Path) -> Any:
    """The value with only what is on the path, and everything at its end."""
    if not path:
        return value
    inside = _part_along(value[path[0]], path[1:])
    return [inside] if isinstance(value, list) else {path[0]: inside}


def _message(error: Any, path: Path) -> str:
    match error.validator:
        case "enum" | "anyOf" if _is_type(path):
            return _type_message(error.instance)
        case "type":
            types = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
            return f"{_shown(error.instance)} is not of type {' or '.join(types)}"
        case _:
            return error.message


def _is_type(path: Path) -> bool:
    """Whether the path is that of the keyword `type` or of an item in it, and not of a property with that name."""
    keyword_path = path[:-1] if path and isinstance(path[-1], int) else path
    return keyword_path[-1:] == ("type",) and keyword_path[-2:-1] != ("properties",)


def _type_message(value: Any) -> str:
    return f"{_shown(value)} is not a type: {_TYPE_HINT}"


def _shown(value: Any) -> str:
    return f"{json.dumps(value, ensure_ascii=False):.60}"
