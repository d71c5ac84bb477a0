"""mini-sglang's adapter: fields that it does not have are never sent to it silently."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.adapters.options import InvalidOption
from providers.canonical.errors import OperationNotSupported, Unsupported
from providers.catalogue import build_provider
from tests.support.case_tables import assert_every
from tests.support.field_handling import (
    FIELD_VALUES,
    HI,
    NEUTRAL_FIELD_VALUES,
    TOOL,
    assert_fields_are_handled,
    translate_body,
    translate_chat_fields,
)

MINI = build_provider("mini_sglang", "mini", {}, "http://127.0.0.1:1")
EXPECTED_BY_FIELD: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(FIELD_VALUES, "refused"),
    "reasoning_effort": "hint",
    **dict.fromkeys(("max_tokens", "temperature", "top_p", "top_k", "ignore_eos"), "sent"),
    "max_completion_tokens": {"max_tokens": 7},
    "stop": "emulated",
    **dict.fromkeys(
        ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"), "hint"
    ),
    **dict.fromkeys(("prediction", "guided_decoding_backend", "seed", "verbosity"), "hint"),
    # Its API accepts them and documents that they have no effect.
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), "hint"),
}


def test_each_field_is_sent_refused_or_reported():
    needs_other_fields = ("tool_choice", "parallel_tool_calls", "top_logprobs")  # tools or logprobs, which it does not have
    assert_fields_are_handled(MINI, {field: EXPECTED_BY_FIELD[field] for field in FIELD_VALUES if field not in needs_other_fields})


def test_neutral_field_value_is_accepted_silently():
    def check(field: str) -> None:
        body, dropped = translate_chat_fields(MINI, {field: NEUTRAL_FIELD_VALUES[field]})
        assert dropped == [] and body.keys() <= {"model", "messages", "stream", "top_k", "top_p", "ignore_eos"}

    assert_every(check, NEUTRAL_FIELD_VALUES)


def test_unknown_field_is_refused_by_name_for_it_would_be_ignored():
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(MINI, {"frobnicate": 1})
    assert refused.value.param == "frobnicate"
    assert translate_chat_fields(MINI, {"frobnicate": 1}, drop=True) == ({"model": "m", "messages": HI, "stream": True}, ["frobnicate"])
    assert translate_chat_fields(MINI, {"frobnicate": None})[1] == []


def test_prompt_of_completions_is_sent_as_a_raw_prompt():
    translated = translate_body(MINI, "openai_completions", b'{"model":"m","prompt":"Once upon","max_tokens":3}')
    assert json.loads(translated.raw) == {"model": "m", "prompt": "Once upon", "max_tokens": 3, "stream": True}
    assert translated.emulation is None


@pytest.mark.parametrize("fields", [{"tool_choice": "required"}, {"top_logprobs": 2}, {"tools": [TOOL], "tool_choice": "none"}])
def test_tools_and_logprobs_are_refused(fields: dict[str, Any]):
    with pytest.raises(Unsupported):
        translate_chat_fields(MINI, fields)


def test_request_always_streams_and_never_requests_usage():
    for fields in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
        assert translate_chat_fields(MINI, fields)[0] == {"model": "m", "messages": HI, "stream": True}


def test_null_fields_are_not_sent():
    assert translate_chat_fields(MINI, dict.fromkeys(("max_tokens", "temperature", "top_p", "top_k", "stop", "n", "seed")))[0].keys() == {
        "model",
        "messages",
        "stream",
    }


@pytest.mark.parametrize("fields", [{"temperature": 0, "top_p": 0.5}, {"top_k": 1, "top_p": 0.5}])
def test_greedy_sampling_omits_top_p(fields: dict[str, Any]):
    """mini-sglang is greedy only if top_p is 1, too."""
    assert "top_p" not in translate_chat_fields(MINI, fields)[0]


def test_messages_become_plain_text_from_system_user_and_assistant():
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]},
        {"role": "assistant", "content": "Three", "reasoning_content": "Counting."},
        {"role": "user", "content": "And?"},
    ]
    body, dropped = translate_chat_fields(MINI, {"messages": messages})
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One\nTwo"},
        {"role": "assistant", "content": "Three"},
        {"role": "user", "content": "And?"},
    ]
    assert dropped == ["messages[2].reasoning_content"]


CALL = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}, "content[0]"),
        ({"role": "function", "name": "now", "content": "12"}, "role"),
        ({"role": "assistant", "content": None, "tool_calls": [CALL]}, "tool_calls"),
    ],
)
def test_unsupported_message_is_refused_with_its_path(message: dict[str, Any], path: str):
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(MINI, {"messages": [*HI, message]})
    assert refused.value.param == f"messages[1].{path}"
    assert translate_chat_fields(MINI, {"messages": [*HI, message]}, drop=True)[1] == [f"messages[1].{path}"]


def test_name_of_a_participant_stands_in_the_text():
    body, dropped = translate_chat_fields(MINI, {"messages": [{"role": "user", "name": "Ann", "content": "Hi."}]})
    assert (body["messages"], dropped) == ([{"role": "user", "content": "Ann said:\nHi."}], [])


def test_raw_prompt_is_sent_in_place_of_messages():
    translated = translate_body(MINI, "openai_chat", b'{"model": "m", "prompt": "Once upon", "max_tokens": 5}')
    assert json.loads(translated.raw) == {"model": "m", "prompt": "Once upon", "max_tokens": 5, "stream": True}


def test_anthropic_messages_request_is_translated_to_chat():
    translated = translate_body(
        MINI, "anthropic_messages", json.dumps({"model": "m", "max_tokens": 5, "system": "Be brief.", "messages": HI}).encode()
    )
    assert json.loads(translated.raw) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, *HI],
        "max_tokens": 5,
        "stream": True,
    }


def test_embeddings_are_refused_as_not_supported():
    with pytest.raises(OperationNotSupported):
        translate_body(MINI, "openai_embeddings", b'{"model": "m", "input": "x"}')


def test_default_max_tokens_is_the_operators_option():
    mini = build_provider("mini_sglang", "mini", {"max_tokens": 512}, "http://127.0.0.1:1")
    assert translate_chat_fields(mini, {})[0]["max_tokens"] == 512
    assert translate_chat_fields(mini, {"max_completion_tokens": 7})[0]["max_tokens"] == 7
    for wrong in (0, "512", True):
        with pytest.raises(InvalidOption, match="max_tokens"):
            build_provider("mini_sglang", "mini", {"max_tokens": wrong}, "http://127.0.0.1:1")
