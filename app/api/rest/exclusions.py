"""Exclusions: for each filter that takes several values, one of the same name with not_ before it, made of its declaration."""

from functools import cache
from typing import Annotated, Any, Optional, TypeVar, cast, get_args, get_type_hints

from msgspec import Meta, Struct, defstruct

from app.api.rest.request_parsing import repeatable_names

T = TypeVar("T", bound=Struct)

PREFIX = "not_"


def with_exclusions(filters: type[T]) -> type[T]:
    """A base for a class with the filters, and with their exclusions: what has any of their values is left out."""
    hints = get_type_hints(filters, include_extras=True)
    made = defstruct(
        f"Excluding{filters.__name__}",
        [(PREFIX + name, _excluding(hints[name]), None) for name in excludable(filters)],
        bases=(filters,),
        module=filters.__module__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[T]", made)


@cache
def excludable(filters: type[Struct]) -> tuple[str, ...]:
    """The names of the filters that have an exclusion."""
    return tuple(name for name in filters.__struct_fields__ if name in repeatable_names(filters) and not name.startswith(PREFIX))


def _excluding(hint: Any) -> Any:
    """The type of a filter, described as what it excludes. Its description begins with "Only"."""
    annotated, _ = get_args(hint)
    kind, meta = get_args(annotated)
    assert isinstance(meta, Meta) and meta.description is not None and meta.description.startswith("Only "), f"{hint} is no such filter"
    described: Any = Annotated[kind, Meta(description="Not " + meta.description.removeprefix("Only "))]
    return Optional[described]  # noqa: UP045 - the operator does not know a type that is made here
