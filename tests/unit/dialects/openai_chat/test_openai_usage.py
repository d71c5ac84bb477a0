"""Usage is counted alike for every API: reasoning is part of the output, and details are read under every name."""

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
from tests.support.strategies.chat_strategies import META, bounded, parse_sse_chunks

tokens = st.integers(0, 2**30)
reasoning_tokens = st.integers(1, 2**30)


def usage(prompt: int, completion: int, reasoning: int, *, separate_reasoning: bool) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion if separate_reasoning else completion + reasoning,
        "total_tokens": prompt + completion + reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
        "cost_in_usd_ticks": 70_000,
    }


@bounded
@given(tokens, tokens, reasoning_tokens)
def test_reasoning_tokens_are_included_in_output_tokens(prompt: int, completion: int, reasoning: int) -> None:
    for separate_reasoning in (True, False):
        raw = Raw(json.dumps(usage(prompt, completion, reasoning, separate_reasoning=separate_reasoning)).encode())
        counted, kept = normalize_usage(raw)
        assert counted == read_usage(raw)
        assert counted == Usage(input=prompt, output=completion + reasoning, reasoning=reasoning, host_cost_microusd=7)
        assert (kept is raw) == (not separate_reasoning)
        assert json.loads(bytes(kept)) == {**json.loads(bytes(raw)), "completion_tokens": completion + reasoning}


def test_usage_is_normalized_the_same_way_whole_and_streamed() -> None:
    reported = usage(165, 2, 125, separate_reasoning=True)
    chat = OpenAIChat()
    response_body = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": reported,
    }
    edited = chat.edit_response(json.dumps(response_body).encode(), META)
    assert json.loads(edited.raw)["usage"] == {**reported, "completion_tokens": 127}
    assert edited.usage == Usage(input=165, output=127, reasoning=125, host_cost_microusd=7)
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": reported},
    ]
    editor = chat.stream_editor(META)
    out = editor.feed(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks)) + editor.finish()
    assert [frame["usage"] for frame in parse_sse_chunks(out)] == [{**reported, "completion_tokens": 127}]
    assert editor.usage == edited.usage
    text = {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}], "usage": reported}
    assert json.loads(OpenAICompletions().edit_response(json.dumps(text).encode(), META).raw)["usage"]["completion_tokens"] == 127


@pytest.mark.parametrize(
    ("reported_tier", "tier"), [("flex", "flex"), ("priority", "priority"), ("batch", "batch"), ("default", None), (7, None)]
)
def test_service_tier_is_recorded_only_if_it_has_its_own_price(reported_tier: Any, tier: str | None) -> None:
    counted = read_usage(b'{"prompt_tokens": 1, "completion_tokens": 2}', reported_tier)
    assert counted is not None
    assert counted.tier == tier
    responses = read_usage_of_responses(b'{"input_tokens": 1, "output_tokens": 2}', reported_tier)
    assert responses is not None
    assert responses.tier == tier


def test_usage_details_are_read_by_kind() -> None:
    details = {"cached_tokens": 1, "cache_write_tokens": 2, "audio_tokens": 3, "image_tokens": 4}
    raw = json.dumps({"prompt_tokens": 20, "completion_tokens": 9, "prompt_tokens_details": details}).encode()
    assert read_usage(raw) == Usage(input=20, output=9, cached=1, cache_written=2, audio_input=3, image_input=4)
    audio_usage = b'{"prompt_tokens": 22, "completion_tokens": 18, "completion_tokens_details": {"audio_tokens": 12}}'
    assert read_usage(audio_usage) == Usage(input=22, output=18, audio_output=12)
    assert read_usage(b'{"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}') == Usage(input=9, output=1, cached=8)


def test_anthropic_one_hour_cache_writes_are_counted_separately() -> None:
    raw_counts = {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        "service_tier": "batch",
    }
    counts = read_counts(Raw(json.dumps(raw_counts).encode()))
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
def test_host_specific_usage_fields_are_also_reported_under_openais_names(own: dict[str, Any], named: dict[str, Any]) -> None:
    reported = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29, **own}
    counted, kept = normalize_usage(Raw(json.dumps(reported).encode()))
    assert json.loads(bytes(kept)) == {**reported, **named}
    assert counted == read_usage(bytes(kept)) and normalize_usage(kept) == (counted, kept)


@pytest.mark.parametrize("service_tier", [b"[]", b"{}", b"[[]]", b"7", b"true", b'"on_demand"'])
def test_unknown_service_tier_does_not_fail_the_response(service_tier: bytes):
    response_body = (
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"service_tier":'
        + service_tier
        + b"}"
    )
    assert json.loads(edit_response(response_body, META).raw)["service_tier"] is None
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}],"service_tier":' + service_tier + b"}\n\n"
    assert "service_tier" not in json.loads(stream_editor(META).feed(chunk)[6:])


def test_an_object_that_counts_no_use_of_tools_does_not_hide_another() -> None:
    sent = {"prompt_tokens": 3, "completion_tokens": 2, "server_tool_use": {"web_search_requests": 0}}
    details = {"server_tool_use_details": {"web_search_requests": 2}}
    found = read_usage(Raw(json.dumps({**sent, **details}).encode()))
    assert found is not None and found.tool_uses == {"web_search": 2}
