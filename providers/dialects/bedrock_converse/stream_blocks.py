"""Blocks that only Bedrock has (a tool that it ran, its result, an image), assembled from the events of a stream.

Source: the service model of Bedrock Runtime in botocore 1.44 (ContentBlockStart, ContentBlockDelta), read 2026-11.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from providers.canonical.chat import Opaque
from providers.canonical.tool_calls import write_arguments
from providers.dialects.bedrock_converse.opaque_blocks import read_native_block


def assemble_native_block(start: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> Opaque:
    """The block as a complete response has it. Input arrives in pieces of text and results in lists; of other fields the last wins."""
    kind = next(iter(start), None) or next((key for delta in deltas for key in delta), "unknown")
    block: dict[str, Any] = dict(start.get(kind) or {})
    input_pieces: list[str] = []
    for delta in deltas:
        value = delta.get(kind)
        if isinstance(value, list):
            block.setdefault("content", []).extend(cast(list[Any], value))
        elif isinstance(value, dict):
            fields = cast(dict[str, Any], value)
            input_pieces.append(str(fields.pop("input", "")))
            block.update(fields)
    if kind == "toolUse":
        block["input"] = write_arguments("".join(input_pieces))
    return read_native_block({kind: msgspec.Raw(msgspec.json.encode(block))})
