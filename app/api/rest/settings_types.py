"""Types of REST that are made of a record of the configuration file, so that its fields are declared and described once."""

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo

T = TypeVar("T", bound=Struct)

# The names by which clients know records of the file, where these do not follow from the record's own.
_NAMES: Mapping[str, str] = {"PriceStep": "Step", "PriceHours": "Hour", "GpuPrice": "Gpu"}
# Bounds as a schema has them, and as msgspec checks them.
_BOUNDS: Mapping[str, str] = {"minimum": "ge", "maximum": "le", "maxItems": "max_length"}


def settings_type(record: type[T], without: Sequence[str] = (), *, noun: str = "", nested: bool = True) -> type[T]:
    """The type of a record as bodies set it and as it is shown: with every field, also those at their defaults.

    With `nested` the same goes for records within it. Bounds that the record only describes are checked here: for files
    there are sentences of their own. `without` has the fields that identify an entry, and are no settings; `noun` says
    what the entry is.
    """
    name = noun.capitalize() or _NAMES.get(record.__name__) or record.__name__.removesuffix("Config")
    doc = f"Everything that can be set of a {noun}; what is left out gets its default." if noun else record.__doc__
    return _settings_type(record, tuple(without), f"{name}Settings", doc, nested)


def new_type(settings: type[T], noun: str, **key: Any) -> type[T]:
    """The type of a body that creates an entry: its settings, and the fields that identify it."""
    fields = [(name, hint, None if type(None) in get_args(_bare(hint)) else NODEFAULT) for name, hint in key.items()]
    return _extended(f"New{noun.capitalize()}", f"A {noun} to create.", settings, *fields)


def entry_type(settings: type[T], noun: str, about: str, **key: Any) -> type[T]:
    """The type of what is shown of an entry: its settings, what identifies it, and its times. `about`: a sentence on what it is."""
    fields = [(name, _bare(hint)) for name, hint in key.items()]
    return _extended(f"{noun.capitalize()}Entry", about, settings, *fields, ("created_at", str), ("updated_at", str))


# The OpenAPI document can show one type of a name, so that each is made once.
@functools.cache
def _settings_type(record: Any, without: tuple[str, ...], name: str, doc: str | None, nested: bool) -> Any:
    hints = get_type_hints(record, include_extras=True)
    fields = [(each, _settings_of(hints[each.name], nested=nested)) for each in msgspec.structs.fields(record)]
    return msgspec.defstruct(
        name,
        [(each.name, hint, _default_of(each, hint)) for each, hint in fields if each.name not in without],
        module=record.__module__,
        namespace={"__doc__": doc},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


@functools.cache
def _extended(name: str, doc: str, settings: Any, *fields: Any) -> Any:
    namespace = {"__doc__": doc}
    return msgspec.defstruct(name, fields, bases=(settings,), module=settings.__module__, namespace=namespace, frozen=True, kw_only=True)


def _settings_of(hint: Any, *, nested: bool) -> Any:
    """The type of a value of this type, with bounds that are checked and, where `nested`, records of every field."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        checked = [_checked(each) for each in arguments[1:]]
        return Annotated[_settings_of(arguments[0], nested=nested), *checked]  # pyright: ignore[reportReturnType]
    if not nested:
        return hint
    if origin in (Union, types.UnionType):
        return Union[*(_settings_of(each, nested=True) for each in arguments)]  # pyright: ignore[reportReturnType]
    if origin in (dict, Mapping, tuple):
        return cast(Any, origin)[*(_settings_of(each, nested=True) for each in arguments)]
    return cast(Any, settings_type(hint) if isinstance(hint, type) and issubclass(hint, Struct) else hint)


def _checked(meta: Meta) -> Meta:
    bounds = {_BOUNDS[name]: bound for name, bound in (meta.extra_json_schema or {}).items() if name in _BOUNDS}
    return Meta(description=meta.description, extra_json_schema=meta.extra_json_schema, **bounds) if bounds else meta


def _default_of(field: FieldInfo, hint: Any) -> Any:
    if field.default_factory is not NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.convert(msgspec.to_builtins(field.default), hint) if isinstance(field.default, Struct) else field.default


def _bare(hint: Any) -> Any:
    """A type without what it is annotated with."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint
