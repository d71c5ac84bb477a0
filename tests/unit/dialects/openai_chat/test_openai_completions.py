"""OpenAI completions: requests are checked and kept, edits change only the gateway's keys, and prompts and texts round-trip."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Raw
from openai.types import Completion

from providers.canonical.chat import ChatRequest, ChatResponse, Choice, Message, Text, Thinking, Tool, ToolCall, Usage
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, StreamTruncated, Unsupported, UpstreamError, UpstreamFailed
from providers.canonical.events import Event, assemble_response, response_events
from providers.canonical.output_format import JsonObject, Regex
from providers.dialects.openai_completions import OpenAICompletions
from providers.drop_policy import DropPolicy
from tests.support.case_tables import failed_cases
from tests.support.strategies.chat_strategies import (
    META,
    META_WITHOUT_USAGE,
    bounded,
    byte_splits,
    encode_sse_chunks,
    is_answer,
    nonempty_texts,
    parse_sse_chunks,
    texts,
    usage,
    usages,
)

DIALECT = OpenAICompletions()
REQUEST: dict[str, Any] = {"model": "m", "prompt": "Once"}

# Each documented field: valid values of each documented type, and invalid values.
DOCUMENTED: dict[str, tuple[list[Any], list[Any]]] = {
    "prompt": (
        ["", "Once", ["a", "b"], [1, 2], [[1, 2], [3]]],
        [5, None, [], {}, ["a", 1], [[1], 2], [["a"]], [[]], [1.5], [True]],
    ),
    "best_of": ([1, 20], [0, "two"]),
    "echo": ([True, False], ["x", 1]),
    "suffix": (["end"], [1, ["x"]]),
    "max_tokens": ([0, 16], [-1, 1.5, "nine"]),
    "temperature": ([0, 0.7, 2], ["hot", 2.1]),
    "top_p": ([0, 1], [1.1]),
    "frequency_penalty": ([-2, 2], [2.5]),
    "presence_penalty": ([-2, 2], [-3]),
    "seed": ([0, -1], [1.5]),
    "n": ([1, 5], [0, "two"]),
    "stop": (["END", ["a"]], [1, [1]]),
    "logprobs": ([0, 5], [True, "five", -1]),
    "logit_bias": ([{"50256": -100}], [{"1": "x"}, 3]),
    "stream": ([False], ["yes"]),
    "user": (["u"], [True]),
    "guided_choice": ([["a"]], [[]]),
    "response_format": ([{"type": "json_object"}], ["json"]),
    "episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
}
VALID = [(field, value) for field, (valid, _) in DOCUMENTED.items() for value in valid]
INVALID = [(field, value) for field, (_, invalid) in DOCUMENTED.items() for value in invalid]


def parse(**fields: Any) -> Any:
    return DIALECT.parse_request(json.dumps({**REQUEST, **fields}).encode())


def refusing_policy() -> DropPolicy:
    return DropPolicy(lambda field: False, {}, "an engine")


def test_documented_field_is_accepted_and_kept() -> None:
    def check(field: str, value: Any) -> None:
        assert parse(**{field: value}).body.value(field) == value

    assert failed_cases(check, VALID) == []


def test_wrongly_typed_field_is_refused_by_path() -> None:
    def check(field: str, value: Any) -> None:
        with pytest.raises(InvalidRequest) as refused:
            parse(**{field: value})
        assert refused.value.param is not None
        assert refused.value.param.startswith(field)

    assert failed_cases(check, INVALID) == []


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
    ids=str,
)
def test_mutually_exclusive_fields_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(**fields)
    assert refused.value.param == param


def test_parsed_request_exposes_what_the_gateway_needs() -> None:
    request = parse(prompt=["a", "b"], n=2, best_of=3, max_tokens=10, user="u", metadata={"a": "b"}, episode_id="E")
    assert (request.choices, request.output_tokens, request.end_user, request.tags, request.episode_id) == (4, 60, "u", {"a": "b"}, "E")
    assert parse(prompt=[[1] * 500, [2] * 500]).input_tokens in range(1000, 1050)
    assert parse(prompt="x" * 3000).input_tokens in range(1000, 1050)


# Canonical requests.
requests = st.builds(
    ChatRequest,
    origin=st.just("openai_completions"),
    model=nonempty_texts,
    prompt=texts,
    output=st.none() | st.builds(Regex, nonempty_texts) | st.just(JsonObject()),
    max_tokens=st.none() | st.integers(0, 100),
    temperature=st.none() | st.sampled_from([0.0, 1.5]),
    top_k=st.none() | st.integers(0, 9),
    seed=st.none() | st.integers(0, 9),
    n=st.none() | st.integers(1, 9),
    stop=st.lists(nonempty_texts, max_size=2).map(tuple),
    logprobs=st.just(True),
    top_logprobs=st.integers(0, 5),
    logit_bias=st.none() | st.just(Raw(b'{"1":2}')),
    user=st.none() | nonempty_texts,
    metadata=st.none() | st.just({"a": "b"}),
    extra=st.just({"echo": Raw(b"true"), "suffix": Raw(b'"x"'), "min_p": Raw(b"0.1")}),
)


@bounded
@given(requests)
def test_request_round_trips_through_openai_completions(chat: ChatRequest) -> None:
    drop_policy = refusing_policy()
    raw = DIALECT.write_request(chat, drop_policy).write()
    assert DIALECT.read_request(DIALECT.parse_request(raw).body) == chat
    assert drop_policy.dropped == []


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
def test_field_completions_cannot_express_is_refused_by_name(chat: ChatRequest, field: str) -> None:
    with pytest.raises(Unsupported) as refused:
        DIALECT.write_request(chat, refusing_policy())
    assert refused.value.param == field


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [[1], [2]]], ids=str)
def test_multiple_or_tokenized_prompts_cannot_be_translated(prompt: Any) -> None:
    with pytest.raises(Unsupported) as refused:
        DIALECT.read_request(parse(prompt=prompt).body)
    assert refused.value.param == "prompt"


# Responses.
scores = st.floats(-20, 0)


@st.composite
def logprob_entries(draw: st.DrawFn, text: str) -> tuple[Raw, ...]:
    tops = draw(st.dictionaries(nonempty_texts, scores, max_size=2))
    items: list[dict[str, Any]] = [
        {"token": token, "logprob": draw(scores), "top_logprobs": [{"token": key, "logprob": value} for key, value in tops.items()]}
        for token in text
    ]
    return tuple(Raw(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode()) for each in items)


@st.composite
def completion_choices(draw: st.DrawFn) -> Choice:
    text = draw(texts)
    logprobs = draw(st.none() | logprob_entries(text)) if text else None
    reason = draw(st.sampled_from(["stop", "length", "content_filter"]))
    stop = ("stop_sequence", draw(nonempty_texts)) if reason == "stop" and draw(st.booleans()) else (None, None)
    return Choice((Text(text),) if text else (), reason, logprobs, *stop)


answers = st.builds(
    ChatResponse,
    choices=st.lists(completion_choices(), min_size=1, max_size=3).map(tuple),
    model=st.just(META.model),
    created=st.integers(1, 2**33),
    usage=st.none() | usages,
    system_fingerprint=st.none() | nonempty_texts,
    service_tier=st.none() | st.sampled_from(["auto", "default"]),
).filter(is_answer)


def without_bytes(entry: Any) -> Any:
    """Completions have no bytes of tokens."""
    tops = [without_bytes(top) for top in entry.get("top_logprobs", ())]
    return {"token": entry["token"], "logprob": entry["logprob"], "top_logprobs": tops}


def comparable(answer: ChatResponse) -> Any:
    """Returns what is compared of an answer, its logprobs as JSON and not as bytes."""
    heads = (answer.model, answer.created, answer.usage, answer.system_fingerprint, answer.service_tier)
    compared_choices = [
        (
            each.parts,
            each.finish_reason,
            each.upstream_finish_reason,
            each.stop_sequence,
            [without_bytes(json.loads(bytes(raw))) for raw in each.logprobs or ()],
        )
        for each in answer.choices
    ]
    return heads, compared_choices


def write_stream(events: list[Event], meta: Any = META) -> bytes:
    writer = DIALECT.stream_writer(meta)
    return b"".join([writer.feed(event) for event in events]) + writer.finish()


def read_stream(blocks: list[bytes]) -> list[Event]:
    reader = DIALECT.stream_reader()
    return [*(event for block in blocks for event in reader.feed(block)), *reader.finish()]


@bounded
@given(answers)
def test_written_response_reads_back_unchanged(answer: ChatResponse) -> None:
    assert comparable(DIALECT.read_response(DIALECT.write_response(answer, META))) == comparable(answer)


@bounded
@given(answers, st.data())
def test_written_stream_reads_back_unchanged(answer: ChatResponse, data: st.DataObject) -> None:
    assert comparable(assemble_response(read_stream(data.draw(byte_splits(write_stream(list(response_events(answer)))))))) == comparable(
        answer
    )


@bounded
@given(answers)
def test_every_frame_validates_against_the_official_client(answer: ChatResponse) -> None:
    frames = parse_sse_chunks(write_stream(list(response_events(answer))))
    for frame in [*frames, json.loads(DIALECT.write_response(answer, META))]:
        checked = Completion.model_validate(
            frame | {"choices": [{**each, "finish_reason": each["finish_reason"] or "stop"} for each in frame["choices"]]}
        )
        assert checked.id == f"cmpl-{META.id}"
        assert checked.object == "text_completion"
    assert ["usage" in each for each in frames].count(True) == (answer.usage is not None)
    assert not any("usage" in each for each in parse_sse_chunks(write_stream(list(response_events(answer)), META_WITHOUT_USAGE)))


def test_non_text_parts_are_left_out_of_a_completion() -> None:
    answer = ChatResponse((Choice((Text("a"), ToolCall("i", "f", "{}"), Text("b")), "tool_calls"),), "m")
    assert json.loads(DIALECT.write_response(answer, META))["choices"][0]["text"] == "ab"
    assert "".join(each["choices"][0]["text"] for each in parse_sse_chunks(write_stream(list(response_events(answer))))) == "ab"


# Edits.
def chunk(text: str | None, finish_reason: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason, "x": 1.50}
    return {"id": "theirs", "object": "text_completion", "created": 5, "model": "theirs", "choices": [choice], **more}


GATEWAY_KEYS = ("id", "model", "episode_id", "usage")


@pytest.mark.parametrize(
    "last_chunks", [[chunk("", "stop", usage=usage())], [chunk("", "stop"), {**chunk(""), "choices": [], "usage": usage()}]]
)
def test_stream_edit_changes_only_gateway_owned_keys(last_chunks: list[dict[str, Any]]) -> None:
    chunks = [chunk("On"), chunk("ce", x="y"), *last_chunks]
    for meta in (META, META_WITHOUT_USAGE):
        editor = DIALECT.stream_editor(meta)
        out = editor.feed(encode_sse_chunks([*chunks]) + b"data: [DONE]\n\n")
        frames = parse_sse_chunks(out + editor.finish())
        assert [{key: each[key] for key in each if key not in GATEWAY_KEYS} for each in frames] == [
            {key: each[key] for key in each if key not in GATEWAY_KEYS} for each in chunks[:3]
        ]
        assert {(each["id"], each["model"], each["episode_id"]) for each in frames} == {(f"cmpl-{META.id}", META.model, META.episode_id)}
        assert [each.get("usage") for each in frames] == [None, None, usage() if meta.wants_usage else None]
        assert (editor.usage, editor.finish_reason) == (Usage(3, 4), "stop")


def test_null_text_becomes_an_empty_string() -> None:
    editor = DIALECT.stream_editor(META)
    frames = parse_sse_chunks(editor.feed(encode_sse_chunks([chunk("a"), chunk(None, "stop")])) + editor.finish())
    assert [each["choices"][0]["text"] for each in frames] == ["a", ""]
    edited = json.loads(DIALECT.edit_response(json.dumps(chunk(None, "length")).encode(), META).raw)
    assert edited["choices"][0]["text"] == ""


@bounded
@given(answers)
def test_response_edit_changes_only_gateway_owned_keys(answer: ChatResponse) -> None:
    assume(answer.usage is not None or any(choice.parts for choice in answer.choices))  # an empty answer without usage is a fault
    upstream = {**json.loads(DIALECT.write_response(answer, META)), "id": "theirs", "model": "theirs", "x": 12345678901234567890}
    edited = DIALECT.edit_response(json.dumps(upstream).encode(), META)
    body = json.loads(edited.raw)
    if answer.usage is None:
        assert body.pop("usage")["estimated"] is True
    assert body == {**upstream, "id": f"cmpl-{META.id}", "model": META.model, "episode_id": META.episode_id}
    assert (edited.usage, edited.finish_reason) == (answer.usage, answer.choices[0].finish_reason)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[1]}', b'{"choices":[{"index":"x","text":"a"}]}'])
def test_edit_rejects_an_invalid_response(raw: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        DIALECT.edit_response(raw, META)


def test_upstream_failures_are_reported() -> None:
    broken = {"error": {"message": "no memory", "code": 500}}
    editor = DIALECT.stream_editor(META)
    assert editor.feed(encode_sse_chunks([chunk("a"), broken]))
    assert isinstance(editor.failure, UpstreamFailed)
    with pytest.raises(UpstreamFailed, match="no memory"):
        read_stream([encode_sse_chunks([chunk("a"), broken])])
    with pytest.raises(UpstreamFailed, match="abort"):
        read_stream([encode_sse_chunks([chunk("a", "abort")])])
    with pytest.raises(UpstreamFailed, match="no memory"):
        DIALECT.read_response(json.dumps(broken).encode())
    with pytest.raises(StreamTruncated):
        read_stream([encode_sse_chunks([chunk("a")])])
    error = json.loads(DIALECT.write_error(InvalidRequest("no", param="prompt")))["error"]
    assert (error["code"], error["param"]) == (400, "prompt")


@bounded
@given(st.lists(st.one_of(st.binary(max_size=30), st.just(b"data: "), st.just(b"\n\n"), st.just(b'{"choices":[]}')), max_size=8))
def test_arbitrary_bytes_raise_only_upstream_errors(blocks: list[bytes]) -> None:
    editor, reader = DIALECT.stream_editor(META), DIALECT.stream_reader()
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
def test_arbitrary_bytes_are_refused_as_an_invalid_request(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        DIALECT.parse_request(raw)
