"""JSON schemas as regexes: for engines that obey regexes and not how a schema's white space is to be.

What a regex of bounded length cannot say is refused, keyword by keyword: none is passed over. Properties come in their schema's order, as
engines make them too, and no others than those named; strings and names are written without escapes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.errors import Unsupported
from providers.guided import patterns
from providers.guided.patterns import Characters, Either, Node, Repeat, others, read_anchored, sequence, unanchored
from providers.guided.regexes import escaped, unrolled

_LONGEST_SCHEMA = 150_000
_LONGEST = 50_000
# With its repetitions written out, as engines write them.
_MOST_PARTS = 100_000
_DEEPEST = 24
_SAYS_NOTHING = frozenset(
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
_PLAIN = r'[^"\\\x00-\x1f]'
_PLAIN_RANGES = others(((0, 31), (34, 34), (92, 92)))
_INTEGER = "-?(0|[1-9][0-9]*)"
_FOURTH = "(0[48]|[2468][048]|[13579][26])"
_DAYS = (
    "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])",
    "(0[469]|11)-(0[1-9]|[12][0-9]|30)",
    "02-(0[1-9]|1[0-9]|2[0-8])",
)
_FORMATS: Mapping[str, str] = {
    "date": f"([0-9]{{4}}-({'|'.join(_DAYS)})|([0-9]{{2}}{_FOURTH}|{_FOURTH}00)-02-29)",
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
}
_SCALARS: Mapping[str, str] = {
    "integer": _INTEGER,
    "number": _INTEGER + r"(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "boolean": "(true|false)",
    "null": "null",
    "string": f'"{_PLAIN}*"',
}
_NAMES: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
_ANY_TEXT = Repeat(Characters(_PLAIN_RANGES), 0, None)


def schema_to_regex(schema: Raw, whitespace: str | None) -> str:
    """`whitespace` None: at most one space, as outlines has it. Raises Unsupported."""
    if len(bytes(schema)) > _LONGEST_SCHEMA:
        raise Unsupported(f"a schema of more than {_LONGEST_SCHEMA} bytes has no regex here.")
    told = msgspec.json.decode(schema)
    pattern = _Writer(told, r"[ ]?" if whitespace is None else f"(?:{whitespace})").write(told, 0)
    if unrolled(pattern) > _MOST_PARTS:
        raise Unsupported(f"the schema's regex repeats so much that it would have more than {_MOST_PARTS} parts.")
    return pattern


class _Writer:
    def __init__(self, root: Any, gap: str) -> None:
        self._root = root
        self._gap = gap
        self._comma = f"{gap},{gap}"

    def write(self, schema: Any, depth: int) -> str:
        if depth > _DEEPEST:
            raise Unsupported("the schema is nested too deeply, or without end, for a regex.")
        if not isinstance(schema, dict):
            raise Unsupported("a schema that allows anything, or nothing, has no regex.")
        said: dict[str, Any] = {key: value for key, value in schema.items() if key not in _SAYS_NOTHING}  # pyright: ignore[reportUnknownVariableType]
        told = self._told(said, depth)
        _bound(len(told))
        return told

    def _told(self, said: dict[str, Any], depth: int) -> str:
        match said:
            case {"$ref": str(place)}:
                _only(said, "$ref")
                return self.write(self._resolved(place), depth + 1)
            case {"const": value}:
                _only(said, "const", "type")
                return _literals([value], said)
            case {"enum": [*values]} if values:
                _only(said, "enum", "type")
                return _literals(values, said)
            case {"anyOf": [*branches]} if branches:
                _only(said, "anyOf")
                return _any(self.write(branch, depth + 1) for branch in branches)
            case {"type": [*kinds]} if kinds:
                return _any(self._of_kinds(said, kinds, depth))
            case {"type": "string"}:
                return _string(said)
            case {"type": "object"}:
                return self._object(said, depth)
            case {"type": "array"}:
                return self._array(said, depth)
            case {"type": str(kind)} if kind in _SCALARS:
                _only(said, "type")
                return _SCALARS[kind]
            case _:
                raise Unsupported(f"a schema that says {', '.join(sorted(said)) or 'nothing'} and no type of its own has no regex here.")

    def _of_kinds(self, said: Mapping[str, Any], kinds: list[Any], depth: int) -> list[str]:
        """Each without what is said of another kind is not told apart here: only bare kinds may be listed."""
        _only(said, "type")
        return [self.write({"type": kind}, depth + 1) for kind in kinds]

    def _object(self, said: dict[str, Any], depth: int) -> str:
        _only(said, "type", "properties", "required", "additionalProperties")
        properties: dict[str, Any] = said.get("properties") or {}
        required: list[str] = said.get("required") or []
        if said.get("additionalProperties") not in (None, False):
            raise Unsupported("additionalProperties other than false have no regex here.")
        if not properties or not properties.keys() >= set(required):
            raise Unsupported("an object of properties that are not named has no regex here.")
        pairs: list[tuple[str, bool]] = []
        length = 0
        for name, value in properties.items():
            pairs.append((f"{escaped(_json(name))}{self._gap}:{self._gap}{self.write(value, depth + 1)}", name in required))
            # Where any may come first, each is said once for each of those before it.
            length += len(pairs[-1][0]) * (1 if required else len(pairs))
            _bound(length)
        return rf"\{{{self._gap}{self._members(pairs)}{self._gap}\}}"

    def _members(self, pairs: Sequence[tuple[str, bool]]) -> str:
        """By the first that is there: those before it are not, and of those after it some may be."""
        first = next((at for at, (_, needed) in enumerate(pairs) if needed), None)
        if first is not None:
            before = "".join(f"({pair}{self._comma})?" for pair, _ in pairs[:first])
            return before + pairs[first][0] + self._after(pairs[first + 1 :])
        return f"({'|'.join(pair + self._after(pairs[at + 1 :]) for at, (pair, _) in enumerate(pairs))})?"

    def _after(self, pairs: Sequence[tuple[str, bool]]) -> str:
        return "".join(self._comma + pair if needed else f"({self._comma}{pair})?" for pair, needed in pairs)

    def _array(self, said: dict[str, Any], depth: int) -> str:
        _only(said, "type", "items", "minItems", "maxItems")
        least, most = said.get("minItems") or 0, said.get("maxItems")
        if most is not None and most < max(1, least):
            return rf"\[{self._gap}\]"
        item = self.write(said.get("items"), depth + 1)
        more = f"({self._comma}{item}){_times(max(least - 1, 0), None if most is None else most - 1)}"
        told = item + more if least else f"({item}{more})?"
        return rf"\[{self._gap}{told}{self._gap}\]"

    def _resolved(self, place: str) -> Any:
        if not place.startswith("#"):
            raise Unsupported(f"$ref {place!r:.80} is not within the schema.")
        found = self._root
        for step in place[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise Unsupported(f"$ref {place!r:.80} leads nowhere.")
            found = found[name]  # pyright: ignore[reportUnknownVariableType]
        return found  # pyright: ignore[reportUnknownVariableType]


def _bound(length: int) -> None:
    if length > _LONGEST:
        raise Unsupported(f"the schema's regex is longer than {_LONGEST} characters.")


def _only(said: Mapping[str, Any], *known: str) -> None:
    unknown = sorted(said.keys() - set(known))
    if unknown:
        raise Unsupported(f"{', '.join(unknown)} (beside {known[0]}) cannot be said by a regex here.")


def _any(told: Iterable[str]) -> str:
    parts: list[str] = []
    length = 0
    for part in told:
        parts.append(part)
        length += len(part) + 1
        _bound(length)
    return f"({'|'.join(parts)})"


def _literals(values: list[Any], said: Mapping[str, Any]) -> str:
    kinds = said.get("type")
    if kinds is not None or any(isinstance(value, dict | list | float) for value in values):
        values = [value for value in values if _is_scalar(value, kinds)]
    return _any([escaped(_json(value)) for value in values])


def _is_scalar(value: Any, kinds: Any) -> bool:
    name = _NAMES.get(type(value))
    if name is None:
        raise Unsupported("an enum or const of objects, arrays or fractions can be written in more ways than one.")
    wanted: list[Any] = [kinds] if isinstance(kinds, str) else kinds or [name]
    return name in wanted or (name == "integer" and "number" in wanted)


def _string(said: Mapping[str, Any]) -> str:
    _only(said, "type", "pattern", "minLength", "maxLength", "format")
    if len(said.keys() & {"pattern", "format"}) + bool(said.keys() & {"minLength", "maxLength"}) > 1:
        raise Unsupported("two of pattern, format and length at once cannot be said by a regex here.")
    if "format" in said:
        known = _FORMATS.get(said["format"])
        if known is None:
            raise Unsupported(f"format {said['format']!r:.40} has no regex here.")
        return f'"{known}"'
    if "pattern" in said:
        return f'"{_pattern(said["pattern"])}"'
    least, most = said.get("minLength") or 0, said.get("maxLength")
    return f'"{_PLAIN}{_times(least, most)}"'


def _pattern(pattern: str) -> str:
    """A pattern is looked for anywhere in its string, unless it has anchors."""
    node = read_anchored(pattern)
    parts = node.parts if isinstance(node, patterns.Sequence) else (node,)
    begins, ends = (bool(parts) and isinstance(parts[at], patterns.Anchor) for at in (0, -1))
    if isinstance(node, Either):
        begins = ends = False
    whole = sequence(*(() if begins else (_ANY_TEXT,)), unanchored(node, begins, ends), *(() if ends else (_ANY_TEXT,)))
    return _said(whole)


def _said(node: Node) -> str:
    """Of characters those that a JSON string holds as they are."""
    match node:
        case Characters():
            told = [(low, high) for low, high in _within(node.ranges, _PLAIN_RANGES)]
            if not told:
                raise Unsupported("a pattern that needs a quote, a backslash or a control character has no regex here.")
            return "[" + "".join(f"{_point(low)}-{_point(high)}" if high > low else _point(low) for low, high in told) + "]"
        case patterns.Sequence():
            return "".join(f"({_said(part)})" if isinstance(part, Either) else _said(part) for part in node.parts)
        case Either():
            return _any(map(_said, node.options))
        case Repeat():
            return f"({_said(node.part)}){_times(node.least, node.most)}"
        case patterns.Anchor():
            raise Unsupported("a pattern with an anchor in its middle has no regex here.")


def _times(least: int, most: int | None) -> str:
    return f"{{{least},}}" if most is None else f"{{{least},{most}}}"


def _within(one: patterns.Ranges, other: patterns.Ranges) -> patterns.Ranges:
    return tuple((max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) <= min(b, d))


def _point(point: int) -> str:
    character = chr(point)
    if point < 128:
        return character if character.isalnum() or character in " _" else "\\" + character if character.isprintable() else f"\\x{point:02x}"
    return character


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
