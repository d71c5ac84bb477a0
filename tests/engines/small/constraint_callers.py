"""One constrained request, sent by callers of each API: the text of the response, and the constraint mode (x-narthex-guided)."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai

TextAndMode = tuple[str, str | None]
Caller = Callable[[openai.OpenAI, anthropic.Anthropic, str, dict[str, Any]], TextAndMode]

HI: list[Any] = [{"role": "user", "content": "hi"}]
MAX_TOKENS = 600
_GUIDED_HEADER = "x-narthex-guided"


def via_chat(caller: openai.OpenAI, _: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> TextAndMode:
    extra = {"max_tokens": MAX_TOKENS, "seed": 1} | fields
    raw = caller.chat.completions.with_raw_response.create(model=model, messages=HI, extra_body=extra)
    [choice] = raw.parse().choices
    assert choice.finish_reason == "stop", choice
    return choice.message.content or "", raw.headers.get(_GUIDED_HEADER)


def via_streamed_chat(caller: openai.OpenAI, _: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> TextAndMode:
    extra = {"max_tokens": MAX_TOKENS, "seed": 1} | fields
    raw: Any = caller.chat.completions.with_raw_response.create(model=model, messages=HI, stream=True, extra_body=extra)
    choices = [choice for chunk in raw.parse() for choice in chunk.choices]
    assert choices[-1].finish_reason == "stop", choices[-1]
    return "".join(choice.delta.content or "" for choice in choices), raw.headers.get(_GUIDED_HEADER)


def via_responses(caller: openai.OpenAI, _: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> TextAndMode:
    create: Any = caller.responses.with_raw_response.create
    raw = create(model=model, input="hi", max_output_tokens=MAX_TOKENS, extra_body=_for_responses(fields))
    response = raw.parse()
    assert response.status == "completed", response
    return response.output_text, raw.headers.get(_GUIDED_HEADER)


def via_messages(_: openai.OpenAI, anthropic_client: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> TextAndMode:
    create: Any = anthropic_client.messages.with_raw_response.create
    raw = create(model=model, messages=HI, max_tokens=MAX_TOKENS, extra_body=_for_messages(fields))
    response = raw.parse()
    assert response.stop_reason == "end_turn", response
    return "".join(block.text for block in response.content), raw.headers.get(_GUIDED_HEADER)


def _for_responses(fields: dict[str, Any]) -> dict[str, Any]:
    match fields:
        case {"response_format": {"type": "json_schema", "json_schema": {} as format}}:
            return {"text": {"format": {"type": "json_schema", **format}}}
        case {"response_format": {} as format}:
            return {"text": {"format": format}}
        case _:
            return fields


def _for_messages(fields: dict[str, Any]) -> dict[str, Any]:
    match fields:
        case {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}:
            return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        case {"response_format": {"type": "json_object"}}:
            return {"guided_json": {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False}}
        case _:
            return fields


CALLERS: dict[str, Caller] = {"chat": via_chat, "stream": via_streamed_chat, "responses": via_responses, "messages": via_messages}
