"""Usage has one arithmetic: reasoning within the output, parts by their names, whoever counts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.chat import Usage
from providers.dialects.anthropic_messages.usage import read_counts, to_usage
from providers.dialects.openai.usage import normalize_usage, read_usage
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_chat.edit import edit_response, stream_editor
from providers.dialects.openai_completions import OpenAICompletions
from providers.dialects.openai_responses.usage import read_usage as read_usage_of_responses
from tests.laws.chats import STAMP, bounded, told

tokens = st.integers(0, 2**30)
thoughts = st.integers(1, 2**30)


def usage(prompt: int, completion: int, reasoning: int, *, beside: bool) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion if beside else completion + reasoning,
        "total_tokens": prompt + completion + reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
        "cost_in_usd_ticks": 7,
    }


@bounded
@given(tokens, tokens, thoughts)
def test_reasoning_is_a_part_of_the_output_wherever_it_was_counted(prompt: int, completion: int, reasoning: int) -> None:
    for beside in (True, False):
        raw = Raw(json.dumps(usage(prompt, completion, reasoning, beside=beside)).encode())
        counted, kept = normalize_usage(raw)
        assert counted == read_usage(raw) == Usage(input=prompt, output=completion + reasoning, reasoning=reasoning)
        assert (kept is raw) == (not beside)
        assert json.loads(bytes(kept)) == {**json.loads(bytes(raw)), "completion_tokens": completion + reasoning}


def test_callers_of_the_same_dialect_hear_the_same_arithmetic_whole_and_streamed() -> None:
    said = usage(165, 2, 125, beside=True)
    chat = OpenAIChat()
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}], "usage": said}
    edited = chat.edit_response(json.dumps(whole).encode(), STAMP)
    assert json.loads(edited.raw)["usage"] == {**said, "completion_tokens": 127}
    assert edited.usage == Usage(input=165, output=127, reasoning=125)
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": said},
    ]
    editor = chat.stream_editor(STAMP)
    out = editor.feed(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks)) + editor.finish()
    assert [frame["usage"] for frame in told(out)] == [{**said, "completion_tokens": 127}]
    assert editor.usage == edited.usage
    text = {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}], "usage": said}
    assert json.loads(OpenAICompletions().edit_response(json.dumps(text).encode(), STAMP).raw)["usage"]["completion_tokens"] == 127


@pytest.mark.parametrize(
    ("told_tier", "tier"), [("flex", "flex"), ("priority", "priority"), ("batch", "batch"), ("default", None), (7, None)]
)
def test_the_tier_that_served_is_told_where_it_has_a_price_of_its_own(told_tier: Any, tier: str | None) -> None:
    counted = read_usage(b'{"prompt_tokens": 1, "completion_tokens": 2}', told_tier)
    assert counted is not None
    assert counted.tier == tier
    responses = read_usage_of_responses(b'{"input_tokens": 1, "output_tokens": 2}', told_tier)
    assert responses is not None
    assert responses.tier == tier


def test_parts_of_usage_have_their_names() -> None:
    details = {"cached_tokens": 1, "cache_write_tokens": 2, "audio_tokens": 3, "image_tokens": 4}
    raw = json.dumps({"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": details}).encode()
    assert read_usage(raw) == Usage(input=20, output=9, cached=1, cache_written=2, audio_input=3, image_input=4)
    spoken = b'{"prompt_tokens": 22, "completion_tokens": 18, "completion_tokens_details": {"audio_tokens": 12}}'
    assert read_usage(spoken) == Usage(input=22, output=18, audio_output=12)
    assert read_usage(b'{"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}') == Usage(input=9, output=1, cached=8)


def test_what_anthropic_keeps_for_an_hour_is_told_apart() -> None:
    told_counts = {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        "service_tier": "batch",
    }
    counts = read_counts(Raw(json.dumps(told_counts).encode()))
    assert to_usage(counts) == Usage(input=33, output=5, cache_written=30, cache_written_hour=20, tier="batch")


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ({"cached_tokens": 5}, {"prompt_tokens_details": {"cached_tokens": 5}}),  # Together
        ({"prompt_cache_hit_tokens": 5}, {"prompt_tokens_details": {"cached_tokens": 5}}),  # DeepSeek
        ({"reasoning_tokens": 4}, {"completion_tokens_details": {"reasoning_tokens": 4}}),  # Perplexity
        (
            {"cached_tokens": 5, "prompt_tokens_details": {"audio_tokens": 1}},
            {"prompt_tokens_details": {"audio_tokens": 1, "cached_tokens": 5}},
        ),
    ],
)
def test_what_a_host_names_its_own_way_callers_of_chat_hear_as_openai_names_it_too(own: dict[str, Any], named: dict[str, Any]) -> None:
    said = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29, **own}
    counted, kept = normalize_usage(Raw(json.dumps(said).encode()))
    assert json.loads(bytes(kept)) == {**said, **named}
    assert counted == read_usage(bytes(kept)) and normalize_usage(kept) == (counted, kept)


@pytest.mark.parametrize("said", [b"[]", b"{}", b"[[]]", b"7", b"true", b'"on_demand"'])
def test_a_tier_that_is_no_word_of_openais_costs_no_answer(said: bytes):
    whole = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"service_tier":' + said + b"}"
    assert json.loads(edit_response(whole, STAMP).raw)["service_tier"] == ""
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}],"service_tier":' + said + b"}\n\n"
    assert "service_tier" not in json.loads(stream_editor(STAMP).feed(chunk)[6:])
