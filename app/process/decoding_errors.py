"""msgspec's messages about values of the wrong type, in plain words.

They name types as users of JSON do, and the choices of a field.
"""

import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

_PLAIN_TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "datetime": "a time in ISO 8601, such as 2026-11-27T09:30:00Z",
}
_TYPE_LIST = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
_STEP = re.compile(r"\.(\w+)|\[[^\]]*\]")


def in_plain_words(problem: str) -> str:
    """msgspec's message with the types in words; a name of a field stays as it is."""
    return _TYPE_LIST.sub(_plain_types, problem)


def _plain_types(match: re.Match[str]) -> str:
    names = match[1].split(" | ")
    return " or ".join(_PLAIN_TYPES[name] for name in names) if all(name in _PLAIN_TYPES for name in names) else match[0]


def name_keys(value: Any, kind: Any, fault: msgspec.ValidationError) -> str:
    """The path of the fault with which `value` does not convert to `kind`, without `$`: `.variants.terse.params`.

    msgspec writes `[...]` for any key of a mapping: the one is meant whose value has this fault. `[...]` stays for a wrong key, and where
    `value` is None: it is not known.
    """
    path = str(fault).partition(" - at `$")[2].rstrip("`")
    if value is None:
        return path
    shown, inner = "", value
    for step in _STEP.finditer(path):
        if step[0] != "[...]":
            key: Any = step[1] if step[1] is not None else int(step[0][1:-1])
            shown += step[0]
        else:
            kinds = _hints_at(kind, path[: step.end()])
            fault_below = str(fault).replace(f"`${path}`", f"`${path[step.end() :]}`").removesuffix(" - at `$`")
            items = cast("dict[str, Any]", inner).items() if isinstance(inner, dict) and kinds else ()
            key = next((name for name, each in items if _fault_of(each, kinds) == fault_below), None)
            if key is None:
                return path
            shown += f".{key:.100}"
        inner = cast("Any", inner)[key]
    return shown


def _fault_of(value: Any, kinds: Sequence[Any]) -> str | None:
    try:
        msgspec.convert(value, Union[tuple(kinds)])  # noqa: UP007
    except msgspec.ValidationError as fault:
        return str(fault)
    return None


def choices_at(body_type: Any, path: str) -> tuple[str, ...]:
    """Returns the values that a field may have, in the order of their declaration.

    `path` is the path of the field as msgspec writes it (`$.limits[...].per`). The result is empty if the
    field has no fixed choices. For a field that may be a list as well, the last choice says so.
    """
    alternatives = _types_at(body_type, path)
    choices = tuple(str(value) for each in alternatives if get_origin(each) is Literal for value in get_args(each))
    return (*choices, "a list") if choices and any(_is_list(each) for each in alternatives) else choices


def field_names_at(body_type: Any, path: str) -> tuple[str, ...]:
    """The names of the fields of the object at a path, as they are in JSON; empty if any name may be there."""
    structs = [
        kind for each in _types_at(body_type, path) if isinstance(kind := get_origin(each) or each, type) and issubclass(kind, Struct)
    ]
    return tuple(name for each in structs for name in each.__struct_encode_fields__)


def _types_at(body_type: Any, path: str) -> list[Any]:
    return [each for hint in _hints_at(body_type, path.removeprefix("$")) for each in _alternatives(hint)]


def _hints_at(body_type: Any, path: str) -> list[Any]:
    hints: list[Any] = [body_type]
    for step in _STEP.finditer(path):
        hints = [inner for hint in hints for inner in _step_into(hint, step[1])]
    return hints


def _step_into(hint: Any, name: str | None) -> list[Any]:
    """The types of a field, or with None of the items of a list or a mapping."""
    found: list[Any] = []
    for each in _alternatives(hint):
        kind: Any = get_origin(each) or each
        if name is not None and isinstance(kind, type) and issubclass(kind, Struct):
            fields = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
            found += [get_type_hints(kind, include_extras=True)[fields[name]]] if name in fields else []
        elif name is None and isinstance(kind, type) and get_args(each):  # a Literal has arguments, and no items
            found.append(get_args(each)[1 if issubclass(kind, Mapping) else 0])
    return found


def _alternatives(hint: Any) -> list[Any]:
    """The members of a union, without descriptions."""
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    return [each for one in get_args(hint) for each in _alternatives(one)] if get_origin(hint) in (Union, UnionType) else [hint]


def _is_list(hint: Any) -> bool:
    kind: Any = get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, Sequence) and kind is not str
