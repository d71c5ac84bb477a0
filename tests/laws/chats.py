"""Chats in OpenAI chat: requests as callers may make them, answers as engines may give them, cut and framed in every allowed way."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from providers import structured_output
from providers.canonical.chat import (
    Audio,
    ChatRequest,
    ChatResponse,
    Choice,
    Citation,
    Content,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Uploaded,
    Url,
    Usage,
)
from providers.canonical.raw_json import SSEDecoder
from providers.dialect import ResponseMeta

bounded = settings(max_examples=60, deadline=None)

STAMP = ResponseMeta(
    id="01990000-0000-7000-8000-00000000000a",
    episode_id="01990000-0000-7000-8000-00000000000b",
    model="a name",
    created=1_790_000_000,
    wants_usage=True,
)
SILENT = ResponseMeta(STAMP.id, STAMP.episode_id, STAMP.model, STAMP.created, wants_usage=False)

# Half of a surrogate pair is no Unicode text: test_wire.py tries those.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
said = texts.filter(bool)
counts = st.integers(0, 2**40)
reasons = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])
uncounted = st.none() | counts
usages = st.builds(
    Usage,
    input=counts,
    output=counts,
    cached=uncounted,
    reasoning=uncounted,
    cache_written=uncounted,
    audio_input=uncounted,
    audio_output=uncounted,
    image_input=uncounted,
)
entries = st.tuples(texts, st.floats(-20, 0)).map(
    lambda told: Raw(json.dumps({"token": told[0], "logprob": told[1]}, ensure_ascii=False).encode())
)
# What another dialect than OpenAI's mints, and what OpenAI's own hosts do.
foreign_seals = st.builds(OpaqueState, st.sampled_from(["anthropic_messages", "gemini", "openai_responses"]), said)
own_seals = st.builds(OpaqueState, st.just("openai_chat"), said.filter(lambda text: not text.startswith(("nx1.", "{"))))
seals = foreign_seals | own_seals
opaques = st.builds(
    Opaque,
    st.sampled_from(["anthropic_messages", "openai_responses"]),
    st.fixed_dictionaries({"type": st.sampled_from(["redacted_thinking", "web_search_call"]), "data": texts}).map(
        lambda told: Raw(json.dumps(told).encode())
    ),
)
calls = st.builds(ToolCall, id=said, name=said, arguments=texts, custom=st.booleans(), opaque_state=st.none() | seals)


@st.composite
def cited(draw: st.DrawFn) -> Text:
    """A text and the addresses that it rests on, as OpenAI tells them."""
    text = draw(said)
    citations: list[Citation] = []
    for url in draw(st.lists(said, max_size=2)):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start, len(text)))
        inner = {"url": url, "title": "a title", "start_index": start, "end_index": end}
        raw = Raw(msgspec.json.encode({"type": "url_citation", "url_citation": inner}))
        citations.append(Citation("openai_chat", raw, url, "a title", None, start, end))
    return Text(text, tuple(citations))


kinds: dict[type[Part], st.SearchStrategy[Part]] = {Reasoning: st.builds(Reasoning, said), Text: cited(), Refusal: st.builds(Refusal, said)}


@st.composite
def choices(draw: st.DrawFn, thoughts: st.SearchStrategy[list[Part]] | None = None) -> Choice:
    """Parts in the order in which OpenAI chat tells them: it has no other. `thoughts`: what comes before them, sealed or not."""
    parts: list[Part] = draw(thoughts) if thoughts is not None else draw(st.lists(kinds[Reasoning], max_size=1))
    parts += [draw(kinds[kind]) for kind in (Text, Refusal) if draw(st.booleans())]
    parts += draw(st.lists(calls, max_size=3))
    logprobs = draw(st.none() | st.lists(entries, min_size=1, max_size=3).map(tuple))
    reason = draw(reasons)
    if reason == "stop" and draw(st.booleans()):
        return Choice(tuple(parts), reason, logprobs, "stop_sequence", draw(said))
    return Choice(tuple(parts), reason, logprobs)


def whole(choices: st.SearchStrategy[Choice]) -> st.SearchStrategy[ChatResponse]:
    return st.builds(
        ChatResponse,
        choices=st.lists(choices, min_size=1, max_size=3).map(tuple),
        model=st.just(STAMP.model),
        created=st.integers(1, 2**33),
        usage=st.none() | usages,
        system_fingerprint=st.none() | said,
        service_tier=st.sampled_from([None, "default", "scale"]),
    )


answers = whole(choices())


@st.composite
def woven(draw: st.DrawFn) -> Choice:
    """Reasoning that is sealed, blocks of other dialects and texts, in any order, then calls: what `reasoning_details` puts together."""
    sealed = st.builds(Reasoning, texts, seals) | opaques
    parts: list[Part] = []
    for part in draw(st.lists(sealed | kinds[Reasoning] | cited(), max_size=6)):
        if not (isinstance(part, Text) and parts and isinstance(parts[-1], Text)):
            parts.append(part)
    return Choice((*parts, draw(sealed), *draw(st.lists(calls, max_size=2))), draw(reasons))


woven_answers = whole(woven())

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


# Without braces: a call that goes on after its arguments were whole is garbled.
unfinished = texts.filter(lambda text: "}" not in text)
spoken = some_of({"role": st.just("assistant"), "content": st.none() | texts, "reasoning_content": texts})


@st.composite
def deltas(draw: st.DrawFn, begun: set[int]) -> dict[str, Any]:
    """`begun`: the calls of this choice so far, which tell id, type and name once."""
    delta = draw(spoken)
    if draw(st.booleans()):
        delta["tool_calls"] = [draw(fragments(begun)) for _ in range(draw(st.integers(0, 2)))]
    return delta


@st.composite
def fragments(draw: st.DrawFn, begun: set[int]) -> dict[str, Any]:
    index = draw(st.integers(0, 2))
    if index in begun:
        return {"index": index, "function": {"arguments": draw(unfinished)}}
    begun.add(index)
    return {"index": index, "id": draw(said), "type": "function", "function": {"name": draw(said), "arguments": draw(unfinished)}}


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
    growing = {index: set[int]() for index in range(draw(st.integers(1, 3)))}
    while growing:
        index = draw(st.sampled_from(sorted(growing)))
        delta = draw(deltas(growing[index]))
        finish = draw(reasons) if draw(st.integers(0, 2)) == 0 else None
        if finish:
            del growing[index]
        choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": finish, **draw(unknown)}
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
    frames = SSEDecoder()
    datas = frames.feed(out)
    assert frames.finish() == []
    assert datas[-1] == b"[DONE]"
    assert datas.count(b"[DONE]") == 1
    assert out == b"".join(b"data: " + data + b"\n\n" for data in datas)
    return [json.loads(data) for data in datas[:-1]]


# Requests, as OpenAI chat can say them.
names = st.text("abcXYZ_-09", min_size=1, max_size=8)
raws = st.sampled_from([b"1", b"null", b'"x"', b'{"a":[1.50,"b"]}', b"[]"]).map(Raw)
extras = st.dictionaries(st.sampled_from(["x_one", "cache_control", "ttl"]), raws.filter(lambda raw: raw != Raw(b"null")), max_size=2)
call_ids = st.text("abc019", min_size=4, max_size=8)
schemas = st.sampled_from([b'{"type":"object","properties":{"a":{"type":"integer"}}}', b"{}", b'{"type":"object"}']).map(Raw)
data = st.binary(min_size=1, max_size=6).map(lambda raw: base64.b64encode(raw).decode())


def inline(*media_types: str) -> st.SearchStrategy[Inline]:
    return st.builds(Inline, st.sampled_from(media_types), data)


written_texts = st.builds(Text, texts, extra=extras)
images = st.builds(
    Image,
    st.builds(Url, st.just("https://example.com/a.png")) | inline("image/png", "image/jpeg"),
    st.sampled_from([None, "low", "auto"]),
    extras,
)
files = st.builds(
    File,
    inline("application/pdf", "text/plain") | st.builds(Uploaded, st.just("openai"), said),
    st.none() | said,
    extras,
)
recordings = st.builds(Audio, inline("audio/wav", "audio/mp3"), extras)
videos = st.just(Opaque("openai_chat", Raw(b'{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}')))
contents = st.lists(written_texts | images | files | recordings | videos, min_size=1, max_size=4).map(tuple)


@st.composite
def said_by_assistants(draw: st.DrawFn) -> tuple[Content, ...]:
    """As a client gives an answer of ours back, or writes one itself."""
    parts: list[Content] = [*draw(st.lists(st.builds(Reasoning, texts, own_seals) | kinds[Reasoning], max_size=2))]
    if len(parts) > 1 and not any(isinstance(part, Reasoning) and part.opaque_state for part in parts):
        parts.pop()
    parts += draw(st.lists(cited() if draw(st.booleans()) else written_texts, max_size=1))
    parts += draw(st.lists(kinds[Refusal], max_size=1))
    return (*parts, *draw(st.lists(st.builds(ToolCall, call_ids, names, texts, st.booleans(), st.none() | own_seals), max_size=3)))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Every call has its result, and results come in one message."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 4))):
        role: Role = draw(st.sampled_from(["system", "developer", "user", "assistant"]))
        parts = draw(said_by_assistants()) if role == "assistant" else draw(contents)
        messages.append(Message(role, parts, draw(st.none() | names), draw(extras)))
        called = [part for part in parts if isinstance(part, ToolCall)]
        if called:
            given = st.lists(written_texts | images, min_size=1, max_size=2).map(tuple)
            results = {call.id: ToolResult(call.id, draw(given), custom=call.custom, extra=draw(extras)) for call in called}
            custom = {call.id for call in called if call.custom}
            messages.append(Message("user", tuple(replace(result, custom=id in custom) for id, result in results.items())))
    return tuple(messages)


formats = st.sampled_from([None, Raw(b'{"type":"text"}'), Raw(b'{"type":"grammar","syntax":"lark","definition":"start: /a/"}')])
tools = st.lists(
    st.builds(Tool, names, st.none() | texts, st.none() | schemas, st.none() | st.booleans(), extra=extras)
    | st.builds(Tool, names, st.none() | texts, custom=st.just(True), format=formats)
    | st.just(HostTool("openai_chat", "web_search", Raw(b'{"type":"web_search"}'))),
    max_size=3,
    unique_by=lambda tool: getattr(tool, "name", ""),
).map(tuple)
choosing = st.builds(ToolChoice, st.sampled_from(["auto", "none", "required"])) | st.builds(
    ToolChoice, st.sampled_from(["auto", "required"]), allowed=st.lists(names, min_size=1, max_size=2).map(tuple)
)
outputs = st.one_of(
    st.builds(structured_output.JsonObject),
    st.builds(structured_output.JsonSchema, schemas, names, st.none() | texts, st.none() | st.booleans()),
    st.builds(structured_output.Regex, said),
    st.builds(structured_output.Choice, st.lists(said, min_size=1, max_size=3).map(tuple)),
    st.builds(structured_output.Grammar, said),
    st.just(structured_output.StructuralTag('{"type":"structural_tag","format":{"type":"any_text"}}')),
)


@st.composite
def chat_requests(draw: st.DrawFn) -> ChatRequest:
    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    asked = draw(st.booleans())
    return ChatRequest(
        origin="openai_chat",
        model=draw(said),
        messages=() if not asked else draw(conversations()),
        prompt=draw(said) if not asked else None,
        tools=draw(tools),
        tool_choice=maybe(choosing),
        parallel_calls=maybe(st.booleans()),
        output=maybe(outputs),
        thinking=maybe(st.builds(Thinking, effort=st.sampled_from(["none", "low", "xhigh"]))),
        verbosity=maybe(st.sampled_from(["low", "high"])),
        max_tokens=maybe(st.integers(1, 2**31)),
        temperature=maybe(st.sampled_from([0.0, 0.7, 2.0])),
        top_p=maybe(st.sampled_from([0.0, 0.5, 1.0])),
        top_k=maybe(st.integers(-1, 100)),
        seed=maybe(st.integers(-(2**63), 2**63)),
        n=maybe(st.integers(1, 5)),
        stop=draw(st.lists(said, max_size=2).map(tuple)),
        frequency_penalty=maybe(st.sampled_from([-2.0, 0.0, 1.5])),
        presence_penalty=maybe(st.sampled_from([-2.0, 0.0, 1.5])),
        logprobs=maybe(st.booleans()),
        top_logprobs=maybe(st.integers(0, 20)),
        logit_bias=maybe(st.just(Raw(b'{"50256":-100}'))),
        user=maybe(said),
        safety_identifier=maybe(said),
        metadata=maybe(st.dictionaries(names, texts, max_size=2)),
        service_tier=maybe(st.sampled_from(["auto", "flex"])),
        store=maybe(st.booleans()),
        cache_key=maybe(said),
        extra=draw(st.dictionaries(st.sampled_from(["x_one", "min_p", "modalities"]), raws.filter(lambda raw: raw != Raw(b"null")))),
    )
