"""Anthropic Messages: requests and responses that it can express, and its streams, split and framed in every allowed way."""

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
from providers.canonical.output_format import JsonSchema
from tests.support.strategies.chat_strategies import META, counts, nonempty_texts, texts, unknown_fields

NAME = "anthropic_messages"

ids = st.text("abcdefghijklmnopqrstuvwxyz_-0123456789", min_size=1, max_size=8)

NO_EXTRA: dict[str, Raw] = {}
NO_COUNTS: dict[str, int] = {}


def raw_json(value: Any) -> Raw:
    return Raw(json.dumps(value, ensure_ascii=False).encode())


json_objects = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts, max_size=2), max_size=3)
cache_hints = st.sampled_from(
    [NO_EXTRA, {"cache_control": raw_json({"type": "ephemeral"})}, {"cache_control": raw_json({"type": "ephemeral", "ttl": "1h"})}]
)


def page_citation(quote: str, title: str) -> Citation:
    block = {"type": "page_location", "cited_text": quote, "document_title": title, "document_index": 0, "start_page_number": 1}
    return Citation(NAME, raw_json(block), title=title, quote=quote)


page_citations = st.builds(page_citation, texts, nonempty_texts)
own_opaque_states = st.builds(OpaqueState, st.just(NAME), nonempty_texts)
tool_calls = st.builds(ToolCall, id=ids, name=ids, arguments=json_objects.map(lambda value: json.dumps(value, ensure_ascii=False)))
OPAQUE_BLOCKS: list[dict[str, Any]] = [
    {"type": "redacted_thinking", "data": "c2VhbGVk"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "u"}]},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {}},
    {"type": "compaction", "content": "in short"},
]
opaque_parts = st.sampled_from([Opaque(NAME, raw_json(each)) for each in OPAQUE_BLOCKS])

images = st.builds(
    Image,
    st.builds(Inline, st.sampled_from(["image/png", "image/jpeg"]), nonempty_texts)
    | st.builds(Url, nonempty_texts)
    | st.builds(Uploaded, st.just(NAME), nonempty_texts),
    extra=cache_hints,
)
files = st.builds(
    File,
    st.builds(Inline, st.just("application/pdf"), nonempty_texts)
    | texts.map(lambda text: Inline("text/plain", base64.b64encode(text.encode()).decode()))
    | st.builds(Url, nonempty_texts)
    | st.builds(Uploaded, st.just(NAME), nonempty_texts),
    name=st.none() | nonempty_texts,
    extra=st.just(NO_EXTRA) | st.just({"citations": raw_json({"enabled": True})}),
)
text_parts = st.builds(Text, nonempty_texts, extra=cache_hints)
tool_results = st.builds(
    ToolResult,
    id=ids,
    parts=st.lists(
        text_parts
        | images
        | files
        | st.just(Opaque(NAME, raw_json({"type": "search_result", "source": "s", "title": "t", "content": []}))),
        max_size=3,
    ).map(tuple),
    is_error=st.none() | st.booleans(),
    extra=cache_hints,
)
cited_texts = st.builds(Text, nonempty_texts, st.lists(page_citations, max_size=2).map(tuple))
reasoning_parts = st.builds(Reasoning, texts, own_opaque_states)

user_parts = st.tuples(st.lists(tool_results, max_size=2), st.lists(text_parts | images | files, min_size=1, max_size=3)).map(
    lambda both: both[0] + both[1]
)
assistant_parts = st.lists(reasoning_parts | cited_texts | tool_calls | opaque_parts, min_size=1, max_size=4)
system_parts = st.lists(text_parts, min_size=1, max_size=2)

tools = st.lists(
    st.builds(
        Tool,
        name=ids,
        description=st.none() | texts,
        parameters=json_objects.map(lambda schema: raw_json({**schema, "type": "object"})),
        strict=st.none() | st.booleans(),
        extra=st.just(NO_EXTRA) | st.just({"defer_loading": Raw(b"true")}),
    )
    | st.just(HostTool(NAME, "web_search_20260318", raw_json({"type": "web_search_20260318", "name": "web_search", "max_uses": 2}))),
    min_size=1,
    max_size=3,
).map(tuple)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Roles alternate. A system message at the head is the request's own `system`; others may follow any message."""
    messages = [Message("system", tuple(draw(system_parts)))] if draw(st.booleans()) else []
    for role in ["user", "assistant"] * draw(st.integers(1, 3)):
        parts = user_parts if role == "user" else assistant_parts
        messages.append(Message(role, tuple(draw(parts))))  # pyright: ignore[reportArgumentType]
        if draw(st.integers(0, 4)) == 0:
            messages.append(Message("system", tuple(draw(system_parts))))
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
    """Anthropic states `parallel_calls` within the tool choice, so it is set only where there is one."""
    choice = draw(st.sampled_from([None, ToolChoice("auto"), ToolChoice("required"), ToolChoice("named", "f")]))
    return ChatRequest(
        origin=NAME,
        model=draw(nonempty_texts),
        messages=draw(conversations()),
        tools=draw(tools),
        tool_choice=choice,
        parallel_calls=None if choice is None else draw(st.none() | st.booleans()),
        output=draw(st.none() | json_objects.map(lambda schema: JsonSchema(raw_json(schema)))),
        thinking=draw(thinking),
        max_tokens=draw(st.integers(0, 2**20)),
        temperature=draw(st.none() | st.floats(0, 1)),
        top_p=draw(st.none() | st.floats(0, 1)),
        top_k=draw(st.none() | st.integers(0, 500)),
        stop=tuple(draw(st.lists(nonempty_texts, max_size=3))),
        user=draw(st.none() | nonempty_texts),
        service_tier=draw(st.sampled_from([None, "auto", "default", "new"])),
        extra=draw(st.just(NO_EXTRA) | st.just({"container": raw_json("c_1"), "speed": raw_json("fast")})),
    )


# Parts of a response from engines of other dialects, which Anthropic's callers carry for them.
foreign_opaque_states = st.builds(OpaqueState, st.sampled_from(["gemini", "openai_responses"]), nonempty_texts)
foreign_citations = st.builds(
    Citation,
    origin=st.just("openai_responses"),
    raw=json_objects.map(raw_json),
    url=nonempty_texts,
    title=st.none() | nonempty_texts,
    quote=st.none() | nonempty_texts,
    start=st.none() | counts,
    end=st.none() | counts,
)
foreign_opaque_parts = nonempty_texts.map(lambda data: Opaque("openai_responses", raw_json({"type": "web_search_call", "id": data})))


@st.composite
def chat_responses(draw: st.DrawFn) -> ChatResponse:
    """Every part that a response to an Anthropic caller may hold, whichever engine made it; calls have unique ids."""
    parts: list[Part] = draw(
        st.lists(
            st.builds(Text, texts, st.lists(page_citations | foreign_citations, max_size=2).map(tuple))
            | st.builds(Reasoning, texts, st.none() | own_opaque_states | foreign_opaque_states)
            | opaque_parts
            | foreign_opaque_parts
            | st.builds(
                ToolCall,
                id=ids,
                name=ids,
                arguments=tool_calls.map(lambda call: call.arguments),
                opaque_state=st.none() | foreign_opaque_states,
            ),
            max_size=4,
        )
    )
    unique = {part.id if isinstance(part, ToolCall) else f" {at}": part for at, part in enumerate(parts)}
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    finishes: list[tuple[str, str | None, str | None]] = [
        ("stop", "stop_sequence", "END"),
        ("stop", "pause_turn", None),
        ("length", None, None),
        ("length", "model_context_window_exceeded", None),
        ("content_filter", "refusal", None),
        ("tool_calls", None, None) if has_calls else ("stop", None, None),
    ]
    reason, upstream_finish_reason, sequence = draw(st.sampled_from(finishes))
    plain, cached, cache_written = draw(counts), draw(st.none() | st.integers(0, 99)), draw(st.none() | st.integers(0, 99))
    cache_written_hour = None if cache_written is None else draw(st.none() | st.integers(0, cache_written))
    tier = draw(st.sampled_from([None, "default", "priority"]))
    usage = Usage(
        input=plain + (cached or 0) + (cache_written or 0),
        output=draw(counts),
        cached=cached,
        reasoning=draw(st.none() | counts),
        cache_written=cache_written,
        cache_written_hour=cache_written_hour,
        tier="priority" if tier == "priority" else None,
    )
    choice = Choice(tuple(unique.values()), reason, upstream_finish_reason=upstream_finish_reason, stop_sequence=sequence)
    return ChatResponse((choice,), META.model, usage=usage, service_tier=tier)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def message_start(**more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    head: dict[str, Any] = {"id": "msg_theirs", "type": "message", "role": "assistant", "model": "theirs", "content": []}
    return event("message_start", message={**head, "stop_reason": None, "stop_sequence": None, "usage": usage, **more})


def message_delta(stop_reason: str = "end_turn", **usage: int) -> dict[str, Any]:
    return event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage={"output_tokens": 4, **usage})


def block_events(index: int, content_block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    grown = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return [event("content_block_start", index=index, content_block=content_block), *grown, event("content_block_stop", index=index)]


def text_block(*pieces: str) -> tuple[dict[str, Any], ...]:
    return {"type": "text", "text": ""}, *[{"type": "text_delta", "text": piece} for piece in pieces]


MESSAGE_STOP = event("message_stop")


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The events of one engine response, with the fields that the engine adds."""
    events: list[dict[str, Any]] = [message_start(**draw(unknown_fields))]
    for index in range(draw(st.integers(0, 3))):
        pieces = draw(st.lists(texts, max_size=3))
        kind = draw(st.sampled_from(["text", "thinking", "tool_use", "server_tool_use"]))
        if kind == "text":
            grown = block_events(index, *text_block(*pieces))
        elif kind == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            signed = {"type": "signature_delta", "signature": "sig"}
            grown = block_events(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed)
        else:
            written = json.dumps({"a": pieces})
            cut = draw(st.integers(0, len(written)))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", written[:cut], written[cut:])]
            grown = block_events(index, {"type": kind, "id": f"toolu_{index}", "name": "f", "input": {}}, *deltas)
        events += [{**each, **draw(unknown_fields)} for each in grown]
        if draw(st.booleans()):
            events.append(event("ping"))
    reason = draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn", "something_new"]))
    events.append(message_delta(reason, **draw(st.just(NO_COUNTS) | st.just({"input_tokens": 5, "cache_read_input_tokens": 2}))))
    return [*events, MESSAGE_STOP]


@st.composite
def sse_encodings(draw: st.DrawFn, events: Sequence[dict[str, Any]]) -> bytes:
    """The events as server-sent events, in any form that the standard allows."""
    newline = draw(st.sampled_from([b"\n", b"\r\n"]))
    out: list[bytes] = []
    for each in events:
        written = json.dumps(each, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1]))).encode()
        named = b"event: " + each["type"].encode() + newline if draw(st.integers(0, 3)) else b""
        out.append(named + newline.join(b"data: " + line for line in written.split(b"\n")) + newline * 2)
    if draw(st.booleans()):
        out.append(b"data: [DONE]" + newline * 2)
    return b"".join(out)


def encode_sse(events: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


def parse_sse_events(sse: bytes) -> list[dict[str, Any]]:
    """The events that a caller received. Each must be named in the line before its data: the official SDKs go by that name."""
    *frames, rest = sse.split(b"\n\n")
    assert rest == b""
    events: list[dict[str, Any]] = []
    for each in frames:
        head, data = each.split(b"\n")
        assert data.startswith(b"data: ")
        events.append(json.loads(data[6:]))
        assert head == b"event: " + events[-1]["type"].encode()
    return events
