"""A stream that goes on elsewhere reads as if it had never broken off, wherever it did."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.response_translation.resumable_stream import ResumableStream, ends_with_part_of
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CHAT_DIALECTS
from tests.support.scripted_engine import chunk

META = ResponseMeta("id", "episode", "model", 1, True, {})
TEXT = st.text(st.sampled_from(" \nabc"), min_size=1, max_size=30)


def event(body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def stream_of(text: str, *, ends: bool) -> bytes:
    frames = [event(chunk({"role": "assistant", "content": ""})), *(event(chunk({"content": character})) for character in text)]
    return b"".join([*frames, event(chunk({}, "stop")), b"data: [DONE]\n\n"] if ends else frames)


def text_of(written: bytes) -> str:
    frames = [json.loads(line[6:]) for line in written.splitlines() if line.startswith(b"data: {")]
    return "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames if frame["choices"])


@given(TEXT, st.lists(st.integers(0, 30), max_size=3))
def test_text_is_whole_wherever_it_broke_off(text: str, cuts: list[int]):
    """The engine goes on with the very text that it is given, which has no white space at its end."""
    dialect = CHAT_DIALECTS["openai_chat"]
    stream = ResumableStream(dialect, continues_prompt=False)
    written = b""
    prefix = ""
    for cut in cuts:
        stream.open(dialect, META)
        part = text[len(prefix) : max(cut, len(prefix))]
        written += stream.feed(stream_of(part, ends=False))
        stream.is_sent = True
        assert stream.may_resume and stream.text() == text_of(written)
        stream.break_off()
        prefix = stream.prefix()
        assert text.startswith(prefix)
    stream.open(dialect, META)
    written += stream.feed(stream_of(text[len(prefix) :], ends=True))
    written += stream.finish()
    assert text_of(written) == text and stream.failure is None and not stream.may_resume
    assert written.count(b'"finish_reason":"stop"') + written.count(b'"finish_reason": "stop"') == 1


def test_part_of_a_stop_string():
    assert ends_with_part_of("One ST", ["STOP"]) and ends_with_part_of("a\n", ["\n\n"])
    assert not ends_with_part_of("One", ["STOP"]) and not ends_with_part_of("STOP", ["STOP"]) and not ends_with_part_of("", ["x"])
