"""Finish reasons and reasoning fields of engines: callers of OpenAI's APIs receive OpenAI's own, whole and streamed."""

import json
from typing import Any

import pytest

from providers.dialect import ResponseMeta
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions

# Words of engines and hosts, of which each API has another set.
FINISH_REASONS = {
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "model_length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "MAX_TOKENS": "length",
    "token_limit": "length",
    "model_context_window_exceeded": "length",
    "safety": "content_filter",
    "SAFETY": "content_filter",
    "content-filter": "content_filter",
    "contentFilter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "content_filter",
    "blocked": "content_filter",
}
META = ResponseMeta("ID", "EP", "m", 1, wants_usage=False)
META_OF_TGI = ResponseMeta("ID", "EP", "m", 1, wants_usage=False, stops_after_calls=True)
CALL = {"index": 0, "id": "0", "type": "function", "function": {"name": "now", "arguments": "{}"}}


def edit_whole_choice(dialect: Any, choice: dict[str, Any], meta: ResponseMeta = META) -> tuple[dict[str, Any], str | None]:
    edited = dialect.edit_response(json.dumps({"id": "x", "choices": [{"index": 0, **choice}]}).encode(), meta)
    return json.loads(edited.raw)["choices"][0], edited.finish_reason


def edit_streamed_choices(dialect: Any, *choices: dict[str, Any], meta: ResponseMeta = META) -> tuple[list[dict[str, Any]], str | None]:
    editor = dialect.stream_editor(meta)
    output = b"".join(
        editor.feed(b"data: " + json.dumps({"id": "x", "choices": [{"index": 0, **choice}]}).encode() + b"\n\n") for choice in choices
    )
    output += editor.feed(b"data: [DONE]\n\n") + editor.finish()
    frames = [line[6:] for line in output.decode().split("\n\n") if line and line != "data: [DONE]"]
    return [choice for frame in frames for choice in json.loads(frame)["choices"]], editor.finish_reason


@pytest.mark.parametrize(("engine_reason", "openai_reason"), FINISH_REASONS.items())
def test_chat_finish_reason_of_an_engine_becomes_openais(engine_reason: str, openai_reason: str) -> None:
    choice, recorded = edit_whole_choice(
        OpenAIChat(), {"message": {"role": "assistant", "content": "stop_sequence"}, "finish_reason": engine_reason}
    )
    assert (choice["finish_reason"], choice["message"]["content"], recorded) == (openai_reason, "stop_sequence", openai_reason)
    choices, recorded = edit_streamed_choices(
        OpenAIChat(), {"delta": {"content": "eos_token"}}, {"delta": {}, "finish_reason": engine_reason}
    )
    assert [each.get("finish_reason") for each in choices] == [None, openai_reason] and recorded == openai_reason
    assert choices[0]["delta"]["content"] == "eos_token"


@pytest.mark.parametrize(("engine_reason", "openai_reason"), FINISH_REASONS.items())
def test_completions_finish_reason_of_an_engine_becomes_openais(engine_reason: str, openai_reason: str) -> None:
    choice, recorded = edit_whole_choice(OpenAICompletions(), {"text": "a", "finish_reason": engine_reason})
    assert (choice["finish_reason"], recorded) == (openai_reason, openai_reason)
    choices, recorded = edit_streamed_choices(OpenAICompletions(), {"text": "a"}, {"text": "", "finish_reason": engine_reason})
    assert [each.get("finish_reason") for each in choices] == [None, openai_reason] and recorded == openai_reason


@pytest.mark.parametrize("reason", ["of_a_later_version", "x" * 100])
def test_unknown_finish_reason_is_a_stop_for_the_caller_and_itself_in_the_record(reason: str) -> None:
    message = {"role": "assistant", "content": "Hi"}
    choice, recorded = edit_whole_choice(OpenAIChat(), {"message": message, "finish_reason": reason})
    assert (choice["finish_reason"], choice["message"], recorded) == ("stop", message, reason)
    choices, recorded = edit_streamed_choices(OpenAIChat(), {"delta": message}, {"delta": {}, "finish_reason": reason})
    assert [each.get("finish_reason") for each in choices] == [None, "stop"] and recorded == reason
    choice, recorded = edit_whole_choice(OpenAICompletions(), {"text": "a", "finish_reason": reason})
    assert (choice["finish_reason"], recorded) == ("stop", reason)
    choices, recorded = edit_streamed_choices(OpenAICompletions(), {"text": "a"}, {"text": "", "finish_reason": reason})
    assert [each.get("finish_reason") for each in choices] == [None, "stop"] and recorded == reason


def test_empty_finish_reason_of_a_complete_response_is_a_stop() -> None:
    message = {"role": "assistant", "content": "Hi"}
    choice, recorded = edit_whole_choice(OpenAIChat(), {"message": message, "finish_reason": ""})
    assert (choice["finish_reason"], recorded) == ("stop", "stop")


def test_stop_after_tool_calls_becomes_finish_reason_tool_calls() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert (
        edit_whole_choice(OpenAIChat(), {"message": message, "finish_reason": "eos_token"}, META_OF_TGI)[0]["finish_reason"] == "tool_calls"
    )
    choices, _ = edit_streamed_choices(
        OpenAIChat(), {"delta": {"tool_calls": [CALL]}}, {"delta": {}, "finish_reason": "eos_token"}, meta=META_OF_TGI
    )
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_reasoning_beside_a_null_reasoning_content_reaches_the_caller() -> None:
    reasoning_fields = {"reasoning": "Hm.", "reasoning_content": None}
    expected = {"role": "assistant", "content": "a", "reasoning_content": "Hm."}
    assert (
        edit_whole_choice(OpenAIChat(), {"message": {"role": "assistant", "content": "a", **reasoning_fields}, "finish_reason": "stop"})[0][
            "message"
        ]
        == expected
    )
    choices, _ = edit_streamed_choices(OpenAIChat(), {"delta": reasoning_fields}, {"delta": {}, "finish_reason": "stop"})
    assert choices[0]["delta"] == {"reasoning_content": "Hm."}
    both = {"reasoning": "Hm.", "reasoning_content": "Hm."}
    choices, _ = edit_streamed_choices(OpenAIChat(), {"delta": both}, {"delta": {}, "finish_reason": "stop"})
    assert choices[0]["delta"] == both
