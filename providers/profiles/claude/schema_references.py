"""References in a JSON schema: Anthropic supports those to the schema's own definitions, without cycles."""

from collections.abc import Iterator
from typing import Any, cast

_DEFINITIONS = ("$defs", "definitions")
_MAX_DEPTH = 100


def find_reference_error(schema: dict[str, Any]) -> str | None:
    """Why a $ref of the schema is not supported; None: all are. Only definitions at the root count, where generators place them."""
    references_by_name: dict[str, set[str]] = {}
    for group in _DEFINITIONS:
        definitions: Any = schema.get(group)
        for name, definition in cast("dict[str, Any]", definitions).items() if isinstance(definitions, dict) else ():
            references_by_name[f"#/{group}/{name}"] = set(_iter_references(definition, 0))
    root_references = set(_iter_references({key: value for key, value in schema.items() if key not in _DEFINITIONS}, 0))
    if not root_references.union(*references_by_name.values()) <= references_by_name.keys():
        return "a $ref to something other than its own definitions"
    while references_by_name:
        leaves = {name for name, onward in references_by_name.items() if onward.isdisjoint(references_by_name)}
        if not leaves:
            return "a recursive $ref"
        references_by_name = {name: onward for name, onward in references_by_name.items() if name not in leaves}
    return None


def _iter_references(schema: Any, depth: int) -> Iterator[str]:
    """The targets of all $ref down to _MAX_DEPTH; a deeper schema is refused elsewhere."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from _iter_references(each, depth + 1)
    elif isinstance(schema, dict):
        for key, value in cast("dict[str, Any]", schema).items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _iter_references(value, depth + 1)
