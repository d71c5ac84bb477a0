"""The same things in each dialect's words, of which the requests are made."""

from typing import Any

from tests.conformance.asking import Asking, Carried, user
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
WAV = "UklGRg=="
PICTURE = "https://example.org/cat.png"
PAPER = "https://example.org/paper.pdf"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def chat_tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA, **more}}


def responses_tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": SCHEMA, **more}


def anthropic_tool(**more: Any) -> dict[str, Any]:
    return {"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA, **more}


OTHER_CHAT = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
OTHER_RESPONSES = {"type": "function", "name": "now", "parameters": {"type": "object"}}
OTHER_ANTHROPIC = {"name": "now", "input_schema": {"type": "object"}}
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


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def input_text(words: str) -> dict[str, Any]:
    return {"type": "input_text", "text": words}


def everywhere(group: Any, feature: str, says: dict[str, Any]) -> Asking:
    """Each dialect has its own word for it, and every crossing carries it from one to the other."""
    return Asking(group, feature, says, {target: Carried(said) for target, said in says.items()})


# Responses takes a tool for strict that does not say otherwise; the others do not.
LOOSE = {**TOOLS, RESPONSES: {"tools": [responses_tool(strict=False)]}}
