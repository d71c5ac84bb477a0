"""JSON merge patch (RFC 7396): its type, and its application. Absent fields stay, null removes, lists are replaced."""

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType


@functools.cache  # the OpenAPI document can show one type of a name, in however many others it is
def patch_type(settings: type[Struct], name: str) -> type[Any]:
    """A Struct with the fields of `settings`, each of which may be absent or null; so may those of objects in it."""
    hints = get_type_hints(settings, include_extras=True)
    fields = [(field, _patch_of(hints[field]) | UnsetType | None, UNSET) for field in settings.__struct_fields__]
    doc = f"A merge patch of {settings.__name__}: what is left out stays, null is the default."
    return msgspec.defstruct(
        name, fields, module=settings.__module__, namespace={"__doc__": doc}, frozen=True, kw_only=True, forbid_unknown_fields=True
    )


def merge(value: Any, patch: Any) -> Any:
    """Returns `value` with `patch` applied, both as JSON's own types."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    for name, each in cast("dict[str, Any]", patch).items():
        if each is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), each)
    return merged


def _patch_of(hint: Any) -> Any:
    """The type of a patch for a value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[_patch_of(arguments[0]), *arguments[1:]]  # pyright: ignore[reportReturnType]
    if origin in (Union, types.UnionType):
        return Union[*(_patch_of(each) for each in arguments)]  # pyright: ignore[reportReturnType]
    if origin in (dict, Mapping):
        return dict[arguments[0], _patch_of(arguments[1]) | None]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return patch_type(hint, hint.__name__.removesuffix("Settings").removesuffix("Config") + "Changes")
    return cast(Any, hint)
