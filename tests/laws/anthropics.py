"""Requests and answers as Anthropic can say them, as meaning; and its streams, cut and framed in every way that is allowed."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.chat import (
    ChatRequest,
    ChatResponse,
    Choice,
    Citation,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
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
from providers.structured_output import JsonSchema
from tests.laws.chats import STAMP, counts, said, texts, unknown

NAME = "anthropic_messages"

ids = st.text("abcdefghijklmnopqrstuvwxyz_-0123456789", min_size=1, max_size=8)


NO_EXTRA: dict[str, Raw] = {}
NO_COUNTS: dict[str, int] = {}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value, ensure_ascii=False).encode())


objects = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts, max_size=2), max_size=3)
caching = st.sampled_from(
    [NO_EXTRA, {"cache_control": raw({"type": "ephemeral"})}, {"cache_control": raw({"type": "ephemeral", "ttl": "1h"})}]
)


def page_citation(quote: str, title: str) -> Citation:
    told = {"type": "page_location", "cited_text": quote, "document_title": title, "document_index": 0, "start_page_number": 1}
    return Citation(NAME, raw(told), title=title, quote=quote)


page_citations = st.builds(page_citation, texts, said)
own_seals = st.builds(OpaqueState, st.just(NAME), said)
calls = st.builds(ToolCall, id=ids, name=ids, arguments=objects.map(lambda value: json.dumps(value, ensure_ascii=False)))
OPAQUE: list[dict[str, Any]] = [
    {"type": "redacted_thinking", "data": "c2VhbGVk"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {}},
    {"type": "compaction", "content": "in short"},
]
opaque = st.sampled_from([Opaque(NAME, raw(each)) for each in OPAQUE])

images = st.builds(
    Image,
    st.builds(Inline, st.sampled_from(["image/png", "image/jpeg"]), said) | st.builds(Url, said) | st.builds(Uploaded, st.just(NAME), said),
    extra=caching,
)
files = st.builds(
    File,
    st.builds(Inline, st.just("application/pdf"), said)
    | texts.map(lambda text: Inline("text/plain", base64.b64encode(text.encode()).decode()))
    | st.builds(Url, said)
    | st.builds(Uploaded, st.just(NAME), said),
    name=st.none() | said,
    extra=st.just(NO_EXTRA) | st.just({"citations": raw({"enabled": True})}),
)
spoken = st.builds(Text, said, extra=caching)
results = st.builds(
    ToolResult,
    id=ids,
    parts=st.lists(
        spoken | images | files | st.just(Opaque(NAME, raw({"type": "search_result", "source": "s", "title": "t", "content": []}))),
        max_size=3,
    ).map(tuple),
    is_error=st.none() | st.booleans(),
    extra=caching,
)
cited = st.builds(Text, said, st.lists(page_citations, max_size=2).map(tuple))
thoughts = st.builds(Reasoning, texts, own_seals)

from_user = st.tuples(st.lists(results, max_size=2), st.lists(spoken | images | files, min_size=1, max_size=3)).map(
    lambda both: both[0] + both[1]
)
from_assistant = st.lists(thoughts | cited | calls | opaque, min_size=1, max_size=4)
from_system = st.lists(spoken, min_size=1, max_size=2)

tools = st.lists(
    st.builds(
        Tool,
        name=ids,
        description=st.none() | texts,
        parameters=objects.map(raw),
        strict=st.none() | st.booleans(),
        extra=st.just(NO_EXTRA) | st.just({"defer_loading": Raw(b"true")}),
    )
    | st.just(HostTool(NAME, "web_search_20260318", raw({"type": "web_search_20260318", "name": "web_search", "max_uses": 2}))),
    min_size=1,
    max_size=3,
).map(tuple)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Roles take turns; a system message may stand anywhere but at the head, where it is the request's own."""
    messages = [Message("system", tuple(draw(from_system)))] if draw(st.booleans()) else []
    for role in ["user", "assistant"] * draw(st.integers(1, 3)):
        parts = from_user if role == "user" else from_assistant
        messages.append(Message(role, tuple(draw(parts))))  # pyright: ignore[reportArgumentType]
        if draw(st.integers(0, 4)) == 0:
            messages.append(Message("system", tuple(draw(from_system))))
    return tuple(messages)


thinking = st.sampled_from(
    [
        None,
        Thinking("none"),
        Thinking("low"),
        Thinking(adaptive=True),
        Thinking("xhigh", adaptive=True, summary="auto"),
        Thinking(budget_tokens=1024),
        Thinking("high", 2048, summary="omitted"),
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> ChatRequest:
    """What parallel calls depend on is a word beside the choice of tools, so neither is said without the other here."""
    choice = draw(st.sampled_from([None, ToolChoice("auto"), ToolChoice("required"), ToolChoice("named", "f")]))
    return ChatRequest(
        origin=NAME,
        model=draw(said),
        messages=draw(conversations()),
        tools=draw(tools),
        tool_choice=choice,
        parallel_calls=None if choice is None else draw(st.none() | st.booleans()),
        output=draw(st.none() | objects.map(lambda schema: JsonSchema(raw(schema)))),
        thinking=draw(thinking),
        max_tokens=draw(st.integers(0, 2**20)),
        temperature=draw(st.none() | st.floats(0, 1)),
        top_p=draw(st.none() | st.floats(0, 1)),
        top_k=draw(st.none() | st.integers(0, 500)),
        stop=tuple(draw(st.lists(said, max_size=3))),
        user=draw(st.none() | said),
        service_tier=draw(st.sampled_from([None, "auto", "default", "new"])),
        extra=draw(st.just(NO_EXTRA) | st.just({"container": raw("c_1"), "speed": raw("fast")})),
    )


# What engines of other dialects put into an answer, and Anthropic's callers carry for them.
foreign_seals = st.builds(OpaqueState, st.sampled_from(["gemini", "openai_responses"]), said)
foreign_citations = st.builds(
    Citation,
    origin=st.just("openai_responses"),
    raw=objects.map(raw),
    url=said,
    title=st.none() | said,
    quote=st.none() | said,
    start=st.none() | counts,
    end=st.none() | counts,
)
foreign_opaque = said.map(lambda data: Opaque("openai_responses", raw({"type": "web_search_call", "id": data})))


@st.composite
def answers(draw: st.DrawFn) -> ChatResponse:
    """Every part that an answer to a caller of Anthropic's may hold, whoever made it; calls have ids of their own."""
    parts: list[Part] = draw(
        st.lists(
            st.builds(Text, texts, st.lists(page_citations | foreign_citations, max_size=2).map(tuple))
            | st.builds(Reasoning, texts, st.none() | own_seals | foreign_seals)
            | opaque
            | foreign_opaque
            | st.builds(
                ToolCall, id=ids, name=ids, arguments=calls.map(lambda call: call.arguments), opaque_state=st.none() | foreign_seals
            ),
            max_size=4,
        )
    )
    unique = {part.id if isinstance(part, ToolCall) else f" {at}": part for at, part in enumerate(parts)}
    called = any(isinstance(part, ToolCall) for part in parts)
    ends: list[tuple[str, str | None, str | None]] = [
        ("stop", "stop_sequence", "END"),
        ("stop", "pause_turn", None),
        ("length", None, None),
        ("length", "model_context_window_exceeded", None),
        ("content_filter", "refusal", None),
        ("tool_calls", None, None) if called else ("stop", None, None),
    ]
    reason, told, sequence = draw(st.sampled_from(ends))
    plain, cached, made = draw(counts), draw(st.none() | st.integers(0, 99)), draw(st.none() | st.integers(0, 99))
    hour = None if made is None else draw(st.none() | st.integers(0, made))
    tier = draw(st.sampled_from([None, "default", "priority"]))
    usage = Usage(
        input=plain + (cached or 0) + (made or 0),
        output=draw(counts),
        cached=cached,
        reasoning=draw(st.none() | counts),
        cache_written=made,
        cache_written_hour=hour,
        tier="priority" if tier == "priority" else None,
    )
    choice = Choice(tuple(unique.values()), reason, upstream_finish_reason=told, stop_sequence=sequence)
    return ChatResponse((choice,), STAMP.model, usage=usage, service_tier=tier)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def start(**more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    head: dict[str, Any] = {"id": "msg_theirs", "type": "message", "role": "assistant", "model": "theirs", "content": []}
    return event("message_start", message={**head, "stop_reason": None, "stop_sequence": None, "usage": usage, **more})


def end(stop_reason: str = "end_turn", **usage: int) -> dict[str, Any]:
    return event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage={"output_tokens": 4, **usage})


def block(index: int, content_block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    grown = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return [event("content_block_start", index=index, content_block=content_block), *grown, event("content_block_stop", index=index)]


def text(*pieces: str) -> tuple[dict[str, Any], ...]:
    return {"type": "text", "text": ""}, *[{"type": "text_delta", "text": piece} for piece in pieces]


STOP = event("message_stop")


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The events of one answer of an engine, with whatever it adds to them."""
    events: list[dict[str, Any]] = [start(**draw(unknown))]
    for index in range(draw(st.integers(0, 3))):
        pieces = draw(st.lists(texts, max_size=3))
        kind = draw(st.sampled_from(["text", "thinking", "tool_use", "server_tool_use"]))
        if kind == "text":
            grown = block(index, *text(*pieces))
        elif kind == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            signed = {"type": "signature_delta", "signature": "sig"}
            grown = block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)
        else:
            written = json.dumps({"a": pieces})
            cut = draw(st.integers(0, len(written)))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", written[:cut], written[cut:])]
            grown = block(index, {"type": kind, "id": f"toolu_{index}", "name": "f", "input": {}}, *deltas)
        events += [{**each, **draw(unknown)} for each in grown]
        if draw(st.booleans()):
            events.append(event("ping"))
    reason = draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn", "something_new"]))
    events.append(end(reason, **draw(st.just(NO_COUNTS) | st.just({"input_tokens": 5, "cache_read_input_tokens": 2}))))
    return [*events, STOP]


@st.composite
def wires(draw: st.DrawFn, events: Sequence[dict[str, Any]]) -> bytes:
    """The events as server-sent events, in any of the ways in which the standard lets one write them."""
    newline = draw(st.sampled_from([b"\n", b"\r\n"]))
    out: list[bytes] = []
    for each in events:
        written = json.dumps(each, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1]))).encode()
        named = b"event: " + each["type"].encode() + newline if draw(st.integers(0, 3)) else b""
        out.append(named + newline.join(b"data: " + line for line in written.split(b"\n")) + newline * 2)
    if draw(st.booleans()):
        out.append(b"data: [DONE]" + newline * 2)
    return b"".join(out)


def plain(events: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


def told(out: bytes) -> list[dict[str, Any]]:
    """The events that a caller got; each must name itself in the line before its data, for by that the official SDKs read it."""
    *frames, rest = out.split(b"\n\n")
    assert rest == b""
    events: list[dict[str, Any]] = []
    for each in frames:
        head, data = each.split(b"\n")
        assert data.startswith(b"data: ")
        events.append(json.loads(data[6:]))
        assert head == b"event: " + events[-1]["type"].encode()
    return events
