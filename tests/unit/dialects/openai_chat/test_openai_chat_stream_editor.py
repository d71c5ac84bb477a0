"""The OpenAI chat stream editor: an engine's stream reaches the caller complete, once and unchanged but for the gateway's own keys."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from providers.canonical.errors import InvalidUpstreamResponse, Overloaded, StreamTruncated, UpstreamError, UpstreamFailed, UpstreamRejected
from providers.canonical.token_estimate import written_tokens
from providers.dialects.openai.answers import has_content
from providers.dialects.openai_chat import OpenAIChat
from tests.support.strategies.chat_strategies import (
    META,
    META_WITHOUT_USAGE,
    bounded,
    byte_splits,
    chunk,
    chunk_choice,
    encode_sse_chunks,
    parse_sse_chunks,
    sse_encodings,
    streams,
    usage,
)

GATEWAY_KEYS = ("id", "model", "episode_id", "usage")


def edit_stream(blocks: list[bytes], meta: Any = META) -> bytes:
    editor = OpenAIChat().stream_editor(meta)
    fed = b"".join([editor.feed(block) for block in blocks])
    return fed + editor.finish()


@bounded
@given(st.data())
def test_cutting_and_framing_of_a_stream_do_not_change_the_output(data: st.DataObject) -> None:
    chunks = data.draw(streams())
    wire = data.draw(sse_encodings(chunks))
    at_once = edit_stream([encode_sse_chunks(chunks)])
    assert parse_sse_chunks(edit_stream(data.draw(byte_splits(wire)))) == parse_sse_chunks(at_once)


@bounded
@given(streams())
def test_stream_fed_byte_by_byte_gives_the_same_output(chunks: list[dict[str, Any]]) -> None:
    wire = encode_sse_chunks(chunks)
    assert edit_stream([wire[at : at + 1] for at in range(len(wire))]) == edit_stream([wire])


def with_roles_once(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """OpenAI's own client would append a repeated role to the first."""
    seen: set[int] = set()
    deduplicated: list[dict[str, Any]] = []
    for each in chunks:
        choices: list[dict[str, Any]] = []
        for choice in each["choices"]:
            drop = "role" in choice["delta"] and choice["index"] in seen
            seen |= {choice["index"]} if "role" in choice["delta"] else set()
            choices.append({**choice, "delta": {key: value for key, value in choice["delta"].items() if not (drop and key == "role")}})
        deduplicated.append({**each, "choices": choices})
    return deduplicated


@bounded
@given(streams(), st.booleans())
def test_only_gateway_owned_keys_are_changed(chunks: list[dict[str, Any]], wants_usage: bool) -> None:
    frames = parse_sse_chunks(edit_stream([encode_sse_chunks(chunks)], META if wants_usage else META_WITHOUT_USAGE))
    expected = with_roles_once([each for each in chunks if each["choices"] or "usage" not in each])
    assert [{key: value for key, value in each.items() if key not in GATEWAY_KEYS} for each in frames] == [
        {key: value for key, value in each.items() if key not in GATEWAY_KEYS} for each in expected
    ]
    assert all(each["id"] == META.id and each["model"] == META.model and each["episode_id"] == META.episode_id for each in frames)


@bounded
@given(streams())
def test_usage_is_reported_once_and_only_if_requested(chunks: list[dict[str, Any]]) -> None:
    frames = parse_sse_chunks(edit_stream([encode_sse_chunks(chunks)]))
    last = [each["usage"] for each in chunks if "usage" in each][-1]
    assert [each["usage"] for each in frames if "usage" in each] == [last]
    with_usage = next(each for each in frames if "usage" in each)
    assert any(choice["finish_reason"] for choice in with_usage["choices"])
    assert not any("usage" in each for each in parse_sse_chunks(edit_stream([encode_sse_chunks(chunks)], META_WITHOUT_USAGE)))


@bounded
@given(streams(with_usage=False))
def test_usage_the_engine_did_not_report_is_estimated_for_callers_and_marked(chunks: list[dict[str, Any]]) -> None:
    assume(any(has_content(json.dumps(each["choices"]).encode()) for each in chunks))  # an empty response is a failure
    editor = OpenAIChat().stream_editor(replace(META, estimated_input=9))
    out = editor.feed(encode_sse_chunks(chunks)) + editor.finish()
    (usage,) = [each["usage"] for each in parse_sse_chunks(out) if "usage" in each]
    written = editor.written_tokens
    assert usage == {"prompt_tokens": 9, "completion_tokens": written, "total_tokens": 9 + written, "estimated": True}
    assert editor.usage is None


@bounded
@given(streams())
def test_finish_reason_and_usage_are_recorded_even_if_the_caller_gets_no_usage(chunks: list[dict[str, Any]]) -> None:
    editor = OpenAIChat().stream_editor(META_WITHOUT_USAGE)
    editor.feed(encode_sse_chunks(chunks))
    editor.finish()
    finished = {
        choice["index"]: choice["finish_reason"] for each in reversed(chunks) for choice in each["choices"] if choice["finish_reason"]
    }
    assert editor.finish_reason == finished[0]
    assert editor.usage is not None
    assert editor.usage.output == [each["usage"] for each in chunks if "usage" in each][-1]["completion_tokens"]


@bounded
@given(streams(), st.data())
def test_stream_without_a_finish_reason_is_truncated(chunks: list[dict[str, Any]], data: st.DataObject) -> None:
    first = next(at for at, each in enumerate(chunks) if any(choice["finish_reason"] for choice in each["choices"]))
    seen = chunks[: data.draw(st.integers(0, first))]
    editor = OpenAIChat().stream_editor(META)
    out = editor.feed(encode_sse_chunks(seen) + data.draw(st.sampled_from([b"", b"data: [DONE]\n\n", b'data: {"choices": [{"del'])))
    assert out.count(b"data: ") == len([each for each in seen if each["choices"] or "usage" not in each])
    with pytest.raises(StreamTruncated):
        editor.finish()


CHUNK_TEMPLATES = [
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
CHOICES = [
    *[chunk_choice(content="a")] * 3,
    chunk_choice(content="b"),
    chunk_choice(content='"choices":[]}'),
    chunk_choice(reasoning="c"),
    chunk_choice(content="d"),
    {"text": "e"},
]


@pytest.mark.parametrize("around", CHUNK_TEMPLATES, ids=range(len(CHUNK_TEMPLATES)))
def test_choices_and_surrounding_fields_pass_through_in_any_chunk_layout(around: str) -> None:
    """The editor exploits a layout that repeats from chunk to chunk; they pass through there too."""
    raws: list[str] = []
    for at, each in enumerate([*CHOICES, chunk_choice(0, "stop")]):
        choices = json.dumps([each])
        raws.append(re.sub("%[sd]", lambda gap, at=at, choices=choices: choices if gap[0] == "%s" else str(at), around))
    frames = parse_sse_chunks(edit_stream([f"data: {raw}\n\n".encode() for raw in raws]))
    expected = [json.loads(raw) for raw in raws]
    expected[-4]["choices"] = [chunk_choice(reasoning_content="c")]
    expected[-2]["choices"] = [{"index": 0, "finish_reason": None, "delta": {"role": "assistant", "content": "e"}}]
    for frame, expected_chunk in zip(frames, expected, strict=True):
        assert frame["id"] == META.id and frame["model"] == META.model and frame["episode_id"] == META.episode_id
        assert frame["object"] == "chat.completion.chunk" and frame["created"] == expected_chunk.get("created", META.created)
        kept = {key: value for key, value in frame.items() if key not in (*GATEWAY_KEYS, "object", "created")}
        assert kept == {key: value for key, value in expected_chunk.items() if key not in (*GATEWAY_KEYS, "object", "created")}


@pytest.mark.parametrize("last", [b'{"choices":[{"delta":["reasoning"]}]}', b'{"choices":[{]}', b'{"choices":[],"choices":5}'])
def test_invalid_chunk_after_similar_chunks_is_an_invalid_response(last: bytes) -> None:
    editor = OpenAIChat().stream_editor(META)
    for _ in range(4):
        assert editor.feed(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
    assert not editor.feed(b"data: " + last + b"\n\n")
    assert isinstance(editor.failure, InvalidUpstreamResponse)


def test_partial_frame_after_the_finish_reason_is_ignored() -> None:
    wire = encode_sse_chunks([chunk([chunk_choice(content="Hi")]), chunk([chunk_choice(0, "stop")])])
    assert edit_stream([wire + b'data: {"choices": [], "usa']) == edit_stream([wire])


@pytest.mark.parametrize(
    "before", [[chunk([chunk_choice(content="Hi")])], [chunk([chunk_choice(0, "stop", content="Hi")])]], ids=["open", "finished"]
)
@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"error": {"message": "no memory", "type": "InternalServerError", "param": None, "code": 500}}, UpstreamFailed, "no memory"),
        ({"error": {"message": "bad regex", "type": "BadRequestError", "param": None, "code": 400}}, UpstreamRejected, "bad regex"),
        ({"error": "it broke"}, UpstreamFailed, "it broke"),
        ({"error": {"message": "too long", "http_status_code": 422}}, UpstreamRejected, "too long"),
        ({"object": "error", "message": "queue is full", "type": "x", "param": None, "code": 503}, Overloaded, "queue is full"),
        ({"error": {"message": "slow down", "code": "429"}}, Overloaded, "slow down"),
        ({**chunk([chunk_choice(0, "error")]), "error": {"code": 502, "message": "upstream died"}}, UpstreamFailed, "upstream died"),
    ],
    ids=["vllm", "vllm-400", "transformers", "tgi", "flat", "digits", "openrouter"],
)
def test_stream_error_keeps_the_content_before_it(
    before: list[dict[str, Any]], error: dict[str, Any], kind: type[UpstreamError], message: str
) -> None:
    editor = OpenAIChat().stream_editor(META)
    out = editor.feed(encode_sse_chunks([*before, error]) + b"data: [DONE]\n\n")
    assert [json.loads(data[6:])["choices"] for data in out.split(b"\n\n") if data] == [each["choices"] for each in before]
    assert type(editor.failure) is kind
    assert editor.failure is not None
    assert editor.failure.message == message
    with pytest.raises(kind):
        editor.finish()


@pytest.mark.parametrize("usage_first", [False, True], ids=["usage-last", "usage-first"])
def test_usage_without_a_pending_finish_chunk_is_still_reported(usage_first: bool) -> None:
    counted = chunk([], usage=usage())
    chunks = [chunk([chunk_choice(0, "stop")]), chunk([chunk_choice(1, content="never finished")])]
    frames = parse_sse_chunks(edit_stream([encode_sse_chunks([counted, *chunks] if usage_first else [*chunks, counted])]))
    assert frames[-1]["choices"] == []
    assert frames[-1]["usage"] == usage()
    assert ["usage" in each for each in frames] == [False, False, True]


def test_other_fields_of_the_usage_chunk_are_merged_into_the_finish_chunk() -> None:
    """vLLM sends its fingerprint in this chunk only."""
    chunks = [chunk([chunk_choice(0, "stop", content="a")]), chunk([], usage=usage(), system_fingerprint="vllm-0.32.0")]
    (frame,) = parse_sse_chunks(edit_stream([encode_sse_chunks(chunks)]))
    assert frame["system_fingerprint"] == "vllm-0.32.0"


def test_empty_finish_reason_is_treated_as_absent() -> None:
    chunks = [chunk([{**chunk_choice(content="a"), "finish_reason": ""}]), chunk([chunk_choice(0, "stop")])]
    editor = OpenAIChat().stream_editor(META)
    begun = editor.feed(encode_sse_chunks(chunks[:1] * 5))  # enough chunks alike for the editor to learn a template
    frames = [json.loads(each.removeprefix(b"data: ")) for each in begun.split(b"\n\n") if each]
    assert [each["choices"][0]["finish_reason"] for each in frames] == [None] * 5
    editor.feed(encode_sse_chunks(chunks[1:]))
    editor.finish()
    assert editor.finish_reason == "stop"


def test_reasoning_is_renamed_to_reasoning_content() -> None:
    chunks = [
        chunk([chunk_choice(reasoning="hm", content=None)]),
        chunk([chunk_choice(reasoning="so", reasoning_content="so")]),
        chunk([chunk_choice(0, "stop")]),
    ]
    frames = parse_sse_chunks(edit_stream([encode_sse_chunks(chunks)]))
    assert [each["choices"][0]["delta"] for each in frames] == [
        {"reasoning_content": "hm", "content": None},
        {"reasoning": "so", "reasoning_content": "so"},
        {},
    ]


def test_text_mentioning_reasoning_is_left_unchanged() -> None:
    chunks = [chunk([chunk_choice(content='the key "reasoning" of {"reasoning": 1}')]), chunk([chunk_choice(0, "stop")])]
    assert [each["choices"] for each in parse_sse_chunks(edit_stream([encode_sse_chunks(chunks)]))] == [each["choices"] for each in chunks]


@pytest.mark.parametrize("usage", [b"1", b"[]", b'{"prompt_tokens":[3]}', b'{"prompt_tokens_details":[]}'])
def test_unreadable_usage_is_not_counted_and_does_not_fail_the_stream(usage: bytes) -> None:
    editor = OpenAIChat().stream_editor(META)
    editor.feed(encode_sse_chunks([chunk([chunk_choice(0, "stop")])]))
    for choices in (b"[]", b"null"):
        assert not editor.feed(b'data: {"choices":' + choices + b',"usage":' + usage + b"}\n\n")
    assert editor.failure is None and editor.usage is None and editor.finish_reason == "stop"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"hello",
        b'{"choices":{}}',
        b'{"choices":[1]}',
        b'{"choices":[{"finish_reason":1}]}',
        b'{"choices":[{"delta":["reasoning"]}]}',
        b'{"choices":[],"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=range(9),
)
def test_invalid_chunk_is_an_invalid_upstream_response(data: bytes) -> None:
    editor = OpenAIChat().stream_editor(META)
    first = editor.feed(encode_sse_chunks([chunk([chunk_choice(content="Hi")])]))
    second = editor.feed(b"data: " + data + b"\n\n")
    assert first
    assert not second
    assert isinstance(editor.failure, InvalidUpstreamResponse) or not data


@bounded
@given(
    st.lists(
        st.one_of(st.binary(max_size=30), st.just(b"data: "), st.just(b"\n\n"), st.just(b"\r"), st.just(b'{"choices":[]}')), max_size=8
    )
)
def test_arbitrary_bytes_raise_only_upstream_errors(blocks: list[bytes]) -> None:
    for each in (OpenAIChat().stream_editor(META), OpenAIChat().stream_reader()):
        try:
            for block in blocks:
                each.feed(block)
            each.finish()
        except UpstreamError:
            pass


@pytest.mark.parametrize(
    ("texts", "tokens"),
    [
        ([], 0),
        ([""], 0),
        (["word"], 1),
        (["", *["word "] * 40], 50),
        (["", "word " * 40], 50),
        (list("word " * 40), 50),
        (['"\\\n', "\u4e2d\u6587"], 3),  # three characters that JSON escapes, and two of three bytes
    ],
    ids=["no chunk", "empty chunk", "one word", "a word per chunk", "all in one chunk", "a letter per chunk", "escaped"],
)
def test_output_tokens_are_estimated_by_the_text_however_it_is_cut(texts: list[str], tokens: int) -> None:
    editor = OpenAIChat().stream_editor(META)
    editor.feed(encode_sse_chunks([chunk([chunk_choice(content=text)]) for text in texts]))
    assert editor.written_tokens == tokens
    whole = [{"index": 0, "message": {"role": "assistant", "content": "".join(texts)}}]
    assert written_tokens(msgspec.json.encode(whole)) == tokens, "the same as for the whole response"
