"""Grammar coverage: whether engines' grammars enforce a complete JSON schema. They ignore most unknown keywords silently.

Covered is what xgrammar enforces, the default of vLLM, SGLang and LMDeploy. All else counts as ignored: not, if, oneOf, uniqueItems,
dependentRequired, formats (it allows impossible dates), anything beside a $ref or an anyOf, ... Where a string has a length, or its pattern
contains a quote, a backslash or a line end, these grammars even allow invalid JSON.
Source: xgrammar 0.2.8, tested for each keyword in 2026-11 (tests/engines/test_xgrammar_direct.py).
"""

import re
from collections.abc import Mapping
from typing import Any, cast

ANNOTATION_KEYWORDS = frozenset(
    {"title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly", "$defs", "definitions"}
)
_TYPE_NAMES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}
_BOUND_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COVERED_FORMATS = frozenset({"uuid"})
_COVERED_PATTERN = re.compile(r'\^?(?:[^"\\^$(\x00-\x1f]|\\[dDwWsS]|\\[^\w\s"\\]|\((?!\?)|\(\?:|\[\^)*\$?')


def is_schema_covered(schema: Any) -> bool:
    """Whether grammars enforce all of a decoded schema."""
    pending = [schema]
    while pending:
        subschema = pending.pop()
        if not isinstance(subschema, dict):
            return False
        keywords = {key: value for key, value in cast("dict[str, Any]", subschema).items() if key not in ANNOTATION_KEYWORDS}
        if not _are_keywords_covered(keywords):
            return False
        pending += _subschemas(cast("dict[str, Any]", subschema))
    return True


def values_fit_type(values: list[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether all values match the keywords beside an enum or const, which grammars ignore: a type, or none."""
    types = keywords.get("type")
    if keywords.keys() - {"type"}:
        return False
    allowed = {types} if isinstance(types, str) else set(types or _TYPE_NAMES.values())
    return all(_TYPE_NAMES[type(value)] in allowed or (type(value) is int and "number" in allowed) for value in values)


def _subschemas(schema: Mapping[str, Any]) -> list[Any]:
    schema_maps: list[Mapping[str, Any]] = [schema[key] for key in ("properties", "$defs", "definitions") if schema.get(key)]
    subschemas: list[Any] = [each for schemas in schema_maps for each in schemas.values()]
    subschemas += [each for key in ("anyOf", "prefixItems") for each in schema.get(key) or ()]
    return subschemas + [schema[key] for key in ("items", "additionalProperties") if not isinstance(schema.get(key, True), bool)]


def _are_keywords_covered(keywords: Mapping[str, Any]) -> bool:
    match keywords:
        case {"$ref": str(ref), **rest}:
            return not rest and re.fullmatch(r"#(/[^/~%]+)*", ref) is not None
        case {"enum": [*values], **rest} if values:
            return values_fit_type(values, rest)
        case {"const": value, **rest}:
            return values_fit_type([value], rest)
        case {"anyOf": [_, *_], **rest}:
            return not rest
        case {"type": [_, *_] as types, **rest}:
            return all(_are_keywords_covered({"type": type_name}) for type_name in types) and not rest
        case {"type": "object", **rest}:
            properties: Mapping[str, Any] = rest.get("properties") or {}
            return (
                rest.keys() <= {"properties", "required", "additionalProperties"} and set(rest.get("required") or ()) <= properties.keys()
            )
        case {"type": "array", **rest}:
            return rest.keys() <= {"items", "prefixItems", "minItems", "maxItems"}
        case {"type": "string", "pattern": str(pattern), **rest}:
            return not rest and _COVERED_PATTERN.fullmatch(pattern) is not None
        case {"type": "string", "format": str(format), **rest}:
            return not rest and format in _COVERED_FORMATS
        case {"type": "integer" | "number", **rest}:
            return rest.keys() <= _BOUND_KEYWORDS
        case {"type": "string" | "boolean" | "null", **rest}:
            return not rest
        case _:
            return not keywords
