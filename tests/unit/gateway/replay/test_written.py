"""A response says the same in every API, whole or as a stream."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.gateway.response_translation.written import WrittenCall, WrittenChoice, as_text, read_written, say_the_same
from providers.canonical.chat import ChatResponse, Choice, Part, Text, ToolCall, Usage
from providers.canonical.events import response_events
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS
from tests.support.scripted_engine import completion
from tests.support.strategies.chat_strategies import META

bounded = settings(max_examples=40, deadline=None)
ROUTES = ("openai_chat", "openai_responses", "anthropic_messages", "tensorzero_inference")

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
arguments = st.dictionaries(words, st.none() | st.booleans() | st.integers(-1000, 1000) | words | st.lists(words, max_size=2), max_size=3)
calls = st.lists(st.tuples(st.sampled_from(["weather", "search"]), arguments), max_size=2)


def response_of(text: str, called: list[tuple[str, dict[str, object]]], indent: int | None = None) -> ChatResponse:
    parts: list[Part] = [Text(text)] if text else []
    parts += [ToolCall(f"call_{at}", name, json.dumps(given, indent=indent)) for at, (name, given) in enumerate(called)]
    return ChatResponse((Choice(tuple(parts), "tool_calls" if called else "stop"),), META.model, 1, Usage(3, 2))


@pytest.mark.parametrize("route", ROUTES)
@bounded
@given(words, calls)
def test_whole_and_streamed_responses_of_every_api_say_the_same(route: str, text: str, called: list[tuple[str, dict[str, object]]]):
    dialect = CALLER_CHAT_DIALECTS[route]
    whole = dialect.write_response(response_of(text, called), META)
    writer = dialect.stream_writer(META)
    stream = b"".join(writer.feed(event) for event in response_events(response_of(text, called, indent=2))) + writer.finish()
    expected = (WrittenChoice(text, tuple(WrittenCall(name, given) for name, given in called)),)
    assert read_written(route, whole, streamed=False) == expected
    assert read_written(route, stream, streamed=True) == expected


@pytest.mark.parametrize("route", [*ROUTES, "openai_completions"])
@bounded
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.just(b"data: {") | st.just(b"[" * 50_000), st.booleans())
def test_whatever_is_stored_is_read_or_is_not_known(route: str, stored: bytes, streamed: bool):
    found = read_written(route, stored, streamed=streamed)
    assert found is None or all(isinstance(each, WrittenChoice) for each in found)


def test_arguments_that_are_no_json_are_compared_as_they_are():
    def of(text: str) -> tuple[WrittenChoice, ...] | None:
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": text}}
        return read_written("openai_chat", json.dumps(completion(None, tool_calls=[call])).encode(), streamed=False)

    assert of('{"a": 1') == of('{"a": 1') != of('{"a":1') is not None
    assert of('{"a": 1, "b": [2.0]}') == of('{"b":[2.0],"a":1}')
    assert of('{"a": [1, 2]}') != of('{"a": [2, 1]}')


def test_a_judge_reads_the_text_or_json_of_what_is_more():
    call = WrittenCall("weather", {"city": "Bern"})
    assert as_text((WrittenChoice("Hello."),)) == "Hello."
    assert json.loads(as_text((WrittenChoice("", (call,)),))) == [
        {"text": "", "calls": [{"name": "weather", "arguments": {"city": "Bern"}}]}
    ]
    assert [each["text"] for each in json.loads(as_text((WrittenChoice("a"), WrittenChoice("b"))))] == ["a", "b"]


def test_arguments_that_are_nested_too_deeply_to_be_compared_are_not_known_to_be_the_same():
    """They were read in a thread, with more of the stack left than the event loop has."""

    def called() -> tuple[WrittenChoice, ...]:
        arguments: list[object] = []
        for _ in range(5000):
            arguments = [arguments]
        return (WrittenChoice("", (WrittenCall("search", arguments),)),)

    one, other = called(), called()
    assert say_the_same(one, other) is None
    assert say_the_same(None, one) is None
    assert say_the_same((WrittenChoice("a"),), (WrittenChoice("a"),)) is True
