"""Converts JSON schemas to regexes, for engines that enforce regexes but not the white space of a schema's JSON.

A keyword that a regex of bounded length cannot express is refused, never ignored. Properties come in the order of the schema, as engines
generate them too, without any others; strings and names are written without escapes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import Unsupported
from providers.structured_output import regex_ast
from providers.structured_output.format_regexes import FORMAT_REGEXES
from providers.structured_output.parse_regex import parse_anchored_regex
from providers.structured_output.regex_ast import (
    Alternatives,
    Characters,
    Node,
    Repeat,
    complement,
    sequence,
    strip_anchors,
)
from providers.structured_output.regexes import escape_regex, unrolled_size

_MAX_SCHEMA_BYTES = 150_000
_MAX_REGEX_LENGTH = 50_000
# With its repetitions expanded, as engines expand them.
_MAX_PARTS = 100_000
_MAX_DEPTH = 24
_ANNOTATION_KEYWORDS = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "$schema",
        "$id",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$defs",
        "definitions",
    }
)
_UNESCAPED_CHARACTER = r'[^"\\\x00-\x1f]'
_UNESCAPED_RANGES = complement(((0, 31), (34, 34), (92, 92)))
_INTEGER = "-?(0|[1-9][0-9]*)"
_SCALAR_REGEXES: Mapping[str, str] = {
    "integer": _INTEGER,
    "number": _INTEGER + r"(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "boolean": "(true|false)",
    "null": "null",
    "string": f'"{_UNESCAPED_CHARACTER}*"',
}
_TYPE_NAMES: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
_ANY_TEXT = Repeat(Characters(_UNESCAPED_RANGES), 0, None)


def schema_to_regex(schema: Raw, whitespace: str | None) -> str:
    """Writes a regex for the JSON of a schema. Raises Unsupported.

    `whitespace` is a regex; None means at most one space, as in outlines.
    """
    if len(bytes(schema)) > _MAX_SCHEMA_BYTES:
        raise Unsupported(f"a schema of more than {_MAX_SCHEMA_BYTES} bytes cannot be converted to a regex.")
    decoded = msgspec.json.decode(schema)
    pattern = _RegexWriter(decoded, r"[ ]?" if whitespace is None else f"(?:{whitespace})").write(decoded, 0)
    if unrolled_size(pattern) > _MAX_PARTS:
        raise Unsupported(f"the schema's regex has more than {_MAX_PARTS} parts with its repetitions expanded.")
    return pattern


class _RegexWriter:
    def __init__(self, root: Any, whitespace: str) -> None:
        self._root = root
        self._whitespace = whitespace
        self._comma = f"{whitespace},{whitespace}"

    def write(self, schema: Any, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise Unsupported("the schema is nested too deeply, or recursive.")
        if not isinstance(schema, dict):
            raise Unsupported("a schema that allows anything, or nothing, has no regex.")
        keywords: dict[str, Any] = {key: value for key, value in schema.items() if key not in _ANNOTATION_KEYWORDS}  # pyright: ignore[reportUnknownVariableType]
        written = self._write_keywords(keywords, depth)
        _check_length(len(written))
        return written

    def _write_keywords(self, keywords: dict[str, Any], depth: int) -> str:
        match keywords:
            case {"$ref": str(ref)}:
                _require_only(keywords, "$ref")
                return self.write(self._resolve_ref(ref), depth + 1)
            case {"const": value}:
                _require_only(keywords, "const", "type")
                return _write_literals([value], keywords)
            case {"enum": [*values]} if values:
                _require_only(keywords, "enum", "type")
                return _write_literals(values, keywords)
            case {"anyOf": [*branches]} if branches:
                _require_only(keywords, "anyOf")
                return _write_alternatives(self.write(branch, depth + 1) for branch in branches)
            case {"type": [*kinds]} if kinds:
                return _write_alternatives(self._write_types(keywords, kinds, depth))
            case {"type": "string"}:
                return _write_string(keywords)
            case {"type": "object"}:
                return self._write_object(keywords, depth)
            case {"type": "array"}:
                return self._write_array(keywords, depth)
            case {"type": str(type_name)} if type_name in _SCALAR_REGEXES:
                _require_only(keywords, "type")
                return _SCALAR_REGEXES[type_name]
            case _:
                raise Unsupported(
                    f"a schema of {', '.join(sorted(keywords)) or 'no keywords'} without a known type cannot be converted to a regex."
                )

    def _write_types(self, keywords: Mapping[str, Any], types: list[Any], depth: int) -> list[str]:
        """A list of types is supported only without other keywords, as it is not known which of them belong to which type."""
        _require_only(keywords, "type")
        return [self.write({"type": type_name}, depth + 1) for type_name in types]

    def _write_object(self, keywords: dict[str, Any], depth: int) -> str:
        _require_only(keywords, "type", "properties", "required", "additionalProperties")
        properties: dict[str, Any] = keywords.get("properties") or {}
        required: list[str] = keywords.get("required") or []
        if keywords.get("additionalProperties") not in (None, False):
            raise Unsupported("additionalProperties other than false cannot be converted to a regex.")
        if not properties or not properties.keys() >= set(required):
            raise Unsupported("an object without named properties cannot be converted to a regex.")
        pairs: list[tuple[str, bool]] = []
        length = 0
        for name, value in properties.items():
            pairs.append(
                (f"{escape_regex(_to_json(name))}{self._whitespace}:{self._whitespace}{self.write(value, depth + 1)}", name in required)
            )
            # Where any property may come first, each is repeated for all those before it.
            length += len(pairs[-1][0]) * (1 if required else len(pairs))
            _check_length(length)
        return rf"\{{{self._whitespace}{self._write_members(pairs)}{self._whitespace}\}}"

    def _write_members(self, pairs: Sequence[tuple[str, bool]]) -> str:
        """One alternative per property that may be the first; optional properties before it are absent."""
        first = next((index for index, (_, is_required) in enumerate(pairs) if is_required), None)
        if first is not None:
            before = "".join(f"({pair}{self._comma})?" for pair, _ in pairs[:first])
            return before + pairs[first][0] + self._write_following(pairs[first + 1 :])
        return f"({'|'.join(pair + self._write_following(pairs[index + 1 :]) for index, (pair, _) in enumerate(pairs))})?"

    def _write_following(self, pairs: Sequence[tuple[str, bool]]) -> str:
        return "".join(self._comma + pair if is_required else f"({self._comma}{pair})?" for pair, is_required in pairs)

    def _write_array(self, keywords: dict[str, Any], depth: int) -> str:
        _require_only(keywords, "type", "items", "minItems", "maxItems")
        min_items, max_items = keywords.get("minItems") or 0, keywords.get("maxItems")
        if max_items is not None and max_items < max(1, min_items):
            return rf"\[{self._whitespace}\]"
        item = self.write(keywords.get("items"), depth + 1)
        following = f"({self._comma}{item}){_write_count(max(min_items - 1, 0), None if max_items is None else max_items - 1)}"
        items = item + following if min_items else f"({item}{following})?"
        return rf"\[{self._whitespace}{items}{self._whitespace}\]"

    def _resolve_ref(self, ref: str) -> Any:
        if not ref.startswith("#"):
            raise Unsupported(f"$ref {ref!r:.80} points outside the schema.")
        found = self._root
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise Unsupported(f"$ref {ref!r:.80} has no target.")
            found = found[name]  # pyright: ignore[reportUnknownVariableType]
        return found  # pyright: ignore[reportUnknownVariableType]


def _check_length(length: int) -> None:
    if length > _MAX_REGEX_LENGTH:
        raise Unsupported(f"the schema's regex is longer than {_MAX_REGEX_LENGTH} characters.")


def _require_only(keywords: Mapping[str, Any], *allowed: str) -> None:
    unknown = sorted(keywords.keys() - set(allowed))
    if unknown:
        raise Unsupported(f"{', '.join(unknown)} (beside {allowed[0]}) cannot be converted to a regex.")


def _write_alternatives(alternatives: Iterable[str]) -> str:
    parts: list[str] = []
    length = 0
    for part in alternatives:
        parts.append(part)
        length += len(part) + 1
        _check_length(length)
    return f"({'|'.join(parts)})"


def _write_literals(values: list[Any], keywords: Mapping[str, Any]) -> str:
    types = keywords.get("type")
    if types is not None or any(isinstance(value, dict | list | float) for value in values):
        values = [value for value in values if _is_scalar(value, types)]
    return _write_alternatives([escape_regex(_to_json(value)) for value in values])


def _is_scalar(value: Any, types: Any) -> bool:
    name = _TYPE_NAMES.get(type(value))
    if name is None:
        raise Unsupported("an enum or const of objects, arrays or fractions has more than one JSON form.")
    allowed: list[Any] = [types] if isinstance(types, str) else types or [name]
    return name in allowed or (name == "integer" and "number" in allowed)


def _write_string(keywords: Mapping[str, Any]) -> str:
    _require_only(keywords, "type", "pattern", "minLength", "maxLength", "format")
    if len(keywords.keys() & {"pattern", "format"}) + bool(keywords.keys() & {"minLength", "maxLength"}) > 1:
        raise Unsupported("two of pattern, format and length together cannot be converted to a regex.")
    if "format" in keywords:
        format_regex = FORMAT_REGEXES.get(keywords["format"])
        if format_regex is None:
            raise Unsupported(f"format {keywords['format']!r:.40} cannot be converted to a regex.")
        return f'"{format_regex}"'
    if "pattern" in keywords:
        return f'"{_write_pattern(keywords["pattern"])}"'
    min_length, max_length = keywords.get("minLength") or 0, keywords.get("maxLength")
    return f'"{_UNESCAPED_CHARACTER}{_write_count(min_length, max_length)}"'


def _write_pattern(pattern: str) -> str:
    """A pattern matches anywhere in its string unless it has anchors."""
    node = parse_anchored_regex(pattern)
    parts = node.parts if isinstance(node, regex_ast.Sequence) else (node,)
    anchored_start, anchored_end = (bool(parts) and isinstance(parts[index], regex_ast.Anchor) for index in (0, -1))
    if isinstance(node, Alternatives):
        anchored_start = anchored_end = False
    anywhere = sequence(
        *(() if anchored_start else (_ANY_TEXT,)),
        strip_anchors(node, anchored_start, anchored_end),
        *(() if anchored_end else (_ANY_TEXT,)),
    )
    return _write_node(anywhere)


def _write_node(node: Node) -> str:
    """The regex of a node, reduced to characters that a JSON string contains unescaped."""
    match node:
        case Characters():
            ranges = [(low, high) for low, high in _intersect(node.ranges, _UNESCAPED_RANGES)]
            if not ranges:
                raise Unsupported("a pattern that needs a quote, a backslash or a control character cannot be converted.")
            return (
                "["
                + "".join(
                    f"{_write_code_point(low)}-{_write_code_point(high)}" if high > low else _write_code_point(low) for low, high in ranges
                )
                + "]"
            )
        case regex_ast.Sequence():
            return "".join(f"({_write_node(part)})" if isinstance(part, Alternatives) else _write_node(part) for part in node.parts)
        case Alternatives():
            return _write_alternatives(map(_write_node, node.options))
        case Repeat():
            return f"({_write_node(node.part)}){_write_count(node.min_count, node.max_count)}"
        case regex_ast.Anchor():
            raise Unsupported("a pattern with an anchor in its middle cannot be converted.")


def _write_count(min_count: int, max_count: int | None) -> str:
    return f"{{{min_count},}}" if max_count is None else f"{{{min_count},{max_count}}}"


def _intersect(first: regex_ast.Ranges, second: regex_ast.Ranges) -> regex_ast.Ranges:
    return tuple((max(a, c), min(b, d)) for a, b in first for c, d in second if max(a, c) <= min(b, d))


def _write_code_point(point: int) -> str:
    character = chr(point)
    if point < 128:
        return character if character.isalnum() or character in " _" else "\\" + character if character.isprintable() else f"\\x{point:02x}"
    return character


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
