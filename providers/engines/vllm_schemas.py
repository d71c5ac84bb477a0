"""Whether xgrammar, which vLLM takes first, holds an answer to all that a JSON schema says. Where it does not, replies are looked at.

Without a word it passes over `not`, `if`, dependencies, what is required and not named, what stands beside $ref, anyOf, enum or const, and
bounds without a type; it takes one of several anyOf's for oneOf, calls times and dates valid that are not, and lets control characters,
quotes and backslashes into strings of a bounded length or of a pattern that allows them. Seen on 0.32 (tests/engines), 2026-11.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.wire import UNREADABLE

_SAYS_NOTHING = frozenset(
    {"title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly", "$defs", "definitions"}
)
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"})
_OF_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"pattern", "format"}),
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "boolean": frozenset(),
    "null": frozenset(),
}
_TYPES: Mapping[type, frozenset[str]] = {
    str: frozenset({"string"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    bool: frozenset({"boolean"}),
    type(None): frozenset({"null"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
}
# Patterns of which no answer needs an escape in JSON: no `.`, no class of all but some, no `"`, `\` or control character.
_SAFE = r"\\[dw./+*?()|\[\]{}^$-]"
_IN_CLASS = rf"(?:{_SAFE}|[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[^\\\"\[\]^\x00-\x20\x7f-]| )"
_PLAIN_PATTERN = re.compile(rf"(?:{_SAFE}|\(\?:|\((?!\?)|[^\\\"\[\].(\x00-\x1f\x7f]|\[-?{_IN_CLASS}+-?\])*")


def is_obeyed(schema: Raw) -> bool:
    """False where it is not known."""
    return _is_obeyed(bytes(schema))


@lru_cache(maxsize=64)
def _is_obeyed(schema: bytes) -> bool:
    try:
        return _holds(msgspec.json.decode(schema))
    except (*UNREADABLE, RecursionError):
        return False


def _holds(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    schema = cast("dict[str, Any]", schema)
    named = [*_values(schema, "$defs"), *_values(schema, "definitions"), *_values(schema, "properties")]
    several = [each for key in ("anyOf", "oneOf", "allOf", "prefixItems") for each in schema.get(key) or ()]
    one = [schema[key] for key in ("items", "additionalProperties") if not isinstance(schema.get(key, True), bool)]
    asks = {key: value for key, value in schema.items() if key not in _SAYS_NOTHING}
    return _asks_what_is_obeyed(asks) and all(map(_holds, (*named, *several, *one)))


def _values(schema: dict[str, Any], key: str) -> list[Any]:
    named: dict[str, Any] = schema.get(key) or {}
    return list(named.values())


def _asks_what_is_obeyed(asks: dict[str, Any]) -> bool:
    match asks:
        case {"$ref": str(place), **rest}:
            return not rest and (place == "#" or place.startswith("#/")) and not {"~", "%"} & set(place)
        case {"enum": [*values], **rest} | {"const": values, **rest}:
            return _fits(values if "enum" in asks else [values], rest)
        case {"anyOf": [*_], **rest}:
            return not rest
        case {"allOf": [_], **rest}:
            return not rest
        case {"oneOf": [*each], **rest}:
            return not rest and _excludes_all_others(each)
        case {"type": str(kind), **rest}:
            return _is_obeyed_of_type([kind], rest)
        case {"type": [*kinds], **rest}:
            return _is_obeyed_of_type(kinds, rest)
        case {"properties": _}:
            return _is_obeyed_of_type(["object"], asks)
        case {"items": _} | {"prefixItems": _}:
            return _is_obeyed_of_type(["array"], asks)
        case _:
            return not asks


def _fits(values: list[Any], rest: dict[str, Any]) -> bool:
    """It takes any of the values, whatever the type beside them says."""
    kinds = rest.get("type")
    wanted: set[str] = {kinds} if isinstance(kinds, str) else set(kinds or _OF_TYPE)
    return not rest.keys() - {"type"} and all(_TYPES[type(value)] & wanted for value in values)


def _excludes_all_others(each: list[Any]) -> bool:
    """Values that differ, or types that do."""
    said = [cast("dict[str, Any]", one) if isinstance(one, dict) else {} for one in each]
    if all("const" in one for one in said):
        return len({msgspec.json.encode(one["const"]) for one in said}) == len(said)
    kinds = [one.get("type") for one in said]
    return all(isinstance(kind, str) for kind in kinds) and len(set(kinds)) == len(kinds) and not {"integer", "number"} <= set(kinds)


def _is_obeyed_of_type(kinds: list[Any], rest: dict[str, Any]) -> bool:
    if not all(isinstance(kind, str) and kind in _OF_TYPE for kind in kinds):
        return False
    if not rest.keys() <= frozenset[str]().union(*(_OF_TYPE[kind] for kind in kinds)):
        return False
    return ("object" not in kinds or _is_obeyed_object(rest)) and ("string" not in kinds or _is_obeyed_string(rest))


def _is_obeyed_object(rest: dict[str, Any]) -> bool:
    """Of other properties than those that are named it does not keep the names apart, nor from each other's."""
    named: dict[str, Any] = rest.get("properties") or {}
    others = rest.get("additionalProperties", False)
    if others is not False:
        return not named and rest.keys() == {"additionalProperties"}
    return set(rest.get("required") or ()) <= named.keys()


def _is_obeyed_string(rest: dict[str, Any]) -> bool:
    pattern = rest.get("pattern", "")
    return rest.get("format", "uuid") == "uuid" and not rest.keys() >= {"pattern", "format"} and bool(_PLAIN_PATTERN.fullmatch(pattern))
