"""Refusals of what stands beside calls that are written as texts name the caller's own field and place, in each caller's API."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.translate_request import translate_request
from providers.canonical.errors import Unsupported
from providers.catalogue import DIALECTS, build_provider
from tests.support.request_translation import MEDIA, drop_nothing, endpoint_of, make_source

PDF = "JVBERi0="
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
FILE_OF_RESPONSES = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
FILE_OF_MESSAGES = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
FILE_OF_CHAT = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}


def responses(*output_or_content: Any, in_result: bool) -> dict[str, Any]:
    parts = [{"type": "input_text", "text": "See"}, *output_or_content]
    return {
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
        "input": [
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": parts if in_result else "1"},
            {"type": "message", "role": "user", "content": "And?" if in_result else parts},
        ],
    }


def messages(file: Any, *, in_result: bool) -> dict[str, Any]:
    parts = [{"type": "text", "text": "See"}, file]
    result = {"type": "tool_result", "tool_use_id": "a", "content": parts if in_result else "1"}
    return {
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [result, *([] if in_result else parts)]},
        ],
    }


def chat(file: Any) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "user", "content": [{"type": "text", "text": "See"}, file]},
        ],
    }


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("openai_responses", responses(FILE_OF_RESPONSES, in_result=True), "input[2].output[1]"),
    ("openai_responses", responses(FILE_OF_RESPONSES, in_result=False), "input[3].content[1]"),
    ("anthropic_messages", messages(FILE_OF_MESSAGES, in_result=True), "messages[2].content[0].content[1]"),
    ("anthropic_messages", messages(FILE_OF_MESSAGES, in_result=False), "messages[2].content[2]"),
    ("openai_chat", chat(FILE_OF_CHAT), "messages[3].content[1]"),
]


@pytest.mark.parametrize("engine", ["llamacpp_python", "mini_sglang"])
@pytest.mark.parametrize(("dialect", "fields", "param"), REFUSED, ids=[f"{row[0]} {row[2]}" for row in REFUSED])
async def test_refusal_beside_emulated_tools_names_the_callers_place(engine: str, dialect: str, fields: dict[str, Any], param: str):
    raw = json.dumps({"model": "m", **fields}).encode()
    caller = DIALECTS[dialect]
    source = make_source(caller.parse_request(raw), raw, caller, MEDIA, drop_nothing, inference_id="ID")
    endpoint = endpoint_of(build_provider(engine, "p", {}, "http://127.0.0.1:1"))
    with pytest.raises(Unsupported) as refused:
        await translate_request(source, endpoint, Target("p", "m"))
    assert refused.value.param is not None and refused.value.param.startswith(param), refused.value.message
    assert f"`{param}" in refused.value.message
