"""Answers in OpenAI chat as an engine may give them, whole and streamed, cut and framed in every way that is allowed."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from msgspec import Raw

from providers.chat import ChatResponse, Choice, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.dialect import Stamp
from providers.wire import Frames

bounded = settings(max_examples=60, deadline=None)

STAMP = Stamp(
    id="01990000-0000-7000-8000-00000000000a",
    episode_id="01990000-0000-7000-8000-00000000000b",
    model="a name",
    created=1_790_000_000,
    wants_usage=True,
)
SILENT = Stamp(STAMP.id, STAMP.episode_id, STAMP.model, STAMP.created, wants_usage=False)

# Half of a surrogate pair is no Unicode text: test_wire.py tries those.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
said = texts.filter(bool)
counts = st.integers(0, 2**40)
reasons = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])
usages = st.builds(Usage, input=counts, output=counts, cached=st.none() | counts, reasoning=st.none() | counts)
calls = st.builds(ToolCall, id=said, name=said, arguments=texts)
entries = st.tuples(texts, st.floats(-20, 0)).map(
    lambda told: Raw(json.dumps({"token": told[0], "logprob": told[1]}, ensure_ascii=False).encode())
)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Parts in the order in which OpenAI chat tells them: it has no other."""
    parts: list[Part] = [kind(draw(said)) for kind in (Reasoning, Text, Refusal) if draw(st.booleans())]
    parts += draw(st.lists(calls, max_size=3))
    logprobs = draw(st.none() | st.lists(entries, min_size=1, max_size=3).map(tuple))
    return Choice(tuple(parts), draw(reasons), logprobs)


answers = st.builds(
    ChatResponse,
    choices=st.lists(choices(), min_size=1, max_size=3).map(tuple),
    model=st.just(STAMP.model),
    created=st.integers(1, 2**33),
    usage=st.none() | usages,
    system_fingerprint=st.none() | said,
    service_tier=st.none() | said,
)

# What engines add to chunks, choices and deltas: it must come through as it is, numbers and all.
unknown = st.dictionaries(
    st.sampled_from(["x_groq", "stop_reason", "citations", "ümlaut", "obfuscation", "token_ids"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def some_of(keys: dict[str, st.SearchStrategy[Any]], *, always: dict[str, st.SearchStrategy[Any]] | None = None) -> Any:
    """Objects that have any of the keys, and `always` those."""
    return st.fixed_dictionaries(always or {}, optional=keys)


fragments = some_of(
    {"id": said, "type": st.just("function"), "function": some_of({"arguments": texts})}, always={"index": st.integers(0, 2)}
)
deltas = some_of(
    {
        "role": st.just("assistant"),
        "content": st.none() | texts,
        "reasoning_content": texts,
        "tool_calls": st.lists(fragments, max_size=2),
    }
)


def chunk(choices: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "theirs"}
    return {**head, "choices": list(choices), **more}


def piece(index: int = 0, finish_reason: str | None = None, /, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish_reason}


def usage(input: int = 3, output: int = 4) -> dict[str, int]:
    return {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}


@st.composite
def streams(draw: st.DrawFn, counted: bool = True) -> list[dict[str, Any]]:
    """The chunks of one answer. Choices grow and finish in any order; usage comes in one of the ways that engines have.

    Ways: after the rest in a chunk of its own; on every chunk; on the last finishing one; in a chunk that says no more (OpenRouter).
    """
    chunks: list[dict[str, Any]] = [chunk([], prompt_filter_results=[{"prompt_index": 0}])] if draw(st.booleans()) else []
    unfinished = list(range(draw(st.integers(1, 3))))
    while unfinished:
        index = draw(st.sampled_from(unfinished))
        finish = draw(reasons) if draw(st.integers(0, 2)) == 0 else None
        if finish:
            unfinished.remove(index)
        choice: dict[str, Any] = {"index": index, "delta": draw(deltas), "finish_reason": finish, **draw(unknown)}
        chunks.append(chunk([choice], **draw(unknown)))
    if counted:
        way = draw(st.sampled_from(["own", "continuous", "finish", "trailing"]))
        if way == "continuous":
            for output, each in enumerate(chunks):
                each["usage"] = usage(3, output)
        if way == "finish":
            chunks[-1]["usage"] = usage()
        else:
            chunks.append(chunk([piece(content="")] if way == "trailing" else [], usage=usage()))
    return chunks


@st.composite
def wires(draw: st.DrawFn, chunks: Sequence[dict[str, Any]]) -> bytes:
    """The chunks as server-sent events, in any of the ways in which the standard lets one write them."""
    newline = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    out: list[bytes] = []
    for each in chunks:
        if draw(st.integers(0, 3)) == 0:
            out.append(draw(st.sampled_from([b": ping", b"event: message", b"id: 1", b"retry: 10", b"data:"])) + newline * 2)
        raw = json.dumps(each, ensure_ascii=draw(st.booleans())).encode()
        if draw(st.integers(0, 3)) == 0:
            raw = json.dumps(each, indent=1).encode()
        prefix = draw(st.sampled_from([b"data: ", b"data:"]))
        out.append(newline.join(prefix + line for line in raw.split(b"\n")) + newline * 2)
    if draw(st.booleans()):
        out.append(b"data: [DONE]" + newline * 2)
    whole = b"".join(out)
    return whole[: -draw(st.integers(0, 2)) * len(newline) or None]


@st.composite
def cuts(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    places = sorted(draw(st.sets(st.integers(0, len(whole)), max_size=12)))
    return [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]


def told(out: bytes) -> list[dict[str, Any]]:
    """The frames that a caller got; they must be as plainly framed as the official SDKs need, and end with [DONE]."""
    frames = Frames()
    datas = frames.feed(out)
    assert frames.end() == []
    assert datas[-1] == b"[DONE]"
    assert datas.count(b"[DONE]") == 1
    assert out == b"".join(b"data: " + data + b"\n\n" for data in datas)
    return [json.loads(data) for data in datas[:-1]]
