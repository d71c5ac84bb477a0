"""Laws of mini-sglang's adapter: what it has no field for never reaches it in silence."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.adapters.provider import InvalidOption
from providers.canonical.errors import OperationNotSupported, Unsupported
from providers.catalogue import build_provider
from tests.laws.engine_fields import ASKED, HI, SILENT, TOOL, check, prepare, sent

MINI = build_provider("mini_sglang", "mini", {}, "http://127.0.0.1:1")
VERDICTS: Mapping[str, Mapping[str, Any] | str] = {
    **dict.fromkeys(ASKED, "refused"),
    **dict.fromkeys(("max_tokens", "temperature", "top_p", "top_k", "ignore_eos"), "sent"),
    "max_completion_tokens": {"max_tokens": 7},
    **dict.fromkeys(
        ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"), "hint"
    ),
    **dict.fromkeys(("prediction", "guided_decoding_backend"), "hint"),
}


# Those that say something only beside tools, which it has not.
@pytest.mark.parametrize("field", [field for field in ASKED if field not in ("tool_choice", "parallel_tool_calls", "top_logprobs")])
def test_every_field_is_sent_or_refused_or_reported(field: str):
    check(MINI, field, VERDICTS[field])


@pytest.mark.parametrize("field", SILENT)
def test_what_asks_for_nothing_is_not_refused(field: str):
    body, dropped = sent(MINI, {field: SILENT[field]})
    assert dropped == [] and body.keys() <= {"model", "messages", "stream", "top_k", "top_p", "ignore_eos"}


@pytest.mark.parametrize("fields", [{"tool_choice": "required"}, {"top_logprobs": 2}, {"tools": [TOOL], "tool_choice": "none"}])
def test_it_has_no_tools_and_tells_no_logprobs(fields: dict[str, Any]):
    with pytest.raises(Unsupported):
        sent(MINI, fields)


def test_it_is_always_asked_for_a_stream_and_never_for_usage():
    for fields in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
        assert sent(MINI, fields)[0] == {"model": "m", "messages": HI, "stream": True}


def test_null_is_not_sent_where_a_number_is_meant():
    assert sent(MINI, dict.fromkeys(("max_tokens", "temperature", "top_p", "top_k", "stop", "n", "seed")))[0].keys() == {
        "model",
        "messages",
        "stream",
    }


@pytest.mark.parametrize("fields", [{"temperature": 0, "top_p": 0.5}, {"top_k": 1, "top_p": 0.5}])
def test_greedy_is_greedy_whatever_top_p_says(fields: dict[str, Any]):
    """It is greedy only where top_p is 1, too."""
    assert "top_p" not in sent(MINI, fields)[0]


def test_messages_are_texts_by_system_user_and_assistant():
    said = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]},
        {"role": "assistant", "content": "Three", "reasoning_content": "Counting."},
        {"role": "user", "content": "And?"},
    ]
    body, dropped = sent(MINI, {"messages": said})
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One\nTwo"},
        {"role": "assistant", "content": "Three"},
        {"role": "user", "content": "And?"},
    ]
    assert dropped == ["messages[2].reasoning_content"]


CALL = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}, "content[0]"),
        ({"role": "tool", "tool_call_id": "c", "content": "12"}, "role"),
        ({"role": "assistant", "content": None, "tool_calls": [CALL]}, "tool_calls"),
        ({"role": "user", "name": "Ann", "content": "Hi."}, "name"),
    ],
)
def test_a_message_it_would_not_read_is_refused_by_its_place(message: dict[str, Any], place: str):
    with pytest.raises(Unsupported) as refused:
        sent(MINI, {"messages": [*HI, message]})
    assert refused.value.param == f"messages[1].{place}"
    assert sent(MINI, {"messages": [*HI, message]}, drop=True)[1] == [f"messages[1].{place}"]


def test_a_raw_prompt_stands_in_place_of_messages():
    prepared = prepare(MINI, "openai_chat", b'{"model": "m", "prompt": "Once upon", "max_tokens": 5}')
    assert json.loads(prepared.raw) == {"model": "m", "prompt": "Once upon", "max_tokens": 5, "stream": True}


def test_a_caller_of_messages_reaches_it():
    prepared = prepare(
        MINI, "anthropic_messages", json.dumps({"model": "m", "max_tokens": 5, "system": "Be brief.", "messages": HI}).encode()
    )
    assert json.loads(prepared.raw) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, *HI],
        "max_tokens": 5,
        "stream": True,
    }


def test_what_it_has_no_route_for_is_told_so():
    with pytest.raises(OperationNotSupported):
        prepare(MINI, "openai_embeddings", b'{"model": "m", "input": "x"}')
    with pytest.raises(OperationNotSupported):
        prepare(MINI, "openai_completions", b'{"model": "m", "prompt": "x"}')


def test_who_does_not_say_gets_as_many_tokens_as_the_operator_says():
    mini = build_provider("mini_sglang", "mini", {"max_tokens": 512}, "http://127.0.0.1:1")
    assert sent(mini, {})[0]["max_tokens"] == 512
    assert sent(mini, {"max_completion_tokens": 7})[0]["max_tokens"] == 7
    for wrong in (0, "512", True):
        with pytest.raises(InvalidOption, match="max_tokens"):
            build_provider("mini_sglang", "mini", {"max_tokens": wrong}, "http://127.0.0.1:1")
