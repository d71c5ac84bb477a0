"""Tools for free text as functions: the text is taken out of the arguments of their calls, wherever those are cut."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from app.gateway.emulation.custom_tools import InputReader, as_functions
from providers.canonical.chat import ChatRequest, Message, Tool, ToolCall, ToolResult
from providers.canonical.output_format import Grammar, Regex


def read_input(*pieces: str) -> str:
    reader = InputReader()
    return "".join([*map(reader.add, pieces), reader.finish()])


@given(st.text(st.characters(exclude_categories=("Cs",))), st.booleans(), st.lists(st.integers(0, 200), max_size=8))
def test_text_is_read_from_arguments_that_are_cut_anywhere(text: str, is_ascii: bool, cuts: list[int]):
    arguments = json.dumps({"input": text}, ensure_ascii=is_ascii)
    places = [0, *sorted(min(cut, len(arguments)) for cut in cuts), len(arguments)]
    assert read_input(*[arguments[start:end] for start, end in itertools.pairwise(places)]) == text


def test_text_is_passed_on_before_the_arguments_are_complete():
    reader = InputReader()
    assert [reader.add(piece) for piece in (' {\n"in', 'put" : "let ', "x = \\", 'n1;"', "}")] == ["", "let ", "x = ", "\n1;", ""]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ("{}", ""),
        ("ls -l", "ls -l"),  # no JSON at all
        ('{"code": "ls"}', "ls"),  # another name for the only argument
        ('{"timeout": 1, "input": "ls"}', "ls"),
        ('{"input": 5}', '{"input": 5}'),
        ('{"input": "cut off \\u00', "cut off "),
        ('{"input": "half \\ud83d"}', "half \ufffd"),
        ('{"input": "a\\qb"}', "aqb"),  # no escape of JSON
    ],
)
def test_arguments_in_another_form_lose_nothing(arguments: str, text: str):
    assert read_input(arguments) == text


def test_tools_for_free_text_become_functions_of_one_argument():
    formats = {
        "any": None,
        "lark": b'{"type":"grammar","syntax":"lark","definition":"start: \\"a\\""}',
        "regex": b'{"type":"grammar","grammar":{"syntax":"regex","definition":"a+"}}',
    }
    tools = tuple(Tool(name, "About.", custom=True, format=None if format is None else Raw(format)) for name, format in formats.items())
    messages = (
        Message("assistant", (ToolCall("c", "any", 'say "hi"', custom=True),)),
        Message("user", (ToolResult("c", (), custom=True),)),
    )
    converted = as_functions(ChatRequest("openai_responses", "m", messages, tools=tools), checks=True)
    assert converted is not None
    chat, custom_tools = converted
    assert custom_tools.formats == {"any": None, "lark": Grammar('start: "a"'), "regex": Regex("a+")} and custom_tools.are_checked
    assert not any(tool.custom or tool.format for tool in chat.tools if isinstance(tool, Tool))
    assert ['start: "a"' in (tool.description or "") for tool in chat.tools if isinstance(tool, Tool)] == [False, True, False]
    assert chat.messages[0].parts == (ToolCall("c", "any", '{"input":"say \\"hi\\""}'),)
    assert chat.messages[1].parts == (ToolResult("c", ()),)


def test_chat_without_such_tools_stays_as_it_is():
    assert as_functions(ChatRequest("openai_responses", "m", tools=(Tool("f"),)), checks=True) is None
