"""References within a JSON schema: Anthropic follows those to definitions of the schema itself, none of which may lead back to itself."""

from collections.abc import Iterator
from typing import Any, cast

_DEFINITIONS = ("$defs", "definitions")
_DEEPEST = 100


def fault_of_references(schema: dict[str, Any]) -> str | None:
    """In a few words; None: there is none. Of definitions at the root, as every generator of schemas places them."""
    leads: dict[str, set[str]] = {}
    for group in _DEFINITIONS:
        named: Any = schema.get(group)
        for name, inner in cast("dict[str, Any]", named).items() if isinstance(named, dict) else ():
            leads[f"#/{group}/{name}"] = set(_references(inner, 0))
    asked = set(_references({key: value for key, value in schema.items() if key not in _DEFINITIONS}, 0))
    if not asked.union(*leads.values()) <= leads.keys():
        return "a $ref to elsewhere than its own definitions"
    while leads:
        ends = {name for name, onward in leads.items() if onward.isdisjoint(leads)}
        if not ends:
            return "a $ref that leads to itself"
        leads = {name: onward for name, onward in leads.items() if name not in ends}
    return None


def _references(schema: Any, depth: int) -> Iterator[str]:
    """What is nested deeper is refused for that."""
    if depth > _DEEPEST:
        return
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from _references(each, depth + 1)
    elif isinstance(schema, dict):
        for key, value in cast("dict[str, Any]", schema).items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value, depth + 1)
