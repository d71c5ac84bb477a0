"""What engines say in a word of their own where OpenAI has one: callers of its APIs are told OpenAI's, whole and in streams."""

import json
from typing import Any

import pytest

from providers.dialect import ResponseMeta
from providers.dialects.openai.finish_reasons import FINISH_REASONS
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions

STAMP = ResponseMeta("ID", "EP", "m", 1, wants_usage=False)
TGIS = ResponseMeta("ID", "EP", "m", 1, wants_usage=False, stops_after_calls=True)
CALL = {"index": 0, "id": "0", "type": "function", "function": {"name": "now", "arguments": "{}"}}


def whole(dialect: Any, choice: dict[str, Any], stamp: ResponseMeta = STAMP) -> tuple[dict[str, Any], str | None]:
    edited = dialect.edit_response(json.dumps({"id": "x", "choices": [{"index": 0, **choice}]}).encode(), stamp)
    return json.loads(edited.raw)["choices"][0], edited.finish_reason


def streamed(dialect: Any, *choices: dict[str, Any], stamp: ResponseMeta = STAMP) -> tuple[list[dict[str, Any]], str | None]:
    editor = dialect.stream_editor(stamp)
    told = b"".join(
        editor.feed(b"data: " + json.dumps({"id": "x", "choices": [{"index": 0, **choice}]}).encode() + b"\n\n") for choice in choices
    )
    told += editor.feed(b"data: [DONE]\n\n") + editor.finish()
    frames = [line[6:] for line in told.decode().split("\n\n") if line and line != "data: [DONE]"]
    return [choice for frame in frames for choice in json.loads(frame)["choices"]], editor.finish_reason


@pytest.mark.parametrize(("said", "plain"), FINISH_REASONS.items())
def test_an_end_is_told_to_callers_of_chat_in_openais_words(said: str, plain: str) -> None:
    choice, recorded = whole(OpenAIChat(), {"message": {"role": "assistant", "content": "stop_sequence"}, "finish_reason": said})
    assert (choice["finish_reason"], choice["message"]["content"], recorded) == (plain, "stop_sequence", plain)
    choices, recorded = streamed(OpenAIChat(), {"delta": {"content": "eos_token"}}, {"delta": {}, "finish_reason": said})
    assert [each.get("finish_reason") for each in choices] == [None, plain] and recorded == plain
    assert choices[0]["delta"]["content"] == "eos_token"


@pytest.mark.parametrize(("said", "plain"), FINISH_REASONS.items())
def test_an_end_is_told_to_callers_of_completions_in_openais_words(said: str, plain: str) -> None:
    choice, recorded = whole(OpenAICompletions(), {"text": "a", "finish_reason": said})
    assert (choice["finish_reason"], recorded) == (plain, plain)
    choices, recorded = streamed(OpenAICompletions(), {"text": "a"}, {"text": "", "finish_reason": said})
    assert [each.get("finish_reason") for each in choices] == [None, plain] and recorded == plain


def test_an_end_after_calls_is_one_with_calls_whatever_it_was_called() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert whole(OpenAIChat(), {"message": message, "finish_reason": "eos_token"}, TGIS)[0]["finish_reason"] == "tool_calls"
    choices, _ = streamed(OpenAIChat(), {"delta": {"tool_calls": [CALL]}}, {"delta": {}, "finish_reason": "eos_token"}, stamp=TGIS)
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_thoughts_beside_a_null_of_the_other_name_are_told() -> None:
    thought = {"reasoning": "Hm.", "reasoning_content": None}
    told = {"role": "assistant", "content": "a", "reasoning_content": "Hm."}
    assert whole(OpenAIChat(), {"message": {"role": "assistant", "content": "a", **thought}, "finish_reason": "stop"})[0]["message"] == told
    choices, _ = streamed(OpenAIChat(), {"delta": thought}, {"delta": {}, "finish_reason": "stop"})
    assert choices[0]["delta"] == {"reasoning_content": "Hm."}
    both = {"reasoning": "Hm.", "reasoning_content": "Hm."}
    choices, _ = streamed(OpenAIChat(), {"delta": both}, {"delta": {}, "finish_reason": "stop"})
    assert choices[0]["delta"] == both
