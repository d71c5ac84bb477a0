"""Checks of JSON schemas: valid by their meta-schema, with references that resolve within the schema, and small enough for engines.

Keywords that llguidance does not support (not, if/then, uniqueItems ...) pass: another engine may support them, and responses are
checked against the full schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_rs
import msgspec
from llguidance import LLMatcher

from app.gateway.structured_output.checker.errors import CheckFailed, CheckTooExpensive
from app.gateway.structured_output.checker.grammar_checks import check_repetition, grammar_error, is_too_large
from app.gateway.structured_output.checker.meta_schemas import explain_violation

_DRAFTS: Mapping[str, Any] = {
    "json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}
_NEWEST_DRAFT = "json-schema.org/draft/2020-12/schema"
_DRAFT_NAMES: Mapping[str, str] = {**{name: name for name in _DRAFTS}, "json-schema.org/schema": _NEWEST_DRAFT}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords whose values are not schemas, and those whose values are objects of schemas by name.
_VALUE_KEYWORDS = frozenset({"const", "enum", "default", "examples", "example"})
_NAMED_SUBSCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# Keywords whose subschemas apply to the same value.
_IN_PLACE_APPLICATORS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_COUNT_KEYWORDS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties"},
)
_PATTERN_KEYWORDS = frozenset({"pattern", "patternProperties"})
_MAX_COUNT = 100_000
_UNSATISFIABLE = re.compile(r"Unsatisfiable schema: ([^\n]*)")

Path = tuple[str | int, ...]
Objects = Sequence[tuple[Path, Mapping[str, Any]]]


class Validator(Protocol):
    def validate(self, instance: Any) -> None: ...


def check_schema(source: str) -> None:
    """Raises CheckFailed or CheckTooExpensive."""
    schema = read_schema(source)
    if isinstance(schema, dict):
        _check_structure(schema, source)  # pyright: ignore[reportUnknownArgumentType]
    build_validator(schema)
    error_text = grammar_error(LLMatcher.grammar_from_json_schema(source)) if isinstance(schema, dict) else ""
    unsatisfiable = _UNSATISFIABLE.search(error_text)
    if schema is False or unsatisfiable:
        raise CheckFailed(f"nothing satisfies it{': ' + unsatisfiable[1] if unsatisfiable else ''}")
    if is_too_large(error_text):
        raise CheckTooExpensive(error_text)


def read_schema(source: str) -> Any:
    try:
        schema = msgspec.json.decode(source)
    except RecursionError:
        raise CheckFailed("it is nested too deeply") from None
    if not isinstance(schema, dict | bool):
        raise CheckFailed("a JSON schema is an object, true or false")
    return schema  # pyright: ignore[reportUnknownVariableType]


def build_validator(schema: Any) -> Validator:
    """A validator for the draft that `$schema` names, else 2020-12. `format` is asserted, as callers mean it and engines enforce it.

    Nothing is fetched. Raises CheckFailed.
    """
    draft = _draft_of(schema)
    try:
        return _DRAFTS[draft](schema, validate_formats=True, ignore_unknown_formats=True, retriever=_refuse_fetch)
    except jsonschema_rs.ValidationError as fault:
        raise explain_violation(draft, schema, fault) from None
    except RecursionError:
        raise CheckFailed("it is nested too deeply") from None
    except (ValueError, jsonschema_rs.ReferencingError) as fault:
        raise CheckFailed("it is nested too deeply" if "ecursion" in str(fault) else str(fault)) from None


def _draft_of(schema: Any) -> str:
    declared = schema.get("$schema") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if declared is None:
        return _NEWEST_DRAFT
    draft = _DRAFT_NAMES.get(re.sub(r"^https?://", "", declared).rstrip("#")) if isinstance(declared, str) else None
    if draft is None:
        raise CheckFailed(
            f"{declared!r:.100} is not a known draft of JSON Schema. Known: https://{', https://'.join(_DRAFT_NAMES)}", ("$schema",)
        )
    return draft


def _check_structure(schema: Mapping[str, Any], source: str) -> None:
    """Checks what the meta-schema does not: where references lead, and how large counts are."""
    objects = list(_iter_objects(schema))
    _check_sizes(objects)
    if 'ef"' not in source and "\\u" not in source:
        return
    _check_references(schema, objects)
    try:
        _check_cycles(schema, objects)
    except RecursionError:
        raise CheckFailed("it is nested too deeply") from None


def _check_references(schema: Mapping[str, Any], objects: Objects) -> None:
    known_ids = {urldefrag(str(each["$id"]))[0] for _, each in objects if isinstance(each.get("$id"), str)}
    base = str(schema.get("$id", ""))
    for path, each in objects:
        for keyword in _REFERENCES:
            reference = each.get(keyword)
            if isinstance(reference, str) and not reference.startswith("#") and not _is_known(reference, base, known_ids):
                raise CheckFailed(
                    f"{reference!r:.200} is outside of the schema, and nothing is fetched: put it into $defs", (*path, keyword)
                )


def _check_cycles(schema: Mapping[str, Any], objects: Objects) -> None:
    """Raises CheckFailed for references that lead back to themselves without a step into an object or array: engines would loop."""
    paths = {id(each): path for path, each in objects}
    anchors = {str(each["$anchor"]): each for _, each in objects if "$anchor" in each}
    seen: set[int] = set()
    in_progress: set[int] = set()

    def follow(each: Mapping[str, Any]) -> None:
        if id(each) in seen:
            return
        seen.add(id(each))
        in_progress.add(id(each))
        reference = each.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            for referenced in _subschemas(_resolve_pointer(schema, reference, anchors)):
                if id(referenced) in in_progress:
                    raise CheckFailed("it refers to itself without end", (*paths.get(id(each), ()), "$ref"))
                follow(referenced)
        for keyword in _IN_PLACE_APPLICATORS:
            for inside in _subschemas(each.get(keyword)):
                follow(inside)
        in_progress.discard(id(each))

    for _, each in objects:
        follow(each)


def _subschemas(value: Any) -> Iterator[Mapping[str, Any]]:
    """The value if it is an object, else the objects of a list."""
    match value:
        case {}:
            inside: Mapping[str, Any] = value
            yield inside
        case [*items]:
            for each in items:
                if isinstance(each, dict):
                    yield each
        case _:
            pass


def _check_sizes(objects: Objects) -> None:
    for path, each in objects:
        for keyword in _COUNT_KEYWORDS & each.keys():
            count = each[keyword]
            if isinstance(count, int | float) and count > _MAX_COUNT:
                hint = "leave it out if there is no limit"
                raise CheckFailed(f"{count} is more than engines can count: the maximum is {_MAX_COUNT}; {hint}", (*path, keyword))
        if _PATTERN_KEYWORDS.isdisjoint(each):
            continue
        inside = each.get("patternProperties")
        for location, pattern in (("pattern",), each.get("pattern")), *((("patternProperties", name), name) for name in inside or ()):
            if isinstance(pattern, str):
                try:
                    check_repetition(pattern)
                except CheckFailed as fault:
                    raise CheckFailed(fault.message, (*path, *location)) from None


def _resolve_pointer(schema: Any, pointer: str, anchors: Mapping[str, Any]) -> Any:
    """The value at a JSON pointer or anchor; None: there is none."""
    if pointer != "#" and not pointer.startswith("#/"):
        return anchors.get(pointer[1:])
    value: Any = schema
    for step in pointer[1:].split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        match value:
            case {**inside}:
                value = inside.get(name)
            case [*items] if name.isdecimal() and int(name) < len(items):
                value = items[int(name)]
            case _:
                return None
    return value


def _is_known(reference: str, base: str, known_ids: set[str]) -> bool:
    address = urldefrag(reference)[0]
    return address in known_ids or urljoin(base, address) in known_ids or any(urljoin(each, address) in known_ids for each in known_ids)


def _iter_objects(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    pending: list[tuple[Path, Any]] = [((), schema)]
    while pending:
        path, node = pending.pop()
        match node:
            case {}:
                inside: Mapping[str, Any] = node
                yield path, inside
                for key, value in inside.items():
                    if key in _NAMED_SUBSCHEMAS:
                        pending.extend(((*path, key, name), each) for name, each in _mapping_items(value))
                    elif key not in _VALUE_KEYWORDS:
                        pending.append(((*path, key), value))
            case [*items]:
                pending.extend(((*path, index), value) for index, value in enumerate(items))
            case _:
                pass


def _mapping_items(value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case {**inside}:
            yield from inside.items()
        case _:
            pass


def _refuse_fetch(address: str) -> NoReturn:
    raise ValueError(f"{address!r:.200} is outside of the schema, and nothing is fetched")
