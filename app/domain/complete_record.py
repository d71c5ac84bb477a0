"""Records with settings as they are shown: every field is there, also at its default."""

from typing import Any, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)


def complete_record(record: type[T]) -> type[T]:
    """A base for a class with the fields of a record, none of which can be left out."""
    hints = get_type_hints(record, include_extras=True)
    fields: list[tuple[str, Any]] = [(name, hints[name]) for name in record.__struct_fields__]
    made = msgspec.defstruct(f"Complete{record.__name__}", fields, module=record.__module__, frozen=True, kw_only=True)
    return cast("type[T]", made)
