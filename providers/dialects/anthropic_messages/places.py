"""Where in a caller's own JSON stands what the meaning calls `messages[i].content[j]`."""

import re

import msgspec
from msgspec import Raw

from providers.dialects.anthropic_messages.seals import CallSeal, read_redacted
from providers.wire import UNREADABLE, Body

_MESSAGE = re.compile(r"messages\[(\d+)\](.*)")
_PART = re.compile(r"\.content\[(\d+)\](.*)")


class _Holder(msgspec.Struct):
    """A message, or the result of a call."""

    content: Raw


class _Block(msgspec.Struct):
    type: str
    data: str | None = None


_holder = msgspec.json.Decoder(_Holder)
_block = msgspec.json.Decoder(_Block)
_list = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Raw])


def place(body: Body, path: str) -> str:
    """`system` is the meaning's first message, and has no `content`; what is said in a mere string is that string.

    A path into what is not there stays as it is.
    """
    found = _MESSAGE.fullmatch(path)
    if found is None:
        return path
    at, rest = int(found[1]), found[2]
    try:
        if body.said("system"):
            if at == 0:
                return _within("system", body["system"], rest)
            at -= 1
        if not rest.startswith(".content["):
            return f"messages[{at}]{rest}"
        message = _list.decode(body["messages"])[at]
        return _within(f"messages[{at}].content", _holder.decode(message).content, rest)
    except (IndexError, *UNREADABLE):
        return path


def _within(place: str, content: Raw, rest: str) -> str:
    found = _PART.fullmatch(rest)
    blocks = _content.decode(content)
    if found is None or isinstance(blocks, str):
        return place
    index = [at for at, raw in enumerate(blocks) if not _is_carrier(raw)][int(found[1])]
    inner = _PART.fullmatch(found[2])
    if inner is None:
        return f"{place}[{index}]{found[2]}"
    return _within(f"{place}[{index}].content", _holder.decode(blocks[index]).content, found[2])


def _is_carrier(raw: Raw) -> bool:
    """Whether a block is no part by itself: it carries the seal of a call."""
    block = _block.decode(raw)
    return block.type == "redacted_thinking" and isinstance(read_redacted(block.data or "", raw), CallSeal)
