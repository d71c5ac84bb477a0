"""Contents of Google's API with templates rendered in them.

A part is a text, or the input of a template: {"narthex::arguments": {...}} for the template of its role.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from app.gateway.functions.message_templates import MessageTemplates
from providers.canonical.errors import InvalidRequest

_ROLES: Mapping[str | None, str] = {"model": "assistant", "system": "system"}
_TEXT_TYPES: Mapping[str, str] = dict.fromkeys(("system", "user", "assistant"), "text")
_decode_contents = msgspec.json.Decoder(list[dict[str, Any]]).decode
_encode = msgspec.json.encode


def render_contents(templates: MessageTemplates, raw: Any) -> list[Any]:
    """The contents as the templates make them. Raises InvalidRequest."""
    contents = _decode_contents(raw if isinstance(raw, Raw) else _encode(raw))
    return [_render_content(templates, content, f"contents[{index}]") for index, content in enumerate(contents)]


def _render_content(templates: MessageTemplates, content: dict[str, Any], path: str) -> dict[str, Any]:
    parts = cast("list[dict[str, Any]]", content.get("parts") or [])
    blocks = [Raw(_encode({"type": "text", **part} if "text" in part or _is_input(part) else {"type": "part"})) for part in parts]
    message = {"role": _ROLES.get(content.get("role"), "user"), "content": Raw(_encode(blocks))}
    try:
        ([rendered], _) = templates.render_messages([message], "contents", _TEXT_TYPES)
    except InvalidRequest as fault:
        at = (fault.param or "").replace("contents[0].content", f"{path}.parts")
        raise fault.reworded(fault.message.replace(fault.param or path, at), param=at) from None
    if rendered is message:
        return content
    written: Any = rendered["content"]
    if isinstance(written, str):
        return {**content, "parts": [{"text": written}]}
    made = [part if isinstance(block, Raw) else {"text": block["text"]} for part, block in zip(parts, written, strict=True)]
    return {**content, "parts": made}


def _is_input(part: Mapping[str, Any]) -> bool:
    return "narthex::arguments" in part or "tensorzero::arguments" in part


def read_system_text(instruction: Any) -> str | None:
    """The text of `systemInstruction`; None: there is none."""
    texts: list[str] = []
    match instruction:
        case {"parts": [*parts]}:
            for part in parts:
                match part:
                    case {"text": str(text)}:
                        texts.append(text)
                    case _:
                        continue
        case _:
            return None
    return "\n".join(texts) or None
