"""The `input` of TensorZero's API with templates rendered in it. It has forms of its own for what templates are rendered with."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from app.gateway.functions.function_table import CompiledVariant
from app.gateway.functions.message_templates import MAX_INPUT_BYTES, MessageTemplates
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body

_TEXT_TYPES: Mapping[str, str] = dict.fromkeys(("system", "user", "assistant"), "text")
_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def edit_inference(body: Body, variant: CompiledVariant, system_input: Mapping[str, Any] | None) -> None:
    """Renders the variant's templates into the `input` of a request of the native route. Raises InvalidRequest.

    `system_input` is None where that API has no other place for it than `input.system`.
    """
    given = Body.read(bytes(body["input"]))
    size_bytes = len(memoryview(given["system"])) if given.has_value("system") else 0
    if size_bytes > MAX_INPUT_BYTES and "system" in variant.templates:
        raise InvalidRequest(f"`input.system` may have {MAX_INPUT_BYTES} bytes, not {size_bytes}.", param="input.system")
    system = given.value("system")
    templates = MessageTemplates(variant, cast("dict[str, Any]", system) if isinstance(system, dict) else system_input)
    if templates.has_system:
        given["system"] = templates.render_system(system if isinstance(system, str) else None, "input.system")
    if given.has_value("messages"):
        messages = [_marked(message) for message in _decode_messages(given["messages"])]
        given["messages"], _ = templates.render_messages(messages, "input.messages", _TEXT_TYPES)
    body["input"] = Raw(given.write())


def _marked(message: Mapping[str, Raw]) -> dict[str, Any]:
    """The message with the input of templates as it is written in OpenAI's chat."""
    content = msgspec.json.decode(message["content"])
    match content:
        case dict():
            marked: Any = [{"type": "tensorzero::template", "arguments": content}]
        case list():
            marked = [_marked_block(block) for block in cast("list[dict[str, Any]]", content)]
        case _:
            return dict(message)
    return {**message, "content": Raw(msgspec.json.encode(marked))}


def _marked_block(block: dict[str, Any]) -> dict[str, Any]:
    kind = block.get("type")
    if kind in ("template", "raw_text"):
        return {**block, "type": f"tensorzero::{kind}"}
    for name in ("arguments", "text"):  # older clients have the arguments as `text`
        if kind == "text" and isinstance(block.get(name), dict):
            return {"type": "tensorzero::template", "arguments": block[name]}
    return block
