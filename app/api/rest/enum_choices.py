"""The choices of a field of a body, for an error about a value that is none of them."""

import re
from typing import Any

from msgspec import inspect

_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")


def choices_at(body_type: type[Any], path: str) -> tuple[str, ...]:
    """What a field may be, by its path as msgspec writes it (`$.limits[...].per`); empty if the field has no fixed choices.

    For a field that may be a list as well, the last choice says so.
    """
    kinds: list[Any] = [inspect.type_info(body_type)]
    for step in _STEP.finditer(path.removeprefix("$")):
        kinds = [inner for kind in kinds for inner in _step_into(kind, step[1])]
    alternatives = [each for kind in kinds for each in _alternatives(kind)]
    choices = tuple(str(value) for each in alternatives if isinstance(each, inspect.LiteralType) for value in each.values)
    return (*choices, "a list") if choices and any(hasattr(each, "item_type") for each in alternatives) else choices


def _step_into(kind: Any, name: str | None) -> list[Any]:
    """The types of a field, or with None of the items of a list or a mapping."""
    found: list[Any] = []
    for each in _alternatives(kind):
        if name is not None and isinstance(each, inspect.StructType):
            found += [field.type for field in each.fields if field.encode_name == name]
        elif name is None:
            found += [getattr(each, attribute) for attribute in ("item_type", "value_type") if hasattr(each, attribute)]
    return found


def _alternatives(kind: Any) -> tuple[Any, ...]:
    if isinstance(kind, inspect.Metadata):  # a type with a description
        return _alternatives(kind.type)
    return tuple(each for one in kind.types for each in _alternatives(one)) if isinstance(kind, inspect.UnionType) else (kind,)
