"""Parts of a response as content blocks."""

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.tool_calls import is_json_object
from providers.dialects.tensorzero_inference.opaque_states import write_call_state, write_opaque, write_signature


def write_blocks(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        match part:
            case Text() | Refusal():
                yield {"type": "text", "text": part.text}
            case Reasoning():
                thought: dict[str, Any] = {"type": "thought", "text": part.text}
                yield thought if part.opaque_state is None else {**thought, "signature": write_signature(part.opaque_state)}
            case ToolCall():
                if part.opaque_state is not None:
                    yield write_call_state(part.id, part.opaque_state)
                yield _call_block(part)
            case Opaque():
                yield write_opaque(part)
            case _:
                assert_never(part)


def _call_block(call: ToolCall) -> dict[str, Any]:
    """The block of a call. Its `arguments` are null if the model wrote none that are a JSON object."""
    is_object = not call.custom and is_json_object(call.arguments)
    return {
        "type": "tool_call",
        "id": call.id,
        "name": call.name,
        "arguments": Raw(call.arguments.encode()) if is_object else None,
        "raw_name": call.name,
        "raw_arguments": call.arguments,
    }


def write_json_output(parts: Iterable[Part]) -> dict[str, Any]:
    """The text of a response that is JSON, and the same parsed; null: it is no JSON."""
    text = "".join(part.text for part in parts if isinstance(part, Text | Refusal))
    return {"raw": text or None, "parsed": _parse(text)}


def _parse(text: str) -> Any:
    try:
        msgspec.json.decode(text)
    except DECODE_ERRORS:
        return None
    return Raw(text.encode())
