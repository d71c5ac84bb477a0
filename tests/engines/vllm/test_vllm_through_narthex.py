"""The vLLM adapter with a real vLLM, through the official SDK: old and new constraint fields, streamed and not.

The model is random, so its output is valid only because the engine receives the constraint in a field that it enforces.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.engines.constraint_samples import (
    BOOKING,
    CHOICE,
    EBNF,
    LARK,
    REFUSED_BY_XGRAMMAR,
    REGEX,
    ROOM_REGEX,
    SUFFICIENT_TOKENS,
    assert_booking,
    booking_tool,
)
from tests.engines.running_narthex import MODEL, Gateway
from tests.engines.vllm.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
NAMED_TOOL_CHOICE = {"type": "function", "function": {"name": "book"}}
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING, "strict": True}}
LONG_RUNNING: dict[str, Any] = {"max_tokens": CONTEXT - 100, "ignore_eos": True}
# The claim is the number of tokens that are not generated; the time is only a limit for a busy machine.
ABORT_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def caller(narthex: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=narthex.base_url, api_key=narthex.key, max_retries=0, timeout=120) as client:
        yield client


def unstreamed_choice(caller: openai.OpenAI, **fields: Any) -> Any:
    """The only choice of an unstreamed response."""
    extra = {"max_tokens": SUFFICIENT_TOKENS, "seed": 1} | fields
    [choice] = caller.chat.completions.create(model=MODEL, messages=HI, extra_body=extra).choices
    return choice


def streamed_chunks(caller: openai.OpenAI, **fields: Any) -> list[Any]:
    """Every chunk of a streamed response."""
    extra = {"max_tokens": SUFFICIENT_TOKENS, "seed": 1} | fields
    with caller.chat.completions.create(model=MODEL, messages=HI, stream=True, extra_body=extra) as chunks:
        return list(chunks)


def unstreamed_text(caller: openai.OpenAI, **fields: Any) -> str:
    choice = unstreamed_choice(caller, **fields)
    assert choice.finish_reason == "stop", choice
    return choice.message.content


def streamed_text(caller: openai.OpenAI, **fields: Any) -> str:
    choices = [choice for chunk in streamed_chunks(caller, **fields) for choice in chunk.choices]
    assert choices[-1].finish_reason == "stop", choices[-1]
    return "".join(choice.delta.content or "" for choice in choices)


def assert_booking_text(text: str) -> None:
    assert_booking(json.loads(text))


def assert_choice(text: str) -> None:
    assert text in CHOICE


def assert_matching(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


CONSTRAINTS: dict[str, tuple[dict[str, Any], Callable[[str], None]]] = {
    "guided_json": ({"guided_json": BOOKING}, assert_booking_text),
    "guided_json as text": ({"guided_json": json.dumps(BOOKING)}, assert_booking_text),
    "guided_regex": ({"guided_regex": REGEX}, assert_matching(REGEX)),
    "guided_choice": ({"guided_choice": CHOICE}, assert_choice),
    "guided_grammar in EBNF": ({"guided_grammar": EBNF}, assert_matching(ROOM_REGEX)),
    "guided_grammar in Lark": ({"guided_grammar": LARK}, assert_matching(ROOM_REGEX)),
    "response_format": ({"response_format": SCHEMA_FORMAT}, assert_booking_text),
    "structured_outputs": ({"structured_outputs": {"json": BOOKING}}, assert_booking_text),
}
EACH_CONSTRAINT = pytest.mark.parametrize(("fields", "check"), CONSTRAINTS.values(), ids=CONSTRAINTS)
UNSTREAMED_AND_STREAMED = pytest.mark.parametrize("text_of", [unstreamed_text, streamed_text], ids=["unstreamed", "streamed"])


@EACH_CONSTRAINT
@UNSTREAMED_AND_STREAMED
def test_constraint_is_enforced(caller: openai.OpenAI, text_of: Callable[..., str], fields: dict[str, Any], check: Callable[[str], None]):
    check(text_of(caller, **fields))


def test_json_object_is_enforced(caller: openai.OpenAI):
    extra = {"max_tokens": SUFFICIENT_TOKENS, "seed": 1, "n": 8, "response_format": {"type": "json_object"}}
    choices = caller.chat.completions.create(model=MODEL, messages=HI, extra_body=extra).choices
    finished = [json.loads(choice.message.content or "") for choice in choices if choice.finish_reason == "stop"]
    assert finished
    assert all(isinstance(value, dict) for value in finished)


@pytest.mark.parametrize("tool_choice", ["required", NAMED_TOOL_CHOICE], ids=["required", "named"])
def test_strict_tool_call_obeys_its_schema(caller: openai.OpenAI, tool_choice: object):
    fields = {"tools": [booking_tool("book", strict=True)], "tool_choice": tool_choice, "parallel_tool_calls": False}
    [call] = unstreamed_choice(caller, **fields).message.tool_calls
    assert call.function.name == "book"
    assert_booking(json.loads(call.function.arguments))


@pytest.mark.parametrize("tool_choice", ["required", NAMED_TOOL_CHOICE], ids=["required", "named"])
def test_streamed_strict_tool_call_obeys_its_schema(caller: openai.OpenAI, tool_choice: object):
    fields = {"tools": [booking_tool("book", strict=True)], "tool_choice": tool_choice, "parallel_tool_calls": False}
    pieces: list[Any] = [
        piece for chunk in streamed_chunks(caller, **fields) for choice in chunk.choices for piece in choice.delta.tool_calls or ()
    ]
    assert {piece.index for piece in pieces} == {0}
    assert pieces[0].function.name == "book"
    assert_booking(json.loads("".join(piece.function.arguments or "" for piece in pieces)))


def test_empty_tools_list_is_accepted(caller: openai.OpenAI):
    assert unstreamed_choice(caller, tools=[], max_tokens=4).finish_reason == "length"


def test_unstreamed_response_has_the_gateways_id_and_model(caller: openai.OpenAI):
    answer = caller.chat.completions.create(model=MODEL, messages=HI, extra_body={"max_tokens": 8, "seed": 1})
    assert UUID(answer.id).version == 7
    assert answer.model == MODEL
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (8, "length")


def test_stream_has_the_unstreamed_text_and_one_gateway_id(caller: openai.OpenAI):
    chunks = streamed_chunks(caller, max_tokens=24, ignore_eos=True)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == unstreamed_choice(caller, max_tokens=24, ignore_eos=True).message.content
    assert {chunk.model for chunk in chunks} == {MODEL}
    assert UUID(chunks[0].id).version == 7
    assert len({chunk.id for chunk in chunks}) == 1


def test_streamed_usage_is_on_the_finish_chunk_once(caller: openai.OpenAI):
    chunks = streamed_chunks(caller, max_tokens=8, ignore_eos=True, stream_options={"include_usage": True})
    [usage_chunk] = [chunk for chunk in chunks if chunk.usage]
    assert usage_chunk.usage.completion_tokens == 8
    assert usage_chunk.choices[0].finish_reason == "length"


def test_stream_has_no_usage_unless_requested(caller: openai.OpenAI):
    assert not any(chunk.usage for chunk in streamed_chunks(caller, max_tokens=8))


def test_reasoning_is_returned_as_reasoning_content(caller: openai.OpenAI):
    thinking = {"max_tokens": 24, "chat_template_kwargs": {"thinking": True}}
    message = unstreamed_choice(caller, **thinking).message
    assert message.reasoning_content
    assert not message.content
    deltas = [choice.delta for chunk in streamed_chunks(caller, **thinking) for choice in chunk.choices]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == message.reasoning_content


@pytest.mark.parametrize("send", [unstreamed_choice, streamed_chunks])
def test_constraint_the_engine_refuses_is_a_400_with_its_reason(caller: openai.OpenAI, send: Callable[..., Any]):
    with pytest.raises(openai.BadRequestError, match="xgrammar"):
        send(caller, guided_json=REFUSED_BY_XGRAMMAR)


def test_prompt_longer_than_the_context_is_a_400(caller: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        caller.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * 2 * CONTEXT}])


def test_client_disconnect_from_a_stream_aborts_generation(caller: openai.OpenAI, vllm: Engine):
    before = vllm.generated_tokens()
    with caller.chat.completions.create(model=MODEL, messages=HI, stream=True, extra_body=LONG_RUNNING) as chunks:
        assert next(iter(chunks))
        assert vllm.running_requests() == 1
    assert vllm.becomes_idle(ABORT_WITHIN_S)
    assert vllm.generated_tokens() - before < LONG_RUNNING["max_tokens"] / 2


def test_client_timeout_on_an_unstreamed_request_aborts_generation(caller: openai.OpenAI, vllm: Engine):
    before = vllm.generated_tokens()
    with pytest.raises(openai.APITimeoutError):
        caller.with_options(timeout=0.7).chat.completions.create(model=MODEL, messages=HI, extra_body=LONG_RUNNING)
    assert vllm.becomes_idle(ABORT_WITHIN_S)
    assert vllm.generated_tokens() - before < LONG_RUNNING["max_tokens"] / 2
