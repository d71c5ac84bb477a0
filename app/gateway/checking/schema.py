"""Whether a JSON schema is one: by its meta-schema, with references that lead somewhere within it, and small enough to be obeyed.

What llguidance merely cannot do (not, if/then, uniqueItems ...) is no fault: another engine may, and replies are looked at elsewhere.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs
import msgspec
from llguidance import LLMatcher

from app.gateway.checking.faults import Fault, Heavy
from app.gateway.checking.grammar import check_repetition, complaint, is_too_large

_DRAFTS: Mapping[str, Any] = {
    "json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
    "json-schema.org/schema": jsonschema_rs.Draft202012Validator,
}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Under these stands what is no schema, and under those what has names of the schema's own.
_VALUES = frozenset({"const", "enum", "default", "examples", "example"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# What is said by these is said of the same value.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"},
)
_PATTERNS = frozenset({"pattern", "patternProperties"})
_NO_TYPE = "a type is one of array, boolean, integer, null, number, object and string, or a list of some of them"
_MOST_COUNTED = 100_000
_UNSATISFIABLE = re.compile(r"Unsatisfiable schema: ([^\n]*)")

Path = tuple[str | int, ...]
Objects = Sequence[tuple[Path, Mapping[str, Any]]]


class Validator(Protocol):
    def validate(self, instance: Any) -> None: ...


def check_schema(source: str) -> None:
    """Raises Fault, or Heavy."""
    schema = read_schema(source)
    if isinstance(schema, dict):
        _check_places(schema, source)  # pyright: ignore[reportUnknownArgumentType]
    validator(schema)
    told = complaint(LLMatcher.grammar_from_json_schema(source)) if isinstance(schema, dict) else ""
    unsatisfiable = _UNSATISFIABLE.search(told)
    if schema is False or unsatisfiable:
        raise Fault(f"nothing satisfies it{': ' + unsatisfiable[1] if unsatisfiable else ''}")
    if is_too_large(told):
        raise Heavy(told)


def read_schema(source: str) -> Any:
    try:
        schema = msgspec.json.decode(source)
    except RecursionError:
        raise Fault("it is nested too deeply") from None
    if not isinstance(schema, dict | bool):
        raise Fault("a JSON schema is an object, true or false")
    return schema  # pyright: ignore[reportUnknownVariableType]


def validator(schema: Any) -> Validator:
    """By the draft that `$schema` names, else 2020-12. `format` is an assertion: callers who write it mean it, and engines enforce it.

    Nothing is fetched. Raises Fault.
    """
    draft = _draft(schema)
    try:
        return draft(schema, validate_formats=True, ignore_unknown_formats=True, retriever=_fetch)
    except jsonschema_rs.ValidationError as fault:
        place = tuple(fault.instance_path)
        is_type = place[-1:] == ("type",) and place[-2:-1] != ("properties",)
        raise Fault(f"{json.dumps(fault.instance):.60} is none: {_NO_TYPE}" if is_type else fault.message, place) from None
    except RecursionError:
        raise Fault("it is nested too deeply") from None
    except (ValueError, jsonschema_rs.ReferencingError) as fault:
        raise Fault("it is nested too deeply" if "ecursion" in str(fault) else str(fault)) from None


def _draft(schema: Any) -> Any:
    said = schema.get("$schema") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if said is None:
        return jsonschema_rs.Draft202012Validator
    draft = _DRAFTS.get(re.sub(r"^https?://", "", said).rstrip("#")) if isinstance(said, str) else None
    if draft is None:
        raise Fault(f"{said!r:.100} is no draft of JSON Schema that is known here: https://{', https://'.join(_DRAFTS)}", ("$schema",))
    return draft


def _check_places(schema: Mapping[str, Any], source: str) -> None:
    """What the meta-schema does not tell: where references lead, and how much is counted to."""
    objects = list(_objects(schema))
    _check_size(objects)
    if 'ef"' not in source and "\\u" not in source:
        return
    _check_references(schema, objects)
    try:
        _check_circles(schema, objects)
    except RecursionError:
        raise Fault("it is nested too deeply") from None


def _check_references(schema: Mapping[str, Any], objects: Objects) -> None:
    known = {urldefrag(str(each["$id"]))[0] for _, each in objects if isinstance(each.get("$id"), str)}
    base = str(schema.get("$id", ""))
    for path, each in objects:
        for word in _REFERENCES:
            place = each.get(word)
            if isinstance(place, str) and not place.startswith("#") and not _is_known(place, base, known):
                raise Fault(f"{place!r:.200} lies outside of the schema, and nothing is fetched: put it into $defs", (*path, word))


def _check_circles(schema: Mapping[str, Any], objects: Objects) -> None:
    """References that lead back to where they stand, with no step into an object or a list between: engines follow them without end."""
    paths = {id(each): path for path, each in objects}
    anchors = {str(each["$anchor"]): each for _, each in objects if "$anchor" in each}
    seen: set[int] = set()
    under_way: set[int] = set()

    def follow(each: Mapping[str, Any]) -> None:
        if id(each) in seen:
            return
        seen.add(id(each))
        under_way.add(id(each))
        place = each.get("$ref")
        if isinstance(place, str) and place.startswith("#"):
            for named in _directly(_at(schema, place, anchors)):
                if id(named) in under_way:
                    raise Fault("it refers to itself: what it says is never said", (*paths.get(id(each), ()), "$ref"))
                follow(named)
        for word in _SAME_VALUE:
            for inside in _directly(each.get(word)):
                follow(inside)
        under_way.discard(id(each))

    for _, each in objects:
        follow(each)


def _directly(told: Any) -> Iterator[Mapping[str, Any]]:
    """An object, or those of a list."""
    match told:
        case {}:
            inside: Mapping[str, Any] = told
            yield inside
        case [*items]:
            for each in items:
                if isinstance(each, dict):
                    yield each
        case _:
            pass


def _check_size(objects: Objects) -> None:
    for path, each in objects:
        for word in _COUNTS & each.keys():
            count = each[word]
            if isinstance(count, int | float) and count > _MOST_COUNTED:
                way_out = "leave it out if it is to be no bound"
                raise Fault(f"{count} is more than engines can count to: {_MOST_COUNTED} is the most, and {way_out}", (*path, word))
        if _PATTERNS.isdisjoint(each):
            continue
        inside = each.get("patternProperties")
        for place, pattern in (("pattern",), each.get("pattern")), *((("patternProperties", name), name) for name in inside or ()):
            if isinstance(pattern, str):
                try:
                    check_repetition(pattern)
                except Fault as fault:
                    raise Fault(fault.message, (*path, *place)) from None


def _at(schema: Any, place: str, anchors: Mapping[str, Any]) -> Any:
    """None: nothing is there."""
    if place != "#" and not place.startswith("#/"):
        return anchors.get(place[1:])
    told: Any = schema
    for step in place[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        match told:
            case {**inside}:
                told = inside.get(name)
            case [*items] if name.isdecimal() and int(name) < len(items):
                told = items[int(name)]
            case _:
                return None
    return told


def _is_known(place: str, base: str, known: set[str]) -> bool:
    address = urldefrag(place)[0]
    return address in known or urljoin(base, address) in known or any(urljoin(each, address) in known for each in known)


def _objects(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    left: list[tuple[Path, Any]] = [((), schema)]
    while left:
        path, told = left.pop()
        match told:
            case {}:
                inside: Mapping[str, Any] = told
                yield path, inside
                for key, value in inside.items():
                    if key in _NAMED:
                        left.extend(((*path, key, name), each) for name, each in _items(value))
                    elif key not in _VALUES:
                        left.append(((*path, key), value))
            case [*items]:
                left.extend(((*path, at), value) for at, value in enumerate(items))
            case _:
                pass


def _items(told: Any) -> Iterator[tuple[str, Any]]:
    match told:
        case {**inside}:
            yield from inside.items()
        case _:
            pass


def _fetch(address: str) -> NoReturn:
    raise ValueError(f"{address!r:.200} lies outside of the schema, and nothing is fetched")
