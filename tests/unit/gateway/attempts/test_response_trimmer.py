"""Trimming of responses: cut at the first stop sequence wherever the text is split, and one tool call a choice."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.emulation.emulation import Emulation
from app.gateway.emulation.response_trimmer import ResponseTrimmer, trim_response
from providers.canonical.chat import ChatResponse, Choice, Reasoning, Text, ToolCall, Usage
from providers.canonical.events import (
    ChoiceFinished,
    Event,
    PartDelta,
    PartFinished,
    PartStarted,
    ResponseStarted,
    assemble_response,
)

LETTERS = st.text("ab\n", max_size=12)


def cut_by_definition(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """Cuts a text letter by letter, as an engine writes it.

    It ends where the text first ends with a stop sequence, the longest of several.
    """
    for end in range(1, len(text) + 1):
        matched = [stop for stop in stops if text[:end].endswith(stop)]
        if matched:
            longest = max(matched, key=len)
            return text[: end - len(longest)], longest
    return text, None


def text_events(pieces: Sequence[str], choice: int = 0) -> Iterator[Event]:
    yield PartStarted(choice, 0, Text(""))
    for piece in pieces:
        yield PartDelta(choice, 0, piece)
    yield PartFinished(choice, 0)
    yield ChoiceFinished(choice, "length")


@given(st.lists(LETTERS, max_size=6), st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_text_is_cut_at_the_first_stop_sequence_however_it_is_split(pieces: list[str], stops: list[str]):
    trimmer = ResponseTrimmer(Emulation(("stop",), stop=tuple(stops)), 1)
    (choice,) = assemble_response(trimmer.trim(text_events(pieces))).choices
    kept, matched = cut_by_definition("".join(pieces), stops)
    assert "".join(part.text for part in choice.parts if isinstance(part, Text)) == kept
    assert (choice.stop_sequence, choice.finish_reason) == ((matched, "stop") if matched else (None, "length"))
    assert trimmer.has_ended == (matched is not None)


def test_text_that_cannot_be_the_beginning_of_a_stop_sequence_is_passed_on_at_once():
    trimmer = ResponseTrimmer(Emulation(("stop",), stop=("\nObservation:",)), 1)
    events = list(trimmer.trim([PartStarted(0, 0, Text("")), PartDelta(0, 0, "I think\nObs")]))
    assert events[1:] == [PartDelta(0, 0, "I think")]
    assert list(trimmer.trim([PartDelta(0, 0, "cure")])) == [PartDelta(0, 0, "\nObscure")]


def test_only_the_text_of_a_response_is_cut_and_its_reasoning_and_usage_stay():
    response = ChatResponse((Choice((Reasoning("x END y"), Text("a END b")), "length"),), "m", usage=Usage(3, 9))
    trimmed = trim_response(response, Emulation(("stop",), stop=("END",)))
    assert trimmed.choices[0].parts == (Reasoning("x END y"), Text("a ")) and trimmed.usage == Usage(3, 9)


def test_each_choice_is_cut_alone_and_the_response_ends_with_the_last():
    trimmer = ResponseTrimmer(Emulation(("stop",), stop=("b",)), 2)
    first = list(trimmer.trim([ResponseStarted("m"), *text_events(["ab"], 0)]))
    assert not trimmer.has_ended and first[-1] == ChoiceFinished(0, "stop", None, "b")
    list(trimmer.trim(text_events(["b"], 1)))
    assert trimmer.has_ended


def test_calls_after_the_first_are_withheld_and_counted_and_later_parts_keep_their_order():
    calls = [ToolCall(f"c{at}", "f", "") for at in range(3)]
    events: list[Event] = [PartStarted(0, 0, Text("Hm")), PartFinished(0, 0)]
    for at, call in enumerate(calls, 1):
        events.append(PartStarted(0, at, call))
    events += [PartDelta(0, at, "{}") for at in (3, 1, 2)]
    events += [PartFinished(0, at) for at in (1, 2, 3)]
    events += [PartStarted(0, 4, Text("so")), PartFinished(0, 4), ChoiceFinished(0, "tool_calls")]
    emulation = Emulation(("parallel_tool_calls",), single_call=True)
    trimmed = list(ResponseTrimmer(emulation, 1).trim(events))
    assert [event.index for event in trimmed if isinstance(event, PartStarted)] == [0, 1, 2]
    assert assemble_response(trimmed).choices[0].parts == (Text("Hm"), ToolCall("c0", "f", "{}"), Text("so"))
    assert emulation.report == ["parallel_tool_calls (2 withheld)"]
