"""Laws of the stream editor: what an engine streams reaches the caller whole, once, and as it was, but for the keys that are ours."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidUpstreamResponse, Overloaded, StreamTruncated, UpstreamError, UpstreamFailed, UpstreamRejected
from providers.dialects.openai_chat import OpenAIChat
from tests.laws.chats import SILENT, STAMP, bounded, chunk, cuts, piece, streams, told, usage, wires

OURS = ("id", "model", "episode_id", "usage")


def edited(blocks: list[bytes], stamp: Any = STAMP) -> bytes:
    editor = OpenAIChat().stream_editor(stamp)
    fed = b"".join([editor.feed(block) for block in blocks])
    return fed + editor.finish()


def plain(chunks: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)


@bounded
@given(st.data())
def test_how_a_stream_is_cut_and_framed_does_not_show(data: st.DataObject) -> None:
    chunks = data.draw(streams())
    wire = data.draw(wires(chunks))
    at_once = edited([plain(chunks)])
    assert told(edited(data.draw(cuts(wire)))) == told(at_once)


@bounded
@given(streams())
def test_a_byte_at_a_time_is_as_good(chunks: list[dict[str, Any]]) -> None:
    wire = plain(chunks)
    assert edited([wire[at : at + 1] for at in range(len(wire))]) == edited([wire])


def roles_once(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A role that is told again would be appended to the first by OpenAI's own client."""
    seen: set[int] = set()
    told: list[dict[str, Any]] = []
    for each in chunks:
        choices: list[dict[str, Any]] = []
        for choice in each["choices"]:
            drop = "role" in choice["delta"] and choice["index"] in seen
            seen |= {choice["index"]} if "role" in choice["delta"] else set()
            choices.append({**choice, "delta": {key: value for key, value in choice["delta"].items() if not (drop and key == "role")}})
        told.append({**each, "choices": choices})
    return told


@bounded
@given(streams(), st.booleans())
def test_all_but_our_keys_is_untouched(chunks: list[dict[str, Any]], wanted: bool) -> None:
    frames = told(edited([plain(chunks)], STAMP if wanted else SILENT))
    spoken = roles_once([each for each in chunks if each["choices"] or "usage" not in each])
    assert [{key: value for key, value in each.items() if key not in OURS} for each in frames] == [
        {key: value for key, value in each.items() if key not in OURS} for each in spoken
    ]
    assert all(each["id"] == STAMP.id and each["model"] == STAMP.model and each["episode_id"] == STAMP.episode_id for each in frames)


@bounded
@given(streams())
def test_usage_is_told_once_and_only_to_who_asked(chunks: list[dict[str, Any]]) -> None:
    frames = told(edited([plain(chunks)]))
    last = [each["usage"] for each in chunks if "usage" in each][-1]
    assert [each["usage"] for each in frames if "usage" in each] == [last]
    with_usage = next(each for each in frames if "usage" in each)
    assert any(choice["finish_reason"] for choice in with_usage["choices"])
    assert not any("usage" in each for each in told(edited([plain(chunks)], SILENT)))


@bounded
@given(streams(counted=False))
def test_usage_that_was_not_told_is_not_made_up(chunks: list[dict[str, Any]]) -> None:
    editor = OpenAIChat().stream_editor(STAMP)
    out = editor.feed(plain(chunks)) + editor.finish()
    assert not any("usage" in each for each in told(out))
    assert editor.usage is None


@bounded
@given(streams())
def test_the_record_knows_what_the_caller_was_told(chunks: list[dict[str, Any]]) -> None:
    editor = OpenAIChat().stream_editor(SILENT)
    editor.feed(plain(chunks))
    editor.finish()
    finished = {
        choice["index"]: choice["finish_reason"] for each in reversed(chunks) for choice in each["choices"] if choice["finish_reason"]
    }
    assert editor.finish_reason == finished[0]
    assert editor.usage is not None
    assert editor.usage.output == [each["usage"] for each in chunks if "usage" in each][-1]["completion_tokens"]


@bounded
@given(streams(), st.data())
def test_a_stream_that_ends_before_any_finish_reason_was_cut_short(chunks: list[dict[str, Any]], data: st.DataObject) -> None:
    first = next(at for at, each in enumerate(chunks) if any(choice["finish_reason"] for choice in each["choices"]))
    seen = chunks[: data.draw(st.integers(0, first))]
    editor = OpenAIChat().stream_editor(STAMP)
    out = editor.feed(plain(seen) + data.draw(st.sampled_from([b"", b"data: [DONE]\n\n", b'data: {"choices": [{"del'])))
    assert out.count(b"data: ") == len([each for each in seen if each["choices"] or "usage" not in each])
    with pytest.raises(StreamTruncated):
        editor.finish()


AROUND = [
    '{"id":"x","object":"chat.completion.chunk","created":5,"model":"m","choices":%s}',
    '{"choices":%s,"created":5,"id":"x","model":"m","object":"chat.completion.chunk"}',
    '{ "id" : "x" , "choices" : %s , "usage" : null }',
    '{"id": "x", "created": %d, "choices": %s, "obfuscation": "ab"}',
    '{"id":"x","choices":%s,"obfuscation":"%d"}',
    '{"choices":%s,"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":7}}',
    '{"more":{"choices":%s},"choices":%s}',
    '{"more":{"choices":[1]},"choices":%s}',
    '{"choices":[{"index":7}],"choices":%s}',
    '{"choices":%s,"more":{"choices":%s}}',
    '{"choices":%s,"x_groq":null,"error":null}',
    '{"x":"\\"choices\\":[]","choices":%s}',
    '{"choices":%s}',
]
SPOKEN = [
    *[piece(content="a")] * 3,
    piece(content="b"),
    piece(content='"choices":[]}'),
    piece(reasoning="c"),
    piece(content="d"),
    {"text": "e"},
]


@pytest.mark.parametrize("around", AROUND, ids=range(len(AROUND)))
def test_whatever_stands_around_the_choices_they_and_it_come_through(around: str) -> None:
    """Also where it is alike from chunk to chunk, of which the editor makes use."""
    raws: list[str] = []
    for at, each in enumerate([*SPOKEN, piece(0, "stop")]):
        choices = json.dumps([each])
        raws.append(re.sub("%[sd]", lambda gap, at=at, choices=choices: choices if gap[0] == "%s" else str(at), around))
    frames = told(edited([f"data: {raw}\n\n".encode() for raw in raws]))
    expected = [json.loads(raw) for raw in raws]
    expected[-4]["choices"] = [piece(reasoning_content="c")]
    expected[-2]["choices"] = [{"delta": {"role": "assistant", "content": "e"}}]
    for frame, meant in zip(frames, expected, strict=True):
        assert frame["id"] == STAMP.id and frame["model"] == STAMP.model and frame["episode_id"] == STAMP.episode_id
        assert frame["object"] == "chat.completion.chunk" and frame["created"] == meant.get("created", STAMP.created)
        kept = {key: value for key, value in frame.items() if key not in (*OURS, "object", "created")}
        assert kept == {key: value for key, value in meant.items() if key not in (*OURS, "object", "created")}


@pytest.mark.parametrize("last", [b'{"choices":[{"delta":["reasoning"]}]}', b'{"choices":[{]}', b'{"choices":[],"choices":5}'])
def test_garbage_is_called_garbled_also_among_chunks_that_are_alike(last: bytes) -> None:
    editor = OpenAIChat().stream_editor(STAMP)
    for _ in range(4):
        assert editor.feed(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
    assert not editor.feed(b"data: " + last + b"\n\n")
    assert isinstance(editor.failure, InvalidUpstreamResponse)


def test_half_a_frame_at_the_end_does_not_cost_the_answer() -> None:
    wire = plain([chunk([piece(content="Hi")]), chunk([piece(0, "stop")])])
    assert edited([wire + b'data: {"choices": [], "usa']) == edited([wire])


@pytest.mark.parametrize("before", [[chunk([piece(content="Hi")])], [chunk([piece(0, "stop", content="Hi")])]], ids=["open", "finished"])
@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"error": {"message": "no memory", "type": "InternalServerError", "param": None, "code": 500}}, UpstreamFailed, "no memory"),
        ({"error": {"message": "bad regex", "type": "BadRequestError", "param": None, "code": 400}}, UpstreamRejected, "bad regex"),
        ({"error": "it broke"}, UpstreamFailed, "it broke"),
        ({"error": {"message": "too long", "http_status_code": 422}}, UpstreamRejected, "too long"),
        ({"object": "error", "message": "queue is full", "type": "x", "param": None, "code": 503}, Overloaded, "queue is full"),
        ({"error": {"message": "slow down", "code": "429"}}, Overloaded, "slow down"),
        ({**chunk([piece(0, "error")]), "error": {"code": 502, "message": "upstream died"}}, UpstreamFailed, "upstream died"),
    ],
    ids=["vllm", "vllm-400", "transformers", "tgi", "flat", "digits", "openrouter"],
)
def test_an_error_after_content_keeps_the_content(
    before: list[dict[str, Any]], error: dict[str, Any], kind: type[UpstreamError], message: str
) -> None:
    editor = OpenAIChat().stream_editor(STAMP)
    out = editor.feed(plain([*before, error]) + b"data: [DONE]\n\n")
    assert [json.loads(data[6:])["choices"] for data in out.split(b"\n\n") if data] == [each["choices"] for each in before]
    assert type(editor.failure) is kind
    assert editor.failure is not None
    assert editor.failure.message == message
    with pytest.raises(kind):
        editor.finish()


@pytest.mark.parametrize("usage_first", [False, True], ids=["usage-last", "usage-first"])
def test_usage_that_comes_when_no_finish_is_held_is_told_all_the_same(usage_first: bool) -> None:
    counted = chunk([], usage=usage())
    chunks = [chunk([piece(0, "stop")]), chunk([piece(1, content="never finished")])]
    frames = told(edited([plain([counted, *chunks] if usage_first else [*chunks, counted])]))
    assert frames[-1]["choices"] == []
    assert frames[-1]["usage"] == usage()
    assert ["usage" in each for each in frames] == [False, False, True]


def test_what_else_the_usage_chunk_says_rides_with_it() -> None:
    """vLLM tells its fingerprint there, and only there."""
    chunks = [chunk([piece(0, "stop", content="a")]), chunk([], usage=usage(), system_fingerprint="vllm-0.32.0")]
    (frame,) = told(edited([plain(chunks)]))
    assert frame["system_fingerprint"] == "vllm-0.32.0"


def test_an_empty_finish_reason_is_none() -> None:
    chunks = [chunk([{**piece(content="a"), "finish_reason": ""}]), chunk([piece(0, "stop")])]
    editor = OpenAIChat().stream_editor(STAMP)
    assert editor.feed(plain(chunks[:1]))
    editor.feed(plain(chunks[1:]))
    editor.finish()
    assert editor.finish_reason == "stop"


def test_reasoning_is_told_under_its_documented_name() -> None:
    chunks = [
        chunk([piece(reasoning="hm", content=None)]),
        chunk([piece(reasoning="so", reasoning_content="so")]),
        chunk([piece(0, "stop")]),
    ]
    frames = told(edited([plain(chunks)]))
    assert [each["choices"][0]["delta"] for each in frames] == [
        {"reasoning_content": "hm", "content": None},
        {"reasoning": "so", "reasoning_content": "so"},
        {},
    ]


def test_text_that_speaks_of_reasoning_is_left_alone() -> None:
    chunks = [chunk([piece(content='the key "reasoning" of {"reasoning": 1}')]), chunk([piece(0, "stop")])]
    assert [each["choices"] for each in told(edited([plain(chunks)]))] == [each["choices"] for each in chunks]


@pytest.mark.parametrize("usage", [b"1", b"[]", b'{"prompt_tokens":"3"}', b'{"prompt_tokens_details":[]}'])
def test_usage_that_cannot_be_read_is_told_as_it_came_and_not_counted(usage: bytes) -> None:
    editor = OpenAIChat().stream_editor(STAMP)
    editor.feed(plain([chunk([piece(0, "stop")])]))
    for choices in (b"[]", b"null"):
        assert not editor.feed(b'data: {"choices":' + choices + b',"usage":' + usage + b"}\n\n")
    assert editor.failure is None and editor.usage is None and editor.finish_reason == "stop"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"hello",
        b'{"choices":null}',
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"choices":[{"finish_reason":1}]}',
        b'{"choices":[{"finish_reason":"\xff"}]}',
        b'{"choices":[{"delta":["reasoning"]}]}',
        b'{"\xff":1}',
        b'{"choices":[],"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(13),
)
def test_garbage_is_called_garbled(data: bytes) -> None:
    editor = OpenAIChat().stream_editor(STAMP)
    first = editor.feed(plain([chunk([piece(content="Hi")])]))
    rest = editor.feed(b"data: " + data + b"\n\n")
    assert first
    assert not rest
    assert isinstance(editor.failure, InvalidUpstreamResponse) or not data


@bounded
@given(
    st.lists(
        st.one_of(st.binary(max_size=30), st.just(b"data: "), st.just(b"\n\n"), st.just(b"\r"), st.just(b'{"choices":[]}')), max_size=8
    )
)
def test_no_bytes_break_the_editor_or_the_reader(blocks: list[bytes]) -> None:
    for each in (OpenAIChat().stream_editor(STAMP), OpenAIChat().stream_reader()):
        try:
            for block in blocks:
                each.feed(block)
            each.finish()
        except UpstreamError:
            pass


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [([], 0, 0), ([""], 1, 1), (["", *["word "] * 40], 41, 60), (["", "word " * 40], 40, 60), (["word " * 40, "word "], 40, 60)],
    ids=["nothing", "a beginning", "a token a chunk", "all at once", "all at once and first"],
)
def test_what_was_written_is_estimated_however_much_comes_in_a_chunk(words: list[str], least: int, most: int) -> None:
    editor = OpenAIChat().stream_editor(STAMP)
    editor.feed(plain([chunk([piece(content=word)]) for word in words]))
    assert least <= editor.written_tokens <= most
