"""Tools, calls, results and media in each dialect, of which the request cases are made."""

from typing import Any

from tests.conformance.request_case import RequestCase, Translated, user
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
WAV = "UklGRg=="
IMAGE_URL = "https://example.org/cat.png"
PDF_URL = "https://example.org/paper.pdf"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def chat_tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA, **more}}


def responses_tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": SCHEMA, **more}


def anthropic_tool(**more: Any) -> dict[str, Any]:
    return {"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA, **more}


OTHER_TOOL_CHAT = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
OTHER_TOOL_RESPONSES = {"type": "function", "name": "now", "parameters": {"type": "object"}}
OTHER_TOOL_ANTHROPIC = {"name": "now", "input_schema": {"type": "object"}}
ARGUMENTS = '{"city":"Paris"}'
CHAT_CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
RESPONSES_CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": ARGUMENTS}
ANTHROPIC_CALL = {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Paris"}}
TOOLS = {CHAT: {"tools": [chat_tool()]}, RESPONSES: {"tools": [responses_tool()]}, ANTHROPIC: {"tools": [anthropic_tool()]}}


def anthropic_result(content: Any, **more: Any) -> dict[str, Any]:
    return user([{"type": "tool_result", "tool_use_id": "call_1", "content": content, **more}])


def chat_result(content: Any, id: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def responses_result(output: Any, id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": output}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def anthropic_data(kind: str, media_type: str, data: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def anthropic_url(kind: str, url: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "url", "url": url}}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def input_text(content: str) -> dict[str, Any]:
    return {"type": "input_text", "text": content}


def translated_everywhere(group: Any, feature: str, request_fields: dict[str, Any]) -> RequestCase:
    """Every dialect has its own field for it, and every translation carries it."""
    return RequestCase(group, feature, request_fields, {target: Translated(fields) for target, fields in request_fields.items()})


# In Responses a tool is strict by default; in the other APIs it is not.
NON_STRICT_TOOLS = {**TOOLS, RESPONSES: {"tools": [responses_tool(strict=False)]}}
