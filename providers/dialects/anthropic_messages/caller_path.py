"""Paths of the canonical chat, such as `messages[i].content[j]`, as paths in the caller's body."""

import re

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialects.anthropic_messages.opaque_states import CallState, read_redacted

_MESSAGE = re.compile(r"messages\[(\d+)\](.*)")
_PART = re.compile(r"\.content\[(\d+)\](.*)")


class _ContentHolder(msgspec.Struct):
    """A message or a tool result."""

    content: Raw


class _Block(msgspec.Struct):
    type: str
    data: str | None = None


_holder_decoder = msgspec.json.Decoder(_ContentHolder)
_block_decoder = msgspec.json.Decoder(_Block)
_list = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Raw])


def caller_path(body: Body, path: str) -> str:
    """The caller's path. One that does not exist in the body is returned unchanged.

    The canonical first message is `system`, if the body has one, whose blocks stand in no `content`. A path into content that is a string
    is the path of that string.
    """
    matched = _MESSAGE.fullmatch(path)
    if matched is None:
        return path
    message_index, suffix = int(matched[1]), matched[2]
    try:
        if body.has_value("system"):
            if message_index == 0:
                return _path_in_content("system", body["system"], suffix)
            message_index -= 1
        if not suffix.startswith(".content["):
            return f"messages[{message_index}]{suffix}"
        message = _list.decode(body["messages"])[message_index]
        return _path_in_content(f"messages[{message_index}].content", _holder_decoder.decode(message).content, suffix)
    except (IndexError, *DECODE_ERRORS):
        return path


def _path_in_content(content_path: str, content: Raw, suffix: str) -> str:
    matched = _PART.fullmatch(suffix)
    blocks = _content.decode(content)
    if matched is None or isinstance(blocks, str):
        return content_path
    index = [position for position, raw in enumerate(blocks) if not _carries_call_state(raw)][int(matched[1])]
    inner_match = _PART.fullmatch(matched[2])
    if inner_match is None:
        return f"{content_path}[{index}]{matched[2]}"
    return _path_in_content(f"{content_path}[{index}].content", _holder_decoder.decode(blocks[index]).content, matched[2])


def _carries_call_state(raw: Raw) -> bool:
    """Whether a block is not a part, but carries the signature of a call."""
    block = _block_decoder.decode(raw)
    return block.type == "redacted_thinking" and isinstance(read_redacted(block.data or "", raw), CallState)
