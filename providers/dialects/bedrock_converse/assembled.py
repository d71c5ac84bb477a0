"""Blocks that only Bedrock has (a tool that it ran, and its result; an image), put together from the events of a stream.

Source: the service model of Bedrock Runtime in botocore 1.44 (ContentBlockStart, ContentBlockDelta), read 2026-11.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from providers.chat import Opaque
from providers.dialects.bedrock_converse.sealed import read_unknown, write_input


def assembled(start: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> Opaque:
    """As the block of a whole answer says it: input comes in pieces of text, results in lists, and of the rest the last word holds."""
    kind = next(iter(start), None) or next((key for delta in deltas for key in delta), "unknown")
    block: dict[str, Any] = dict(start.get(kind) or {})
    pieces: list[str] = []
    for delta in deltas:
        said = delta.get(kind)
        if isinstance(said, list):
            block.setdefault("content", []).extend(cast(list[Any], said))
        elif isinstance(said, dict):
            told = cast(dict[str, Any], said)
            pieces.append(str(told.pop("input", "")))
            block.update(told)
    if kind == "toolUse":
        block["input"] = write_input("".join(pieces))
    return read_unknown({kind: msgspec.Raw(msgspec.json.encode(block))})
