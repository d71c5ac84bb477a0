"""One strict call that is demanded, and its result sent back, in each API: what every agent does, with a random model."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import anthropic
import openai

from tests.engines.constraint_samples import BOOKING, SUFFICIENT_TOKENS, assert_booking, booking_tool

RESULT = "Booked."
HI = {"role": "user", "content": "hi"}


def _loop_of_chat(caller: openai.OpenAI, _: anthropic.Anthropic, model: str) -> None:
    tools, create = [booking_tool("book", strict=True)], _any(caller.chat.completions.create)
    fields: dict[str, Any] = {
        "tools": tools,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": SUFFICIENT_TOKENS,
        "seed": 1,
    }
    message = create(model=model, messages=[HI], extra_body=fields).choices[0].message
    [call] = message.tool_calls
    assert_booking(json.loads(call.function.arguments))
    turns = [HI, message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    assert create(model=model, messages=turns, extra_body={"tools": tools, "max_tokens": 8}).choices[0].finish_reason


def _loop_of_responses(caller: openai.OpenAI, _: anthropic.Anthropic, model: str) -> None:
    tools, create = [{"type": "function", **booking_tool("book", strict=True)["function"]}], _any(caller.responses.create)
    fields = {"model": model, "tools": tools, "parallel_tool_calls": False, "store": False}
    first = create(input=[HI], tool_choice="required", max_output_tokens=SUFFICIENT_TOKENS, **fields)
    [call] = [item for item in first.output if item.type == "function_call"]
    assert_booking(json.loads(call.arguments))
    turns = [HI, *(item.to_dict() for item in first.output), {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
    assert create(input=turns, max_output_tokens=8, **fields).status


def _loop_of_messages(_: openai.OpenAI, caller: anthropic.Anthropic, model: str) -> None:
    tools, create = [{"name": "book", "input_schema": BOOKING, "strict": True}], _any(caller.messages.create)
    first = create(
        model=model,
        messages=[HI],
        tools=tools,
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        max_tokens=SUFFICIENT_TOKENS,
    )
    [call] = [block for block in first.content if block.type == "tool_use"]
    assert_booking(call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
    answer = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
    turns = [HI, answer, {"role": "user", "content": [result]}]
    assert create(model=model, messages=turns, tools=tools, max_tokens=8).stop_reason


def _any(value: Any) -> Any:
    return value


TOOL_LOOPS: Mapping[str, Callable[[openai.OpenAI, anthropic.Anthropic, str], None]] = {
    "chat": _loop_of_chat,
    "responses": _loop_of_responses,
    "messages": _loop_of_messages,
}
