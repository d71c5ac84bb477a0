"""Tools in the form of Responses, `{"type": "custom", "name": ...}`, among those of Chat, which has an object inside.

Cursor sends both in one list: BerriAI/litellm#34029, read 2026-11.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.dialects.openai_chat.request_schema import Tool

_INNER_FIELDS = ("name", "description", "parameters", "strict", "format")
_tools_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_object_decoder = msgspec.json.Decoder(dict[str, Raw])
_GRAMMAR = Raw(b'"grammar"')


def nest_flat_tools(tools: Sequence[Tool], body: Body) -> None:
    """Writes flat tools as Chat has them, in place; the others stay as they came."""
    if not any(tool.is_flat for tool in tools):
        return
    written = _tools_decoder.decode(as_raw(body["tools"]))
    body["tools"] = [_nest(fields, tool.type) if tool.is_flat else fields for tool, fields in zip(tools, written, strict=True)]


def _nest(fields: dict[str, Raw], kind: str | None) -> dict[str, Any]:
    inner: dict[str, Any] = {key: fields[key] for key in _INNER_FIELDS if key in fields}
    if kind == "custom" and "format" in inner:
        inner["format"] = _nest_grammar(inner["format"])
    return {**{key: value for key, value in fields.items() if key not in _INNER_FIELDS}, str(kind): inner}


def _nest_grammar(format: Raw) -> Any:
    decoded = _object_decoder.decode(format)
    if decoded.get("type") != _GRAMMAR or "grammar" in decoded:
        return format
    return {"type": "grammar", "grammar": {key: value for key, value in decoded.items() if key != "type"}}
