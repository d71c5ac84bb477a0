"""Lines of training files: as the formats are documented, or with the reason why not."""

from typing import Any

import pytest

from app.datasets.example import Example
from app.datasets.formats import Inexpressible, find_faults, write_line
from tests.support.strategies.training_lines import check_chat_line, check_completion_line, check_preference_line

HI: Any = {"role": "user", "content": "Hi"}
HELLO: Any = {"role": "assistant", "content": "Hello."}
BETTER: Any = {"role": "assistant", "content": "Good day."}
CALL: Any = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "description": None}}
IMAGE: Any = {
    "role": "user",
    "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "https://x.test/1.png"}}],
}


def example(*messages: Any, response: Any = HELLO, demonstration: Any = None, **fields: Any) -> Example:
    return Example({"messages": list(messages or (HI,)), **fields}, response, demonstration)


def test_only_the_chosen_output_is_learned():
    line = write_line("chat", example({"role": "developer", "content": "Be brief."}, HI, HELLO, HI, response=BETTER), "response")
    check_chat_line(line)
    assert line["messages"] == [{"role": "system", "content": "Be brief."}, HI, {**HELLO, "weight": 0}, HI, BETTER]


def test_tools_go_into_the_line_and_reasoning_does_not():
    thinking = {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Hm.", "annotations": []}
    result = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    line = write_line("chat", example(HI, thinking, result, tools=[TOOL], parallel_tool_calls=False), "response")
    check_chat_line(line)
    assert line["tools"] == [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    assert line["messages"][1] == {"role": "assistant", "tool_calls": [CALL], "weight": 0}
    assert line["parallel_tool_calls"] is False


def test_image_is_learned_from_but_not_by_preference():
    pair = example(IMAGE, demonstration=BETTER)
    check_chat_line(write_line("chat", pair, "demonstration"))
    assert find_faults(pair, "response") == {
        "preference": "preference training takes no images",
        "completion": "it is a chat, not a prompt to continue",
    }


def test_demonstration_is_preferred_to_the_response():
    line = write_line("preference", example(demonstration=BETTER), "demonstration")
    check_preference_line(line)
    assert (line["preferred_output"], line["non_preferred_output"]) == ([BETTER], [HELLO])
    for pair in (example(), example(response=None, demonstration=BETTER), example(demonstration=HELLO)):
        with pytest.raises(Inexpressible):
            write_line("preference", pair, "response")


def test_prompt_is_a_line_of_a_completion():
    prompt = Example({"prompt": "Once"}, {"role": "assistant", "content": " upon a time"}, None)
    line = write_line("completion", prompt, "response")
    check_completion_line(line)
    assert line == {"prompt": "Once", "completion": " upon a time"}
    assert find_faults(prompt, "response").keys() == {"chat", "preference"}


@pytest.mark.parametrize(
    "each",
    [
        example({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}}]}),
        example({"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}),
        example(HI, {"role": "tool", "tool_call_id": "unknown", "content": "x"}),
        example(HI, {**HELLO, "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "a", "input": "b"}}]}),
        example(tools=[{"type": "custom", "custom": {"name": "a"}}]),
        example(tools=[{"type": "function", "function": {"name": "a b"}}]),
        example(tools=[TOOL] * 129),
        example(response={"role": "assistant", "content": ""}),
        example(response=None),
        Example({"messages": []}, HELLO, None),
    ],
)
def test_what_a_line_cannot_say_is_left_out_with_the_reason(each: Example):
    assert "chat" in find_faults(each, "response")
