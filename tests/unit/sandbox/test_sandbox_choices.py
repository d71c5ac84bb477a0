"""The sandbox's responses: tokens, limits and probabilities agree with each other."""

import re
from math import exp

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sandbox.choices import Choice, generate_choices
from app.sandbox.embeddings import create_embeddings
from app.sandbox.protocol.errors import ContextLengthExceeded
from app.sandbox.protocol.request_schema import ChatBody, EmbeddingBody, read_body
from app.sandbox.request import SandboxRequest, read_chat_request
from app.sandbox.text.grammar_walk import Budget
from app.sandbox.text.tokens import CONTEXT_LENGTH, MESSAGE_TOKENS, count_tokens, split_tokens

bounded = settings(max_examples=60, deadline=None)


def parse_chat(**body: object) -> SandboxRequest:
    raw = msgspec.json.encode({"model": "sandbox", "messages": [{"role": "user", "content": "What is new?"}], **body})
    return read_chat_request(read_body(raw, ChatBody))


def answer_chat(**body: object) -> list[Choice]:
    return generate_choices(parse_chat(**body), Budget())


@bounded
@given(st.text())
def test_joined_tokens_equal_the_text(text: str) -> None:
    assert "".join(split_tokens(text)) == text
    assert count_tokens(text) == len(split_tokens(text))


@bounded
@given(st.integers(1, 60), st.integers(0, 99))
def test_max_tokens_cuts_a_seeded_answer_to_its_beginning(max_tokens: int, seed: int) -> None:
    (full,) = answer_chat(seed=seed)
    (short,) = answer_chat(seed=seed, max_tokens=max_tokens)
    assert full.text("text").startswith(short.text("text"))
    assert short.count_tokens() == min(max_tokens, full.count_tokens())
    assert short.finish_reason == ("length" if full.count_tokens() > max_tokens else "stop")


@bounded
@given(st.integers(0, 99), st.sampled_from(["sandbox", " ", "e", "tide", "."]))
def test_stop_text_ends_the_answer_and_is_left_out(seed: int, stop: str) -> None:
    (full,) = answer_chat(seed=seed)
    (short,) = answer_chat(seed=seed, stop=[stop, "unused"])
    assert short.text("text") == full.text("text").partition(stop)[0]
    assert short.finish_reason == "stop"


@bounded
@given(st.integers(1, 500))
def test_answer_has_exactly_the_configured_number_of_tokens(tokens: int) -> None:
    (choice,) = answer_chat(sandbox={"tokens": tokens})
    assert choice.count_tokens() == tokens
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("max_tokens", [1, 7, 500])
def test_ignored_end_of_sequence_fills_max_tokens(max_tokens: int) -> None:
    for choice in answer_chat(ignore_eos=True, max_tokens=max_tokens, n=2):
        assert (choice.count_tokens(), choice.finish_reason) == (max_tokens, "length")


@pytest.mark.parametrize("reasoning", [True, False])
@pytest.mark.parametrize("room", [1, 2, 700])
def test_ignored_end_of_sequence_without_a_maximum_fills_the_context(room: int, reasoning: bool) -> None:
    prompt = [{"role": "user", "content": "-" * (CONTEXT_LENGTH - MESSAGE_TOKENS - room)}]
    (choice,) = answer_chat(ignore_eos=True, messages=prompt, sandbox={"reasoning": reasoning})
    assert (choice.count_tokens(), choice.finish_reason) == (room, "length")


def test_prompt_that_leaves_no_room_for_a_response_is_refused() -> None:
    with pytest.raises(ContextLengthExceeded, match=f"maximum context length is {CONTEXT_LENGTH} tokens"):
        parse_chat(messages=[{"role": "user", "content": "-" * (CONTEXT_LENGTH - MESSAGE_TOKENS)}])


def test_dictated_number_of_tokens_wins_over_an_ignored_end() -> None:
    (choice,) = answer_chat(ignore_eos=True, sandbox={"tokens": 40}, max_tokens=900)
    assert (choice.count_tokens(), choice.finish_reason) == (40, "stop")


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 200), st.integers(0, 99))
def test_stop_texts_count_only_after_the_minimum_of_tokens(min_tokens: int, seed: int) -> None:
    (full,) = answer_chat(min_tokens=min_tokens, seed=seed)
    (short,) = answer_chat(min_tokens=min_tokens, seed=seed, stop=["e", " "])
    assert short.count_tokens() >= min_tokens
    before, rest = split_tokens(full.text("text"))[:min_tokens], split_tokens(full.text("text"))[min_tokens:]
    assert short.text("text") == "".join(before) + re.split("[e ]", "".join(rest))[0]


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(0, 2**64))
def test_answer_has_at_least_the_minimum_of_tokens(min_tokens: int, seed: int) -> None:
    (choice,) = answer_chat(min_tokens=min_tokens, seed=seed)
    assert choice.count_tokens() >= min_tokens and choice.finish_reason == "stop"


@pytest.mark.parametrize(
    "constraint",
    [{}, {"guided_regex": "[a-d]{3,30}"}, {"guided_choice": ["ja", "nein"]}, {"response_format": {"type": "json_object"}}],
    ids=["free", "regex", "choice", "json"],
)
@pytest.mark.parametrize("seed", range(8))
def test_logprobs_are_valid_probabilities_of_the_sampled_tokens(constraint: dict[str, object], seed: int) -> None:
    (choice,) = answer_chat(seed=seed, logprobs=True, top_logprobs=5, **constraint)
    for step in choice.steps:
        assert step.logprob
        assert step.logprob.token == step.text
        assert step.logprob.logprob <= 0
        assert (step.text, step.logprob.logprob) in step.logprob.top
        assert len(step.logprob.top) <= 5
        assert sum(exp(logprob) for _, logprob in step.logprob.top) <= 1.001
    assert any(step.logprob and step.logprob.logprob < 0 for step in choice.steps)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"guided_json": {"type": "integer"}}, {"structured_outputs": {"json": {"type": "integer"}}}),
        ({"guided_regex": "[a-z]{30}"}, {"structured_outputs": {"regex": "[a-z]{30}"}}),
        ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}),
        (
            {"guided_json": {"type": "object", "minProperties": 2}},
            {"guided_json": {"type": "object", "minProperties": 2}, "logprobs": True, "top_logprobs": 2},
        ),
        ({}, {"stream": True, "user": "somebody", "stream_options": {"include_usage": True}}),
    ],
)
def test_seeded_answer_is_the_same_for_equivalent_requests(one: dict[str, object], other: dict[str, object]) -> None:
    assert answer_chat(seed=5, **one)[0].text("text") == answer_chat(seed=5, **other)[0].text("text")


def test_choices_differ_unless_the_temperature_is_zero() -> None:
    assert len({choice.text("text") for choice in answer_chat(n=6, seed=1)}) == 6
    assert len({choice.text("text") for choice in [*answer_chat(n=3, temperature=0), *answer_chat(temperature=0, seed=9)]}) == 1
    assert len({answer_chat()[0].text("text") for _ in range(6)}) == 6


def vector(text: str | list[int], **more: int) -> list[float]:
    body = msgspec.convert({"model": "sandbox-embed", "input": text, **more}, EmbeddingBody)
    return create_embeddings(body)["data"][0]["embedding"]


def dot_product(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


@bounded
@given(st.text(min_size=1), st.integers(1, 1024))
def test_embedding_has_unit_length_and_is_deterministic(text: str, size: int) -> None:
    assert vector(text, dimensions=size) == vector(text, dimensions=size)
    assert len(vector(text, dimensions=size)) == size
    assert dot_product(vector(text, dimensions=size), vector(text, dimensions=size)) == pytest.approx(1, abs=1e-5)  # pyright: ignore[reportUnknownMemberType]


def test_similar_texts_have_closer_embeddings() -> None:
    sentence, alike, unlike = "the cat sat on the mat", "a cat sat on a mat", "quarterly revenue grew by 12%"
    assert dot_product(vector(sentence), vector(alike)) > 0.5 > dot_product(vector(sentence), vector(unlike)) + 0.2
    assert dot_product(vector([1, 2, 3, 4]), vector([1, 2, 3, 5])) > dot_product(vector([1, 2, 3, 4]), vector([9, 8, 7])) + 0.2


CITY: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def call_arguments(parameters: dict[str, object], seed: int) -> dict[str, object]:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    (choice,) = answer_chat(tools=[tool], tool_choice="required", seed=seed)
    return msgspec.json.decode("".join(step.text for step in choice.steps if step.kind == "arguments"))


@bounded
@given(st.integers(0, 99))
def test_call_has_no_arguments_that_its_schema_does_not_name(seed: int) -> None:
    places: dict[str, object] = {"type": "array", "items": CITY, "minItems": 1, "maxItems": 2}
    arguments = call_arguments({"type": "object", "properties": {"properties": CITY, "places": places}, "required": ["places"]}, seed)
    assert arguments.keys() <= {"properties", "places"}
    assert all(place.keys() == {"city"} for place in msgspec.convert(arguments["places"], list[dict[str, str]]))


@bounded
@given(st.integers(0, 99))
def test_schemas_that_hold_for_one_object_together_stay_open(seed: int) -> None:
    other: dict[str, object] = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
    assert call_arguments({"type": "object", "allOf": [CITY, other]}, seed).keys() >= {"city", "day"}
