"""An engine's embeddings made what the caller asked for: as many, in order, in the encoding and of the length that was asked.

Where they are that already they stay the engine's own bytes. The body has no key of ours: headers tell the ids.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import Usage
from providers.dialect import Edited, Stamp
from providers.dialects.openai_embeddings.vectors import as_base64, as_numbers, is_base64, size
from providers.errors import Garbled, Ignored
from providers.openai_usage import read_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body

# What each number takes in base64, by vLLM's `embed_dtype`.
_WIDTHS = {"float16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}

_LIST = Raw(b'"list"')
_EMBEDDING = Raw(b'"embedding"')

_items = msgspec.json.Decoder(list[dict[str, Raw]])
_raws = msgspec.json.Decoder(list[Raw])


class _Asked:
    """What the caller asked for, out of its body."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        body = Body(asked)
        self.base64 = body.value("encoding_format") == "base64"
        self.dimensions: int | None = body.value("dimensions")
        dtype, endianness = body.value("embed_dtype"), body.value("endianness")
        self.width_bytes = _WIDTHS.get(dtype, 4)
        # Other numbers than the little-endian floats of OpenAI's, which only their reader understands.
        self.odd = dtype not in (None, "float32") or endianness == "big"
        self.count = _count(body)


def _count(body: Body) -> int | None:
    """How many embeddings were asked for; None if the ask is not known."""
    if not body.said("input"):
        return _conversations(body) if body.said("messages") else None
    given = body["input"]
    if not bytes(given).startswith(b"["):
        return 1
    inputs = _raws.decode(given)
    return 1 if bytes(inputs[0])[:1].isdigit() else len(inputs)


def _conversations(body: Body) -> int:
    messages = _raws.decode(body["messages"])
    return len(messages) if bytes(messages[0]).startswith(b"[") else 1


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """Raises Garbled for what is not what was asked for, Ignored where the engine did not heed `dimensions`, or the error it told."""
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    try:
        items = _items.decode(body.get("data", NULL))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer holds no embeddings: {fault}.") from None
    asked = _Asked(stamp.asked)
    if asked.count is not None and len(items) != asked.count:
        raise Garbled(f"The engine gave {len(items)} embeddings for {asked.count} inputs.")
    arranged = _in_order(items)
    made = [_as_asked(item, index, asked) for index, item in enumerate(arranged)]
    if arranged is not items or any(made):
        body["data"] = arranged
    body["object"], body["model"] = _LIST, stamp.model
    return Edited(body.write(), _read_usage(body), None)


def _in_order(items: list[dict[str, Raw]]) -> list[dict[str, Raw]]:
    """By index; the same list if they stand so, or have none."""
    told = [item.get("index", NULL) for item in items]
    places = list(range(len(items)))
    if all(index == NULL for index in told) or [bytes(index) for index in told] == [b"%d" % place for place in places]:
        return items
    try:
        order = [msgspec.json.decode(index, type=int) for index in told]
    except UNREADABLE:
        order = []
    if sorted(order) != places:
        raise Garbled("The engine's embeddings are not numbered as the inputs are.")
    return [items[at] for at in sorted(places, key=order.__getitem__)]


def _as_asked(item: dict[str, Any], index: int, asked: _Asked) -> bool:
    """Whether anything had to be made different. Raises Garbled or Ignored."""
    vector = item.get("embedding", NULL)
    length = size(vector, asked.width_bytes)
    if asked.dimensions is not None and length != asked.dimensions:
        raise Ignored(
            f"The engine gave an embedding of {length} numbers where `dimensions` asks for {asked.dimensions}: this model does not "
            "honour it. Leave it out, or choose another model.",
            told=422,
            param="dimensions",
        )
    lacking: dict[str, Any] = {key: value for key, value in (("index", index), ("object", _EMBEDDING)) if item.get(key, NULL) == NULL}
    if is_base64(vector) != asked.base64:
        if asked.odd:
            raise Garbled("The engine gave its embeddings in another encoding than was asked for, and not as 32-bit floats.")
        lacking["embedding"] = as_base64(vector) if asked.base64 else as_numbers(vector)
    item.update(lacking)
    return bool(lacking)


def _read_usage(body: Body) -> Usage:
    """Nothing is written, whatever is told. A count of 0, which some hosts tell, is none: no input is empty."""
    told = read_usage(body["usage"]) if body.said("usage") else None
    return Usage(told.input or None if told else None, 0)
