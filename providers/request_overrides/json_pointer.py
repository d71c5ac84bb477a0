"""Sets and deletes a value in a body by the tokens of a JSON Pointer (RFC 6901).

Objects on the way are made; `-` is the place behind a list's end.
"""

from collections.abc import Sequence
from typing import Any, NoReturn, cast

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.request_overrides.refusal import refuse

# Of a field into which a pointer leads: it is decoded, which nobody may interrupt.
MAX_CHANGED_BYTES = 256 * 1024


def set_value(body: Body, tokens: Sequence[str], value: Raw, path: str, copied: set[str]) -> None:
    """Sets what a pointer points to. Raises InvalidRequest for a pointer that leads into a text, beyond a list, or into a field that is too
    large.

    `path` is the caller's, of the pointer. `copied` are the fields of this body that are copies already, which it adds to.
    """
    top, *rest = tokens
    if not rest:
        body[top] = value
        copied.discard(top)
        return
    holder: Any = _copy(body, top, path, copied) if body.has_value(top) else {}
    body[top] = holder
    copied.add(top)
    for token in rest[:-1]:
        child = _child(holder, token, path)
        if child is None:
            child = cast("dict[str, Any]", {})
            _set(holder, token, child, path)
        holder = child
    _set(holder, rest[-1], msgspec.json.decode(value), path)


def delete_value(body: Body, tokens: Sequence[str], path: str, copied: set[str]) -> None:
    """Deletes a value; one that is not there is deleted already. The parameters are those of set_value().

    Raises InvalidRequest for a pointer that leads into a text, or into a field that is too large.
    """
    top, *rest = tokens
    if not rest:
        body.pop(top, None)
        copied.discard(top)
        return
    if not body.has_value(top):
        return
    holder = body[top] = _copy(body, top, path, copied)
    for token in rest[:-1]:
        if isinstance(holder, list) and not _is_place(cast("list[Any]", holder), token):
            return
        holder = _child(holder, token, path)
        if holder is None:
            return
    last = rest[-1]
    if isinstance(holder, dict):
        cast("dict[str, Any]", holder).pop(last, None)
    elif isinstance(holder, list):
        items = cast("list[Any]", holder)
        if _is_place(items, last):
            del items[int(last)]
    else:
        _refuse_value(path)


def _copy(body: Body, key: str, path: str, copied: set[str]) -> Any:
    """Other requests for the same caller may share the value."""
    if key in copied:
        return body[key]
    raw = as_raw(body[key])
    if len(memoryview(raw)) > MAX_CHANGED_BYTES:
        refuse(path, f"it leads into a field of {len(memoryview(raw))} bytes, and one of {MAX_CHANGED_BYTES} can be changed")
    copied.add(key)
    return msgspec.json.decode(raw)


def _child(holder: Any, token: str, path: str) -> Any:
    """Returns what is at this token, or None if nothing is."""
    if isinstance(holder, dict):
        return cast("dict[str, Any]", holder).get(token)
    if isinstance(holder, list):
        items = cast("list[Any]", holder)
        return None if token == "-" else items[_place(items, token, path)]
    _refuse_value(path)


def _set(holder: Any, token: str, value: Any, path: str) -> None:
    if isinstance(holder, dict):
        cast("dict[str, Any]", holder)[token] = value
    elif isinstance(holder, list):
        items = cast("list[Any]", holder)
        if token == "-":
            items.append(value)
        else:
            items[_place(items, token, path)] = value
    else:
        _refuse_value(path)


def _place(items: list[Any], token: str, path: str) -> int:
    if not _is_place(items, token):
        refuse(path, f"{token!r:.40} is no place in a list of {len(items)}")
    return int(token)


def _is_place(items: list[Any], token: str) -> bool:
    return token.isascii() and token.isdigit() and len(token) <= 9 and int(token) < len(items)


def _refuse_value(path: str) -> NoReturn:
    refuse(path, "it leads into a value that is neither an object nor a list")
