"""Whether engines' grammars hold an answer to all that a JSON schema says: of what they do not know they pass over most without a word.

Known to be held by xgrammar, which vLLM, SGLang and LMDeploy use unless they are told otherwise; all else counts as passed over: not, if,
oneOf, uniqueItems, dependentRequired, formats (of dates it allows such as there are none), anything beside a $ref or an anyOf, ...
And where a string has a length, or its pattern says a quote, a backslash or a line end, these grammars let through what is no JSON.
Source: xgrammar 0.2.8, asked for each in 2026-11 (tests/engines/test_xgrammar_direct.py).
"""

import re
from collections.abc import Mapping
from typing import Any, cast

SAYS_NOTHING = frozenset(
    {"title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly", "$defs", "definitions"}
)
_NAMES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_FORMATS = frozenset({"uuid"})
_PATTERN = re.compile(r'\^?(?:[^"\\^$(\x00-\x1f]|\\[dDwWsS]|\\[^\w\s"\\]|\((?!\?)|\(\?:|\[\^)*\$?')


def is_heeded(schema: Any) -> bool:
    """Of a schema as Python has it."""
    left = [schema]
    while left:
        told = left.pop()
        if not isinstance(told, dict):
            return False
        asks = {key: value for key, value in cast("dict[str, Any]", told).items() if key not in SAYS_NOTHING}
        if not _is_heeded(asks):
            return False
        left += _within(cast("dict[str, Any]", told))
    return True


def fits(values: list[Any], rest: Mapping[str, Any]) -> bool:
    """Whether any of the values, which are taken whatever stands beside them, is what that says: a type, or nothing."""
    kinds = rest.get("type")
    if rest.keys() - {"type"}:
        return False
    wanted = {kinds} if isinstance(kinds, str) else set(kinds or _NAMES.values())
    return all(_NAMES[type(value)] in wanted or (type(value) is int and "number" in wanted) for value in values)


def _within(told: Mapping[str, Any]) -> list[Any]:
    named: list[Mapping[str, Any]] = [told[key] for key in ("properties", "$defs", "definitions") if told.get(key)]
    inner: list[Any] = [each for schemas in named for each in schemas.values()]
    inner += [each for key in ("anyOf", "prefixItems") for each in told.get(key) or ()]
    return inner + [told[key] for key in ("items", "additionalProperties") if not isinstance(told.get(key, True), bool)]


def _is_heeded(asks: Mapping[str, Any]) -> bool:
    match asks:
        case {"$ref": str(place), **rest}:
            return not rest and re.fullmatch(r"#(/[^/~%]+)*", place) is not None
        case {"enum": [*values], **rest} if values:
            return fits(values, rest)
        case {"const": value, **rest}:
            return fits([value], rest)
        case {"anyOf": [_, *_], **rest}:
            return not rest
        case {"type": [_, *_] as kinds, **rest}:
            return all(_is_heeded({"type": kind}) for kind in kinds) and not rest
        case {"type": "object", **rest}:
            named: Mapping[str, Any] = rest.get("properties") or {}
            return rest.keys() <= {"properties", "required", "additionalProperties"} and set(rest.get("required") or ()) <= named.keys()
        case {"type": "array", **rest}:
            return rest.keys() <= {"items", "prefixItems", "minItems", "maxItems"}
        case {"type": "string", "pattern": str(pattern), **rest}:
            return not rest and _PATTERN.fullmatch(pattern) is not None
        case {"type": "string", "format": str(format), **rest}:
            return not rest and format in _FORMATS
        case {"type": "integer" | "number", **rest}:
            return rest.keys() <= _BOUNDS
        case {"type": "string" | "boolean" | "null", **rest}:
            return not rest
        case _:
            return not asks
