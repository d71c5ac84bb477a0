"""Option `drop`: its validation, how teams and keys store it, and what two of them allow together."""

from app.domain.callers import DroppableFields
from app.domain.errors import InvalidKeyField
from app.store.postgres.names import MAX_NAME_CHARACTERS

_MAX_FIELDS = 100


def find_drop_fault(drop: DroppableFields) -> str | None:
    """Returns what is wrong with `drop`, or None if nothing is.

    The fault is the end of a sentence that begins with the place of the option.
    """
    if drop == "all":
        return None
    if len(drop) > _MAX_FIELDS:
        return f' names {len(drop)} fields. It may name {_MAX_FIELDS}, or be "all".'
    for field in drop:
        if field in ("all", "none"):
            return f': {field!r} is no name of a field. All fields: `"all"` without a list; none: no `drop`, or an empty list.'
        if not field or field != field.strip() or not field.isprintable() or len(field) > MAX_NAME_CHARACTERS or "," in field:
            return f": the name of a field has 1 to {MAX_NAME_CHARACTERS} printable characters, no comma, and no space at its ends."
    return None


def drop_column(drop: DroppableFields) -> list[str] | None:
    """The column of a team or a key: null for nothing, `{all}` for everything. Raises InvalidKeyField."""
    fault = find_drop_fault(drop)
    if fault is not None:
        raise InvalidKeyField("drop", f"`drop`{fault}")
    return ["all"] if drop == "all" else list(drop) or None


def from_drop_column(stored: list[str] | None) -> DroppableFields:
    if stored is None:
        return ()
    return "all" if "all" in stored else tuple(stored)


def unite_drops(one: DroppableFields, other: DroppableFields) -> DroppableFields:
    """Returns the fields that may be dropped if either of the two says so."""
    if one == "all" or other == "all":
        return "all"
    return tuple(dict.fromkeys((*one, *other)))
