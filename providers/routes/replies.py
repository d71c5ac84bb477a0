"""Reading what engines answer on these routes: an object or a list of them, in which an error may stand with status 200."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.errors import Garbled
from providers.openai_usage import read_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body, mended

_items = msgspec.json.Decoder(list[dict[str, Raw]])


class _Counted(msgspec.Struct):
    prompt_tokens: int | None = None


_counted = msgspec.json.Decoder(_Counted)


def read_object(raw: bytes) -> Body:
    """Raises Garbled, or the error that it holds."""
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    return body


def read_list(raw: bytes) -> list[Body]:
    """A bare list, as SGLang and TGI answer. Raises Garbled, or the error that came instead."""
    if raw.lstrip()[:1] == b"{":
        read_object(raw)
    for attempt in (raw, mended(raw)):
        try:
            return [Body(item) for item in _items.decode(attempt)]
        except UNREADABLE:
            continue
    raise Garbled("The engine's answer is not the list of objects that its API promises.")


def read_told(raw: bytes) -> Body | list[Body]:
    """Whichever of the two it is."""
    return read_list(raw) if raw.lstrip()[:1] == b"[" else read_object(raw)


def usage_told(told: Body | list[Body]) -> int | None:
    """The tokens that went in, as `usage` or SGLang's `meta_info` tells them; None if they are not told of all."""
    counts = [_tokens(each) for each in (told if isinstance(told, list) else [told])]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _tokens(told: Mapping[str, Any]) -> int | None:
    body = Body(told)
    if body.said("usage"):
        usage = read_usage(msgspec.json.encode(body["usage"]))
        return usage.input or None if usage else None
    try:
        return _counted.decode(msgspec.json.encode(body.get("meta_info", NULL))).prompt_tokens
    except UNREADABLE:
        return None


def decoded(body: Mapping[str, Any], key: str, kind: msgspec.json.Decoder[Any], what: str) -> Any:
    """Raises Garbled: `what` the engine's answer holds not."""
    try:
        return kind.decode(msgspec.json.encode(body.get(key, NULL)))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer holds no {what}: {fault}.") from None
