"""The vLLM adapter against a real vLLM, as callers see it: the official SDK, the old guided_* words and the new, whole and streamed.

The model is random, so what parses and validates here does so because the engine was told in its own words what to write.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.engines.running_narthex import MODEL, Gateway
from tests.engines.running_vllm import CONTEXT, Engine
from tests.engines.shapes import BOOKING, CHOICE, EBNF, ENOUGH_TOKENS, LARK, NOT_FOR_XGRAMMAR, REGEX, ROOM, assert_booking, tool

pytestmark = pytest.mark.engines

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
NAMED = {"type": "function", "function": {"name": "book"}}
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING, "strict": True}}
FOR_EVER: dict[str, Any] = {"max_tokens": CONTEXT - 100, "ignore_eos": True}
LETS_GO_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def caller(narthex: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=narthex.base_url, api_key=narthex.key, max_retries=0, timeout=120) as client:
        yield client


def whole(caller: openai.OpenAI, **fields: Any) -> Any:
    """The only choice of a whole answer."""
    extra = {"max_tokens": ENOUGH_TOKENS, "seed": 1} | fields
    [choice] = caller.chat.completions.create(model=MODEL, messages=HI, extra_body=extra).choices
    return choice


def streamed(caller: openai.OpenAI, **fields: Any) -> list[Any]:
    """Every chunk of a streamed answer."""
    extra = {"max_tokens": ENOUGH_TOKENS, "seed": 1} | fields
    with caller.chat.completions.create(model=MODEL, messages=HI, stream=True, extra_body=extra) as chunks:
        return list(chunks)


def whole_text(caller: openai.OpenAI, **fields: Any) -> str:
    choice = whole(caller, **fields)
    assert choice.finish_reason == "stop", choice
    return choice.message.content


def streamed_text(caller: openai.OpenAI, **fields: Any) -> str:
    choices = [choice for chunk in streamed(caller, **fields) for choice in chunk.choices]
    assert choices[-1].finish_reason == "stop", choices[-1]
    return "".join(choice.delta.content or "" for choice in choices)


def is_booking(text: str) -> None:
    assert_booking(json.loads(text))


def is_choice(text: str) -> None:
    assert text in CHOICE


def matches(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


CONSTRAINTS: dict[str, tuple[dict[str, Any], Callable[[str], None]]] = {
    "guided_json": ({"guided_json": BOOKING}, is_booking),
    "guided_json as text": ({"guided_json": json.dumps(BOOKING)}, is_booking),
    "guided_regex": ({"guided_regex": REGEX}, matches(REGEX)),
    "guided_choice": ({"guided_choice": CHOICE}, is_choice),
    "guided_grammar in EBNF": ({"guided_grammar": EBNF}, matches(ROOM)),
    "guided_grammar in Lark": ({"guided_grammar": LARK}, matches(ROOM)),
    "response_format": ({"response_format": SCHEMA_FORMAT}, is_booking),
    "structured_outputs": ({"structured_outputs": {"json": BOOKING}}, is_booking),
}
EACH_CONSTRAINT = pytest.mark.parametrize(("fields", "check"), CONSTRAINTS.values(), ids=CONSTRAINTS)
WHOLE_AND_STREAMED = pytest.mark.parametrize("text_of", [whole_text, streamed_text], ids=["whole", "streamed"])


@EACH_CONSTRAINT
@WHOLE_AND_STREAMED
def test_a_constraint_is_obeyed(caller: openai.OpenAI, text_of: Callable[..., str], fields: dict[str, Any], check: Callable[[str], None]):
    check(text_of(caller, **fields))


def test_a_json_object_is_obeyed(caller: openai.OpenAI):
    extra = {"max_tokens": ENOUGH_TOKENS, "seed": 1, "n": 8, "response_format": {"type": "json_object"}}
    choices = caller.chat.completions.create(model=MODEL, messages=HI, extra_body=extra).choices
    finished = [json.loads(choice.message.content or "") for choice in choices if choice.finish_reason == "stop"]
    assert finished
    assert all(isinstance(value, dict) for value in finished)


@pytest.mark.parametrize("tool_choice", ["required", NAMED], ids=["required", "named"])
def test_a_strict_tool_is_called_with_what_its_schema_says(caller: openai.OpenAI, tool_choice: object):
    asked = {"tools": [tool("book", strict=True)], "tool_choice": tool_choice, "parallel_tool_calls": False}
    [call] = whole(caller, **asked).message.tool_calls
    assert call.function.name == "book"
    assert_booking(json.loads(call.function.arguments))


@pytest.mark.parametrize("tool_choice", ["required", NAMED], ids=["required", "named"])
def test_a_strict_tool_is_called_so_in_a_stream_too(caller: openai.OpenAI, tool_choice: object):
    asked = {"tools": [tool("book", strict=True)], "tool_choice": tool_choice, "parallel_tool_calls": False}
    pieces: list[Any] = [
        piece for chunk in streamed(caller, **asked) for choice in chunk.choices for piece in choice.delta.tool_calls or ()
    ]
    assert {piece.index for piece in pieces} == {0}
    assert pieces[0].function.name == "book"
    assert_booking(json.loads("".join(piece.function.arguments or "" for piece in pieces)))


def test_an_empty_list_of_tools_is_no_reason_to_refuse(caller: openai.OpenAI):
    assert whole(caller, tools=[], max_tokens=4).finish_reason == "length"


def test_a_whole_answer_is_told_as_ours(caller: openai.OpenAI):
    answer = caller.chat.completions.create(model=MODEL, messages=HI, extra_body={"max_tokens": 8, "seed": 1})
    assert UUID(answer.id).version == 7
    assert answer.model == MODEL
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (8, "length")


def test_a_stream_says_what_the_whole_answer_says(caller: openai.OpenAI):
    chunks = streamed(caller, max_tokens=24, ignore_eos=True)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole(caller, max_tokens=24, ignore_eos=True).message.content
    assert {chunk.model for chunk in chunks} == {MODEL}
    assert UUID(chunks[0].id).version == 7
    assert len({chunk.id for chunk in chunks}) == 1


def test_streamed_usage_rides_on_the_finish_exactly_once(caller: openai.OpenAI):
    chunks = streamed(caller, max_tokens=8, ignore_eos=True, stream_options={"include_usage": True})
    [told] = [chunk for chunk in chunks if chunk.usage]
    assert told.usage.completion_tokens == 8
    assert told.choices[0].finish_reason == "length"


def test_streamed_usage_is_not_told_unasked(caller: openai.OpenAI):
    assert not any(chunk.usage for chunk in streamed(caller, max_tokens=8))


def test_reasoning_is_told_as_reasoning_content(caller: openai.OpenAI):
    thinking = {"max_tokens": 24, "chat_template_kwargs": {"thinking": True}}
    message = whole(caller, **thinking).message
    assert message.reasoning_content
    assert not message.content
    deltas = [choice.delta for chunk in streamed(caller, **thinking) for choice in chunk.choices]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == message.reasoning_content


@pytest.mark.parametrize("ask", [whole, streamed])
def test_a_constraint_the_engine_refuses_is_a_400_with_its_reason(caller: openai.OpenAI, ask: Callable[..., Any]):
    with pytest.raises(openai.BadRequestError, match="xgrammar"):
        ask(caller, guided_json=NOT_FOR_XGRAMMAR)


def test_a_context_too_long_is_a_400(caller: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        caller.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * 2 * CONTEXT}])


def test_a_caller_who_hangs_up_stops_the_engine(caller: openai.OpenAI, vllm: Engine):
    before = vllm.written()
    with caller.chat.completions.create(model=MODEL, messages=HI, stream=True, extra_body=FOR_EVER) as chunks:
        assert next(iter(chunks))
        assert vllm.running() == 1
    assert vllm.comes_to_rest(LETS_GO_WITHIN_S)
    assert vllm.written() - before < FOR_EVER["max_tokens"] / 2


def test_a_caller_who_stops_waiting_for_a_whole_answer_stops_the_engine(caller: openai.OpenAI, vllm: Engine):
    before = vllm.written()
    with pytest.raises(openai.APITimeoutError):
        caller.with_options(timeout=0.7).chat.completions.create(model=MODEL, messages=HI, extra_body=FOR_EVER)
    assert vllm.comes_to_rest(LETS_GO_WITHIN_S)
    assert vllm.written() - before < FOR_EVER["max_tokens"] / 2
