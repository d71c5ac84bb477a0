"""Redaction: no content survives, structure does."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.recording.content.event_frames import complete_frames_bytes
from app.recording.content.redaction import STRUCTURE_KEYS, VERBATIM_KEYS, redact

SECRET = "kingfisher"

secrets = st.one_of(
    st.just(SECRET),
    st.text(max_size=5).map(lambda text: f"{text}{SECRET}{text}"),
    st.just(json.dumps({"city": SECRET, "name": SECRET})),  # tool arguments: JSON in a string
    st.just(f"data: {SECRET}\n\n"),
)
# `name` is a tool's name where a tool is described, and a person's elsewhere; it has tests of its own.
keys = st.one_of(st.sampled_from(sorted(STRUCTURE_KEYS | {"input", "output", "arguments", "text", "user"})), st.text(max_size=8)).filter(
    lambda key: key not in VERBATIM_KEYS and key != "name"
)
values = st.recursive(
    st.one_of(secrets, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=20,
)
documents = st.dictionaries(keys, values, max_size=5)


@given(documents)
def test_no_secret_survives_in_a_document(document: dict[str, Any]) -> None:
    redacted = redact(json.dumps(document).encode())
    assert SECRET.encode() not in redacted
    json.loads(redacted)


@given(st.one_of(documents, st.fixed_dictionaries({"type": st.just("tool_use"), "name": secrets}), values), st.sampled_from([b"", b" "]))
def test_large_document_is_redacted_as_a_small_one(document: Any, before: bytes) -> None:
    raw = before + json.dumps(document).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.recording.content.redaction._LARGE_BYTES", 0)
        in_steps = redact(raw)
    assert in_steps == redact(raw)


@given(st.lists(documents, max_size=4), st.sampled_from([b"\n", b"\r\n"]), st.integers(0, 30))
def test_no_secret_survives_in_a_stream_even_if_truncated(bodies: list[dict[str, Any]], newline: bytes, cut: int) -> None:
    stream = b"".join(b"event: delta" + newline + b"data: " + json.dumps(each).encode() + newline * 2 for each in bodies)
    stream += b"data: [DONE]" + newline * 2 + b": " + SECRET.encode() + newline
    assert SECRET.encode() not in redact(stream[: len(stream) - cut])


@given(st.one_of(st.binary(), st.text().map(str.encode)), st.binary(max_size=20))
def test_non_json_content_is_withheld(before: bytes, after: bytes) -> None:
    assert SECRET.encode() not in redact(before + SECRET.encode() + after)


@settings(max_examples=50)
@given(st.lists(documents, min_size=1, max_size=6), st.data())
def test_stream_redacted_in_pieces_equals_the_stream_redacted_whole(bodies: list[dict[str, Any]], data: st.DataObject) -> None:
    stream = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in bodies)
    seen = data.draw(st.integers(0, len(stream)))
    cut = complete_frames_bytes(stream[:seen])
    assert redact(stream[:cut]) + redact(stream[cut:]) == redact(stream)


def test_structure_and_numbers_are_kept() -> None:
    request = {
        "model": "qwen3-4b",
        "temperature": 0.2,
        "stream": True,
        "user": "jane@example.org",
        "messages": [
            {"role": "user", "name": "Jane", "content": [{"type": "text", "text": "Hello"}]},
            {
                "role": "assistant",
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
        ],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
    }
    assert json.loads(redact(json.dumps(request).encode())) == {
        "model": "qwen3-4b",
        "temperature": 0.2,
        "stream": True,
        "user": "[redacted: 16 characters]",
        "messages": [
            {"role": "user", "name": "[redacted: 4 characters]", "content": [{"type": "text", "text": "[redacted: 5 characters]"}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "[redacted: 7 characters]"}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "[redacted: 4 characters]"},
        ],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": "[redacted: 1 fields]"}}],
    }


def test_anthropic_tool_input_is_redacted_whatever_its_keys() -> None:
    call = {"content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"name": SECRET, "role": SECRET, "id": 7}}]}
    assert json.loads(redact(json.dumps(call).encode())) == {
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": "[redacted: 3 fields]"}]
    }


@pytest.mark.parametrize("key", sorted(VERBATIM_KEYS))
def test_free_text_under_a_kept_key_is_redacted(key: str) -> None:
    assert SECRET.encode() not in redact(json.dumps({key: f"the {SECRET} is blue"}).encode())


def test_redacted_stream_keeps_its_frames() -> None:
    stream = b'event: message_start\ndata: {"type":"message_start","text":"hi"}\n\ndata: [DONE]\n\n'
    assert redact(stream) == (b'event: message_start\ndata: {"type":"message_start","text":"[redacted: 2 characters]"}\n\ndata: [DONE]\n\n')


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"content":' * 100_000, b'{"content":' * 900 + b"1" + b"}" * 900])
def test_deeply_nested_content_never_makes_redaction_fail(deep: bytes) -> None:
    assert redact(deep)
