"""Calls in the text of a response: the same however the text is split, and a text that is no call stays as it was."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from app.gateway.emulation.call_reader import CallReader
from app.gateway.emulation.emulated_tools import EmulatedTools
from providers.canonical.chat import Reasoning, Text, Tool, ToolCall
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, assemble_response

SEAT = Tool("seat", parameters=Raw(b'{"type":"object"}'))
OFFERED = EmulatedTools({"seat": SEAT}, are_described=True, is_demanded=False, is_single=False, fields=frozenset())
DEMANDED = EmulatedTools({"seat": SEAT}, are_described=True, is_demanded=True, is_single=False, fields=frozenset())
CALL = '<tool_call>\n{"name": "seat", "arguments": {"row": 3}}\n</tool_call>'


def events_of(pieces: Sequence[str], reason: str) -> Iterator[Event]:
    yield PartStarted(0, 0, Text(""))
    for piece in pieces:
        yield PartDelta(0, 0, piece)
    yield PartFinished(0, 0)
    yield ChoiceFinished(0, reason)


def read(*pieces: str, described: EmulatedTools = OFFERED, reason: str = "stop") -> tuple[list[str | tuple[str, str]], str | None]:
    """The texts and the calls (name, arguments), in order, and the finish reason."""
    (choice,) = assemble_response(CallReader(described).read(events_of(pieces, reason))).choices
    parts: list[str | tuple[str, str]] = []
    for part in choice.parts:
        match part:
            case Text():
                parts.append(part.text)
            case ToolCall():
                assert part.id.startswith("call_")
                parts.append((part.name, part.arguments))
            case _:
                raise AssertionError(part)
    return parts, choice.finish_reason


def split_at(text: str, places: Sequence[int]) -> list[str]:
    cuts = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[begin:end] for begin, end in pairwise(cuts)]


WRITTEN = st.lists(
    st.sampled_from([CALL, "<tool_call>no call</tool_call>", "Hello", " ", "\n", "<tool", "_call>", "{", '{"name"', "<"]), max_size=6
)


@given(WRITTEN, st.lists(st.integers(0, 1_000), max_size=8), st.booleans())
def test_splitting_the_text_changes_nothing(written: list[str], places: list[int], is_demanded: bool):
    text, described = "".join(written), DEMANDED if is_demanded else OFFERED
    assert read(*split_at(text, places), described=described) == read(text, described=described)


@given(st.text("ab <>_{}tolcar\n", max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_text_without_a_call_is_passed_on_as_it_is(text: str, places: list[int]):
    assert read(*split_at(text, places)) == ([text], "stop")


def test_calls_are_read_from_among_the_text():
    assert read(f"Let me look.\n{CALL}\n{CALL}\n") == (["Let me look.", ("seat", '{"row": 3}'), ("seat", '{"row": 3}')], "tool_calls")
    assert read(f"{CALL}\n\nDone.") == ([("seat", '{"row": 3}'), "Done."], "tool_calls")
    assert read(CALL, reason="length") == ([("seat", '{"row": 3}')], "length")


def test_text_is_passed_on_as_soon_as_it_can_be_no_call():
    reader = CallReader(OFFERED)
    assert list(reader.read([PartStarted(0, 0, Text("")), PartDelta(0, 0, "One <tool")])) == [
        PartStarted(0, 0, Text("")),
        PartDelta(0, 0, "One"),
    ]
    assert list(reader.read([PartDelta(0, 0, "box>")])) == [PartDelta(0, 0, " <toolbox>")]


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"name":"seat","parameters":{"row":3}}', '{"row":3}'),  # as Llama's template has it
        ('{"name":"seat","arguments":"{\\"row\\":3}"}', '{"row":3}'),
        ('{"name":"seat"}', "{}"),
    ],
)
def test_other_forms_of_a_call_are_read(written: str, arguments: str):
    assert read(f"<tool_call>{written}</tool_call>") == ([("seat", arguments)], "tool_calls")
    assert read(f"<tool_call>{written}") == ([("seat", arguments)], "tool_calls")  # the closing tag may be the model's last token


@pytest.mark.parametrize("written", ["", "{}", "[1]", '{"name": ""}', '{"name": "seat", "arguments": 3}', '{"name": "seat", "arg'])
def test_what_is_no_call_stays_text(written: str):
    assert read(f"<tool_call>{written}</tool_call>") == ([f"<tool_call>{written}</tool_call>"], "stop")
    assert read(f"<tool_call>{written}") == ([f"<tool_call>{written}"], "stop")


def test_demanded_call_needs_no_tags_and_may_be_cut_off():
    assert read(' {"name": "seat", ', '"arguments": {"row": 3}}', described=DEMANDED) == ([("seat", '{"row": 3}')], "tool_calls")
    assert read('{"name": "seat"}') == (['{"name": "seat"}'], "stop")  # an answer of JSON, where no call is demanded
    cut_off = '{"name": "seat", "arguments": {"row": '
    assert read(cut_off, described=DEMANDED, reason="length") == ([("seat", '{"row": ')], "length")
    assert read("No.", described=DEMANDED) == (["No."], "stop")


def test_reasoning_is_passed_on_and_parts_are_numbered_in_order():
    events: list[Event] = [PartStarted(0, 0, Reasoning("")), PartDelta(0, 0, CALL), PartFinished(0, 0)]
    events += [PartStarted(0, 1, Text("")), PartDelta(0, 1, f"Hm.{CALL}"), PartFinished(0, 1), ChoiceFinished(0, "stop")]
    read = list(CallReader(OFFERED).read(events))
    assert [(event.index, type(event.part)) for event in read if isinstance(event, PartStarted)] == [
        (0, Reasoning),
        (1, Text),
        (2, ToolCall),
    ]
    (choice,) = assemble_response(read).choices
    assert choice.parts[0] == Reasoning(CALL)


def test_call_and_white_space_without_end_are_not_held_back_forever():
    passed_on = list(CallReader(OFFERED).read([PartStarted(0, 0, Text("")), *(PartDelta(0, 0, " " * 50) for _ in range(10))]))
    assert sum(len(event.text) for event in passed_on if isinstance(event, PartDelta)) >= 400
    endless = [PartStarted(0, 0, Text("")), PartDelta(0, 0, "<tool_call>"), *(PartDelta(0, 0, "x" * 1_000) for _ in range(1_100))]
    passed_on = list(CallReader(OFFERED).read(endless))
    assert sum(len(event.text) for event in passed_on if isinstance(event, PartDelta)) >= 1_000_000


def test_empty_text_stays_one():
    assert read("") == ([""], "stop")
    assert json.dumps(read(" ", described=DEMANDED)[0]) == '[" "]'


def test_text_of_nothing_but_tags_is_read_up_to_a_bound():
    parts, _ = read(CALL * 1_000)
    assert len([part for part in parts if isinstance(part, tuple)]) == 256
    assert "".join(part for part in parts if isinstance(part, str)) == CALL * (1_000 - 256)
