"""One ask, said by each of the callers that there are: the text of the answer, and how it was held to its constraint."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai

Said = tuple[str, str | None]
Caller = Callable[[openai.OpenAI, anthropic.Anthropic, str, dict[str, Any]], Said]

HI: list[Any] = [{"role": "user", "content": "hi"}]
ROOM_FOR_ALL = 600
_HOW = "x-narthex-guided"


def in_chat(caller: openai.OpenAI, _: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> Said:
    extra = {"max_tokens": ROOM_FOR_ALL, "seed": 1} | fields
    raw = caller.chat.completions.with_raw_response.create(model=model, messages=HI, extra_body=extra)
    [choice] = raw.parse().choices
    assert choice.finish_reason == "stop", choice
    return choice.message.content or "", raw.headers.get(_HOW)


def in_a_stream(caller: openai.OpenAI, _: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> Said:
    extra = {"max_tokens": ROOM_FOR_ALL, "seed": 1} | fields
    raw: Any = caller.chat.completions.with_raw_response.create(model=model, messages=HI, stream=True, extra_body=extra)
    choices = [choice for chunk in raw.parse() for choice in chunk.choices]
    assert choices[-1].finish_reason == "stop", choices[-1]
    return "".join(choice.delta.content or "" for choice in choices), raw.headers.get(_HOW)


def in_responses(caller: openai.OpenAI, _: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> Said:
    create: Any = caller.responses.with_raw_response.create
    raw = create(model=model, input="hi", max_output_tokens=ROOM_FOR_ALL, extra_body=_for_responses(fields))
    answer = raw.parse()
    assert answer.status == "completed", answer
    return answer.output_text, raw.headers.get(_HOW)


def in_messages(_: openai.OpenAI, anthropics: anthropic.Anthropic, model: str, fields: dict[str, Any]) -> Said:
    create: Any = anthropics.messages.with_raw_response.create
    raw = create(model=model, messages=HI, max_tokens=ROOM_FOR_ALL, extra_body=_for_messages(fields))
    answer = raw.parse()
    assert answer.stop_reason == "end_turn", answer
    return "".join(block.text for block in answer.content), raw.headers.get(_HOW)


def _for_responses(fields: dict[str, Any]) -> dict[str, Any]:
    match fields:
        case {"response_format": {"type": "json_schema", "json_schema": {} as told}}:
            return {"text": {"format": {"type": "json_schema", **told}}}
        case {"response_format": {} as told}:
            return {"text": {"format": told}}
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


CALLERS: dict[str, Caller] = {"chat": in_chat, "stream": in_a_stream, "responses": in_responses, "messages": in_messages}
