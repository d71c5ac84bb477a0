"""Laws of OpenAI completions: asks are checked and kept, edits touch our keys alone, and a raw prompt and its text are their meaning."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from openai.types import Completion

from providers import structured_output
from providers.canonical.chat import ChatRequest, ChatResponse, Choice, Message, Text, Thinking, Tool, ToolCall, Usage
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, StreamTruncated, Unsupported, UpstreamError, UpstreamFailed
from providers.canonical.events import Event, assemble_response, response_events
from providers.dialect import DropPolicy
from providers.dialects.openai_completions import OpenAICompletions
from tests.laws.chats import SILENT, STAMP, bounded, cuts, said, texts, told, usage, usages

DIALECT = OpenAICompletions()
ASK: dict[str, Any] = {"model": "m", "prompt": "Once"}

# Every documented field: values of each documented type, and values of none.
DOCUMENTED: dict[str, tuple[list[Any], list[Any]]] = {
    "prompt": (
        ["", "Once", ["a", "b"], [1, 2], [[1, 2], [3]]],
        [5, None, [], {}, ["a", 1], [[1], 2], [["a"]], [[]], [1.5], [True]],
    ),
    "best_of": ([1, 20], [0, "2"]),
    "echo": ([True, False], ["x", 1]),
    "suffix": (["end"], [1, ["x"]]),
    "max_tokens": ([0, 16], [-1, 1.5, "9"]),
    "temperature": ([0, 0.7, 2], ["hot", 2.1]),
    "top_p": ([0, 1], [1.1]),
    "frequency_penalty": ([-2, 2], [2.5]),
    "presence_penalty": ([-2, 2], [-3]),
    "seed": ([0, -1], [1.5]),
    "n": ([1, 5], [0, "2"]),
    "stop": (["END", ["a"]], [1, [1]]),
    "logprobs": ([0, 5], [True, "5", -1]),
    "logit_bias": ([{"50256": -100}], [{"1": "x"}, 3]),
    "stream": ([False], ["true"]),
    "user": (["u"], [1]),
    "guided_choice": ([["a"]], [[]]),
    "response_format": ([{"type": "json_object"}], ["json"]),
    "episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
}
RIGHT = [(field, value) for field, (right, _) in DOCUMENTED.items() for value in right]
WRONG = [(field, value) for field, (_, wrong) in DOCUMENTED.items() for value in wrong]


def opened(**fields: Any) -> Any:
    return DIALECT.parse_request(json.dumps({**ASK, **fields}).encode())


def strict() -> DropPolicy:
    return DropPolicy(lambda field: False, {}, "an engine")


@pytest.mark.parametrize(("field", "value"), RIGHT, ids=repr)
def test_a_documented_field_is_accepted_and_kept(field: str, value: Any) -> None:
    assert opened(**{field: value}).body.value(field) == value


@pytest.mark.parametrize(("field", "value"), WRONG, ids=repr)
def test_a_wrong_type_is_refused_by_its_path(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        opened(**{field: value})
    assert refused.value.param is not None
    assert refused.value.param.startswith(field)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
    ids=str,
)
def test_two_fields_that_exclude_each_other_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        opened(**fields)
    assert refused.value.param == param


def test_what_the_road_needs_is_read() -> None:
    ask = opened(prompt=["a", "b"], n=2, best_of=3, max_tokens=10, user="u", metadata={"a": "b"}, episode_id="E")
    assert (ask.choices, ask.output_tokens, ask.end_user, ask.tags, ask.episode_id) == (4, 60, "u", {"a": "b"}, "E")
    assert opened(prompt=[[1] * 500, [2] * 500]).input_tokens in range(1000, 1050)
    assert opened(prompt="x" * 3000).input_tokens in range(1000, 1050)


# Requests as meaning.
requests = st.builds(
    ChatRequest,
    origin=st.just("openai_completions"),
    model=said,
    prompt=texts,
    output=st.none() | st.builds(structured_output.Regex, said) | st.just(structured_output.JsonObject()),
    max_tokens=st.none() | st.integers(0, 100),
    temperature=st.none() | st.sampled_from([0.0, 1.5]),
    top_k=st.none() | st.integers(0, 9),
    seed=st.none() | st.integers(0, 9),
    n=st.none() | st.integers(1, 9),
    stop=st.lists(said, max_size=2).map(tuple),
    logprobs=st.just(True),
    top_logprobs=st.integers(0, 5),
    logit_bias=st.none() | st.just(Raw(b'{"1":2}')),
    user=st.none() | said,
    metadata=st.none() | st.just({"a": "b"}),
    extra=st.just({"echo": Raw(b"true"), "suffix": Raw(b'"x"'), "min_p": Raw(b"0.1")}),
)


@bounded
@given(requests)
def test_completions_can_repeat_what_they_can_say(chat: ChatRequest) -> None:
    concessions = strict()
    raw = DIALECT.write_request(chat, concessions).write()
    assert DIALECT.read_request(DIALECT.parse_request(raw).body) == chat
    assert concessions.dropped == []


@pytest.mark.parametrize(
    ("chat", "field"),
    [
        (ChatRequest("openai_chat", "m", prompt="a", tools=(Tool("f"),)), "tools"),
        (ChatRequest("openai_chat", "m", prompt="a", thinking=Thinking("low")), "thinking"),
        (ChatRequest("openai_chat", "m", prompt="a", verbosity="low"), "verbosity"),
        (ChatRequest("openai_chat", "m", prompt="a", extra={"x": Raw(b"1")}), "x"),
        (ChatRequest("openai_chat", "m", (Message("user", (Text("a"),)),)), "messages"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_a_completion_cannot_say_is_refused_by_name(chat: ChatRequest, field: str) -> None:
    with pytest.raises(Unsupported) as refused:
        DIALECT.write_request(chat, strict())
    assert refused.value.param == field


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [[1], [2]]], ids=str)
def test_several_prompts_have_no_meaning_elsewhere(prompt: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        DIALECT.read_request(opened(prompt=prompt).body)
    assert refused.value.param == "prompt"


# Answers.
scores = st.floats(-20, 0)


@st.composite
def entries(draw: st.DrawFn, text: str) -> tuple[Raw, ...]:
    tops = draw(st.dictionaries(said, scores, max_size=2))
    told: list[dict[str, Any]] = [
        {"token": token, "logprob": draw(scores), "top_logprobs": [{"token": key, "logprob": value} for key, value in tops.items()]}
        for token in text
    ]
    return tuple(Raw(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode()) for each in told)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    text = draw(texts)
    logprobs = draw(st.none() | entries(text)) if text else None
    reason = draw(st.sampled_from(["stop", "length", "content_filter"]))
    ended = ("stop_sequence", draw(said)) if reason == "stop" and draw(st.booleans()) else (None, None)
    return Choice((Text(text),) if text else (), reason, logprobs, *ended)


answers = st.builds(
    ChatResponse,
    choices=st.lists(choices(), min_size=1, max_size=3).map(tuple),
    model=st.just(STAMP.model),
    created=st.integers(1, 2**33),
    usage=st.none() | usages,
    system_fingerprint=st.none() | said,
    service_tier=st.none() | said,
)


def plain(answer: ChatResponse) -> Any:
    """With logprobs compared as JSON, not as bytes."""
    heads = (answer.model, answer.created, answer.usage, answer.system_fingerprint, answer.service_tier)
    told = [
        (
            each.parts,
            each.finish_reason,
            each.upstream_finish_reason,
            each.stop_sequence,
            [json.loads(bytes(raw)) for raw in each.logprobs or ()],
        )
        for each in answer.choices
    ]
    return heads, told


def written(events: list[Event], stamp: Any = STAMP) -> bytes:
    writer = DIALECT.stream_writer(stamp)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


def read(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [*(event for block in blocks for event in reader.feed(block)), *reader.finish()]


@bounded
@given(answers)
def test_a_whole_answer_is_read_as_it_was_written(answer: ChatResponse) -> None:
    assert plain(DIALECT.read_response(DIALECT.write_response(answer, STAMP))) == plain(answer)


@bounded
@given(answers, st.data())
def test_a_stream_is_read_as_it_was_written(answer: ChatResponse, data: st.DataObject) -> None:
    assert plain(assemble_response(read(data.draw(cuts(written(list(response_events(answer)))))))) == plain(answer)


@bounded
@given(answers)
def test_every_frame_is_of_the_official_clients_shape(answer: ChatResponse) -> None:
    frames = told(written(list(response_events(answer))))
    for frame in [*frames, json.loads(DIALECT.write_response(answer, STAMP))]:
        checked = Completion.model_validate(
            frame | {"choices": [{**each, "finish_reason": each["finish_reason"] or "stop"} for each in frame["choices"]]}
        )
        assert checked.id == f"cmpl-{STAMP.id}"
        assert checked.object == "text_completion"
    assert ["usage" in each for each in frames].count(True) == (answer.usage is not None)
    assert not any("usage" in each for each in told(written(list(response_events(answer)), SILENT)))


def test_what_is_no_text_has_no_place_in_a_completion() -> None:
    answer = ChatResponse((Choice((Text("a"), ToolCall("i", "f", "{}"), Text("b")), "tool_calls"),), "m")
    assert json.loads(DIALECT.write_response(answer, STAMP))["choices"][0]["text"] == "ab"
    assert "".join(each["choices"][0]["text"] for each in told(written(list(response_events(answer))))) == "ab"


# Edits.
def chunk(text: str | None, finish_reason: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason, "x": 1.50}
    return {"id": "theirs", "object": "text_completion", "created": 5, "model": "theirs", "choices": [choice], **more}


def wire(chunks: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)


OURS = ("id", "model", "episode_id", "usage")


@pytest.mark.parametrize(
    "counted", [[chunk("", "stop", usage=usage())], [chunk("", "stop"), {**chunk(""), "choices": [], "usage": usage()}]]
)
def test_a_stream_is_edited_in_our_keys_alone(counted: list[dict[str, Any]]) -> None:
    chunks = [chunk("On"), chunk("ce", x="y"), *counted]
    for stamp in (STAMP, SILENT):
        editor = DIALECT.stream_editor(stamp)
        out = editor.feed(wire([*chunks]) + b"data: [DONE]\n\n")
        frames = told(out + editor.finish())
        assert [{key: each[key] for key in each if key not in OURS} for each in frames] == [
            {key: each[key] for key in each if key not in OURS} for each in chunks[:3]
        ]
        assert {(each["id"], each["model"], each["episode_id"]) for each in frames} == {(f"cmpl-{STAMP.id}", STAMP.model, STAMP.episode_id)}
        assert [each.get("usage") for each in frames] == [None, None, usage() if stamp.wants_usage else None]
        assert (editor.usage, editor.finish_reason) == (Usage(3, 4), "stop")


def test_a_text_is_never_null() -> None:
    editor = DIALECT.stream_editor(STAMP)
    frames = told(editor.feed(wire([chunk("a"), chunk(None, "stop")])) + editor.finish())
    assert [each["choices"][0]["text"] for each in frames] == ["a", ""]
    edited = json.loads(DIALECT.edit_response(json.dumps(chunk(None, "stop")).encode(), STAMP).raw)
    assert edited["choices"][0]["text"] == ""


@bounded
@given(answers)
def test_an_edit_of_a_whole_answer_touches_our_keys_alone(answer: ChatResponse) -> None:
    theirs = {**json.loads(DIALECT.write_response(answer, STAMP)), "id": "theirs", "model": "theirs", "x": 12345678901234567890}
    edited = DIALECT.edit_response(json.dumps(theirs).encode(), STAMP)
    assert json.loads(edited.raw) == {**theirs, "id": f"cmpl-{STAMP.id}", "model": STAMP.model, "episode_id": STAMP.episode_id}
    assert (edited.usage, edited.finish_reason) == (answer.usage, answer.choices[0].finish_reason)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[1]}', b'{"choices":[{"index":"x","text":"a"}]}'])
def test_an_answer_that_is_none_is_garbled(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.edit_response(raw, STAMP)


def test_failures_are_told() -> None:
    broken = {"error": {"message": "no memory", "code": 500}}
    editor = DIALECT.stream_editor(STAMP)
    assert editor.feed(wire([chunk("a"), broken]))
    assert isinstance(editor.failure, UpstreamFailed)
    with pytest.raises(UpstreamFailed, match="no memory"):
        read([wire([chunk("a"), broken])])
    with pytest.raises(UpstreamFailed, match="abort"):
        read([wire([chunk("a", "abort")])])
    with pytest.raises(UpstreamFailed, match="no memory"):
        DIALECT.read_response(json.dumps(broken).encode())
    with pytest.raises(StreamTruncated):
        read([wire([chunk("a")])])
    error = json.loads(DIALECT.write_error(InvalidRequest("no", param="prompt")))["error"]
    assert (error["code"], error["param"]) == (400, "prompt")


@bounded
@given(st.lists(st.one_of(st.binary(max_size=30), st.just(b"data: "), st.just(b"\n\n"), st.just(b'{"choices":[]}')), max_size=8))
def test_no_bytes_break_the_editor_or_the_reader(blocks: list[bytes]) -> None:
    editor, reader = DIALECT.stream_editor(STAMP), DIALECT.stream_reader()
    try:
        for block in blocks:
            editor.feed(block)
        editor.finish()
    except UpstreamError:
        pass
    try:
        for block in blocks:
            list(reader.feed(block))
        list(reader.finish())
    except UpstreamError:
        pass


@bounded
@given(st.binary(max_size=40))
def test_what_is_no_ask_is_malformed(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        DIALECT.parse_request(raw)
