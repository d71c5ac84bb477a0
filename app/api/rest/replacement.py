"""Bodies of PUT: everything that can be set, and what GET shows beside that. Such read-only fields may come back as they are."""

import functools
from collections.abc import Collection, Mapping
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from providers.canonical.errors import InvalidRequest

_READ_ONLY = Meta(extra_json_schema={"readOnly": True})


@functools.cache  # the OpenAPI document can show one type of a name
def replacement_type(settings: type[Struct], shown: type[Struct]) -> type[Any]:
    """A type with the fields of `settings` and those that only `shown` has; each of the latter may be left out."""
    hints = get_type_hints(shown, include_extras=True)
    read_only = [name for name in shown.__struct_fields__ if name not in settings.__struct_fields__]
    return msgspec.defstruct(
        settings.__name__.removesuffix("Settings") + "Replacement",
        [(name, Annotated[hints[name] | UnsetType, _READ_ONLY], UNSET) for name in read_only],
        bases=(settings,),
        module=settings.__module__,
        namespace={"__doc__": f"{settings.__doc__} Read-only fields may be sent as GET shows them, or left out."},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def check_read_only(
    body: Struct, settings: type[Struct], current: Mapping[str, Any], *, exists: bool = True, counts: Collection[str] = ()
) -> None:
    """Raises InvalidRequest for a read-only field with another value than the present one.

    `current` has the values, as JSON's own types; of what does not exist yet those that its path says. The fields in `counts` go on by
    themselves, so that whatever came back of them is passed over.
    """
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if name in settings.__struct_fields__ or name in counts or value is UNSET:
            continue
        if name not in current:
            raise InvalidRequest(f"`{name}` is read-only, and this does not exist yet: leave it out.", param=name)
        shown = msgspec.json.encode(current[name])
        if msgspec.json.decode(msgspec.json.encode(value)) != msgspec.json.decode(shown):
            remedy = "send it so, or leave it out" if exists else "the path says so. Send it so, or leave it out"
            raise InvalidRequest(f"`{name}` is read-only, and is {shown.decode():.200}: {remedy}.", param=name)
