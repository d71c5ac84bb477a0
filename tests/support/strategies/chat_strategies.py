"""OpenAI chat: requests as callers may write them, and responses as engines may send them, split and framed in every allowed way."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical import output_format
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
from providers.canonical.output_format import Grammar, JsonObject, JsonSchema, Regex, StructuralTag
from providers.canonical.sse import SSEDecoder
from providers.dialect import ResponseMeta

# No limit on wall time: a busy machine must not fail a property.
bounded = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

META = ResponseMeta(
    id="01990000-0000-7000-8000-00000000000a",
    episode_id="01990000-0000-7000-8000-00000000000b",
    model="a name",
    created=1_790_000_000,
    wants_usage=True,
)
META_WITHOUT_USAGE = ResponseMeta(META.id, META.episode_id, META.model, META.created, wants_usage=False)

# Half of a surrogate pair is not Unicode text; tests/unit/canonical/test_raw_json.py covers it.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
nonempty_texts = texts.filter(bool)
counts = st.integers(0, 2**40)
reasons = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])
optional_counts = st.none() | counts
usages = st.builds(
    Usage,
    input=counts,
    output=counts,
    cached=optional_counts,
    reasoning=optional_counts,
    cache_written=optional_counts,
    audio_input=optional_counts,
    audio_output=optional_counts,
    image_input=optional_counts,
)
logprob_entries = st.tuples(texts, st.floats(-20, 0)).map(
    lambda entry: Raw(json.dumps({"token": entry[0], "logprob": entry[1]}, ensure_ascii=False).encode())
)
# Opaque state of other dialects, and of OpenAI's own hosts.
foreign_opaque_states = st.builds(OpaqueState, st.sampled_from(["anthropic_messages", "gemini", "openai_responses"]), nonempty_texts)
own_opaque_states = st.builds(OpaqueState, st.just("openai_chat"), nonempty_texts.filter(lambda text: not text.startswith(("nx1.", "{"))))
opaque_states = foreign_opaque_states | own_opaque_states
opaque_parts = st.builds(
    Opaque,
    st.sampled_from(["anthropic_messages", "openai_responses"]),
    st.fixed_dictionaries({"type": st.sampled_from(["redacted_thinking", "web_search_call"]), "data": texts}).map(
        lambda block: Raw(json.dumps(block).encode())
    ),
)


def has_written_arguments(call: ToolCall) -> bool:
    """Returns whether its arguments are read as they are.

    Blank arguments of a function are read as `{}`, which test_loose_responses.py covers.
    """
    return call.custom or bool(call.arguments.strip())


tool_calls = st.builds(
    ToolCall, id=nonempty_texts, name=nonempty_texts, arguments=texts, custom=st.booleans(), opaque_state=st.none() | opaque_states
).filter(has_written_arguments)


@st.composite
def cited_texts(draw: st.DrawFn) -> Text:
    """A text with URL citations, as OpenAI writes them."""
    text = draw(nonempty_texts)
    citations: list[Citation] = []
    for url in draw(st.lists(nonempty_texts, max_size=2)):
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start, len(text)))
        inner = {"url": url, "title": "a title", "start_index": start, "end_index": end}
        raw = Raw(msgspec.json.encode({"type": "url_citation", "url_citation": inner}))
        citations.append(Citation("openai_chat", raw, url, "a title", None, start, end))
    return Text(text, tuple(citations))


part_strategies: dict[type[Part], st.SearchStrategy[Part]] = {
    Reasoning: st.builds(Reasoning, nonempty_texts),
    Text: cited_texts(),
    Refusal: st.builds(Refusal, nonempty_texts),
}


@st.composite
def choices(draw: st.DrawFn, reasoning_parts: st.SearchStrategy[list[Part]] | None = None) -> Choice:
    """Parts in the only order that OpenAI chat has. `reasoning_parts` come before them, with or without opaque state."""
    parts: list[Part] = draw(reasoning_parts) if reasoning_parts is not None else draw(st.lists(part_strategies[Reasoning], max_size=1))
    parts += [draw(part_strategies[kind]) for kind in (Text, Refusal) if draw(st.booleans())]
    parts += draw(st.lists(tool_calls, max_size=3))
    logprobs = draw(st.none() | st.lists(logprob_entries, min_size=1, max_size=3).map(tuple))
    reason = draw(reasons)
    if reason == "stop" and draw(st.booleans()):
        return Choice(tuple(parts), reason, logprobs, "stop_sequence", draw(nonempty_texts))
    return Choice(tuple(parts), reason, logprobs)


def responses_with(choices: st.SearchStrategy[Choice]) -> st.SearchStrategy[ChatResponse]:
    return st.builds(
        ChatResponse,
        choices=st.lists(choices, min_size=1, max_size=3).map(tuple),
        model=st.just(META.model),
        created=st.integers(1, 2**33),
        usage=st.none() | usages,
        system_fingerprint=st.none() | nonempty_texts,
        service_tier=st.sampled_from([None, "default", "scale"]),
    )


def is_answer(response: ChatResponse) -> bool:
    """Returns whether a host that sent this response has answered.

    An empty response without usage is no answer, unless it was cut off or filtered.
    """
    if response.usage is not None and (response.usage.input or response.usage.output):
        return True
    return any(choice.parts or choice.finish_reason in ("length", "content_filter") for choice in response.choices)


chat_responses = responses_with(choices()).filter(is_answer)


@st.composite
def interleaved_choices(draw: st.DrawFn) -> Choice:
    """Reasoning with opaque state, blocks of other dialects and texts in any order, then calls: what `reasoning_details` can hold."""
    opaque_reasoning = st.builds(Reasoning, texts, opaque_states) | opaque_parts
    parts: list[Part] = []
    for part in draw(st.lists(opaque_reasoning | part_strategies[Reasoning] | cited_texts(), max_size=6)):
        if not (isinstance(part, Text) and parts and isinstance(parts[-1], Text)):
            parts.append(part)
    return Choice((*parts, draw(opaque_reasoning), *draw(st.lists(tool_calls, max_size=2))), draw(reasons))


interleaved_responses = responses_with(interleaved_choices())

# Fields that engines add to chunks, choices and deltas. They must pass unchanged, including their numbers.
unknown_fields = st.dictionaries(
    st.sampled_from(["x_groq", "stop_reason", "citations", "ümlaut", "obfuscation", "token_ids"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def some_of(keys: dict[str, st.SearchStrategy[Any]], *, always: dict[str, st.SearchStrategy[Any]] | None = None) -> Any:
    """Objects with any of the keys, and with all keys of `always`."""
    return st.fixed_dictionaries(always or {}, optional=keys)


# Without braces: a call that continues after its arguments are complete is invalid.
partial_arguments = texts.filter(lambda text: "}" not in text)
message_deltas = some_of({"role": st.just("assistant"), "content": st.none() | texts, "reasoning_content": texts})


@st.composite
def deltas(draw: st.DrawFn, started_calls: set[int]) -> dict[str, Any]:
    """A delta of a choice, whose calls so far are `started_calls`. Only the first fragment of a call has id, type and name."""
    delta = draw(message_deltas)
    if draw(st.booleans()):
        delta["tool_calls"] = [draw(tool_call_fragments(started_calls)) for _ in range(draw(st.integers(0, 2)))]
    return delta


@st.composite
def tool_call_fragments(draw: st.DrawFn, started_calls: set[int]) -> dict[str, Any]:
    index = draw(st.integers(0, 2))
    if index in started_calls:
        return {"index": index, "function": {"arguments": draw(partial_arguments)}}
    started_calls.add(index)
    return {
        "index": index,
        "id": draw(nonempty_texts),
        "type": "function",
        "function": {"name": draw(nonempty_texts), "arguments": draw(partial_arguments)},
    }


def chunk(choices: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "theirs"}
    return {**head, "choices": list(choices), **more}


def chunk_choice(index: int = 0, finish_reason: str | None = None, /, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish_reason}


def usage(input: int = 3, output: int = 4) -> dict[str, int]:
    return {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}


@st.composite
def streams(draw: st.DrawFn, with_usage: bool = True) -> list[dict[str, Any]]:
    """The chunks of one response. Choices grow and finish in any order; usage comes in one of the ways that engines have.

    Ways: last, in a chunk of its own; on every chunk; on the chunk that finishes last; in a last chunk with empty content (OpenRouter).
    """
    chunks: list[dict[str, Any]] = [chunk([], prompt_filter_results=[{"prompt_index": 0}])] if draw(st.booleans()) else []
    unfinished_choices = {index: set[int]() for index in range(draw(st.integers(1, 3)))}
    while unfinished_choices:
        index = draw(st.sampled_from(sorted(unfinished_choices)))
        delta = draw(deltas(unfinished_choices[index]))
        finish = draw(reasons) if draw(st.integers(0, 2)) == 0 else None
        if finish:
            del unfinished_choices[index]
        choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": finish, **draw(unknown_fields)}
        chunks.append(chunk([choice], **draw(unknown_fields)))
    if with_usage:
        usage_placement = draw(st.sampled_from(["own", "continuous", "finish", "trailing"]))
        if usage_placement == "continuous":
            for output, each in enumerate(chunks):
                each["usage"] = usage(3, output)
        if usage_placement == "finish":
            chunks[-1]["usage"] = usage()
        else:
            chunks.append(chunk([chunk_choice(content="")] if usage_placement == "trailing" else [], usage=usage()))
    return chunks


@st.composite
def sse_encodings(draw: st.DrawFn, chunks: Sequence[dict[str, Any]]) -> bytes:
    """The chunks as server-sent events, in any form that the standard allows."""
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
    stream = b"".join(out)
    return stream[: -draw(st.integers(0, 2)) * len(newline) or None]


@st.composite
def byte_splits(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    positions = sorted(draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    return [stream[start:end] for start, end in zip([0, *positions], [*positions, len(stream)], strict=True)]


def encode_sse_chunks(chunks: Sequence[Any]) -> bytes:
    """The chunks as plain server-sent events, without [DONE]."""
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks)


def parse_sse_chunks(sse: bytes) -> list[dict[str, Any]]:
    """The frames that a caller received. They must be framed as plainly as the official SDKs need, and end with [DONE]."""
    frames = SSEDecoder()
    payloads = frames.feed(sse)
    assert frames.finish() == []
    assert payloads[-1] == b"[DONE]"
    assert payloads.count(b"[DONE]") == 1
    assert sse == b"".join(b"data: " + data + b"\n\n" for data in payloads)
    return [json.loads(data) for data in payloads[:-1]]


# Requests that OpenAI chat can express.
names = st.text("abcXYZ_-09", min_size=1, max_size=8)
raw_values = st.sampled_from([b"1", b"null", b'"x"', b'{"a":[1.50,"b"]}', b"[]"]).map(Raw)
extras = st.dictionaries(st.sampled_from(["x_one", "cache_control", "ttl"]), raw_values.filter(lambda raw: raw != Raw(b"null")), max_size=2)
call_ids = st.text("abc019", min_size=4, max_size=8)
schemas = st.sampled_from([b'{"type":"object","properties":{"a":{"type":"integer"}}}', b"{}", b'{"type":"object"}']).map(Raw)
data = st.binary(min_size=1, max_size=6).map(lambda raw: base64.b64encode(raw).decode())


def inline(*media_types: str) -> st.SearchStrategy[Inline]:
    return st.builds(Inline, st.sampled_from(media_types), data)


plain_texts = st.builds(Text, texts, extra=extras)
images = st.builds(
    Image,
    st.builds(Url, st.just("https://example.com/a.png")) | inline("image/png", "image/jpeg"),
    st.sampled_from([None, "low", "auto"]),
    extras,
)
files = st.builds(
    File,
    inline("application/pdf", "text/plain") | st.builds(Uploaded, st.just("openai"), nonempty_texts),
    st.none() | nonempty_texts,
    extras,
)
audio_parts = st.builds(Audio, inline("audio/wav", "audio/mp3"), extras)
video_parts = st.just(Opaque("openai_chat", Raw(b'{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}')))
contents = st.lists(plain_texts | images | files | audio_parts | video_parts, min_size=1, max_size=4).map(tuple)


@st.composite
def assistant_contents(draw: st.DrawFn) -> tuple[Content, ...]:
    """An assistant message that a client sends back from a response of ours, or writes itself."""
    parts: list[Content] = [*draw(st.lists(st.builds(Reasoning, texts, own_opaque_states) | part_strategies[Reasoning], max_size=2))]
    if len(parts) > 1 and not any(isinstance(part, Reasoning) and part.opaque_state for part in parts):
        parts.pop()
    parts += draw(st.lists(cited_texts() if draw(st.booleans()) else plain_texts, max_size=1))
    parts += draw(st.lists(part_strategies[Refusal], max_size=1))
    calls = st.builds(ToolCall, call_ids, names, texts, st.booleans(), st.none() | own_opaque_states)
    return (*parts, *draw(st.lists(calls.filter(has_written_arguments), max_size=3)))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Every call has its result, and results come in one message."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 4))):
        role: Role = draw(st.sampled_from(["system", "developer", "user", "assistant"]))
        parts = draw(assistant_contents()) if role == "assistant" else draw(contents)
        messages.append(Message(role, parts, draw(st.none() | names), draw(extras)))
        calls_made = [part for part in parts if isinstance(part, ToolCall)]
        if calls_made:
            result_contents = st.lists(plain_texts | images, min_size=1, max_size=2).map(tuple)
            results = {call.id: ToolResult(call.id, draw(result_contents), custom=call.custom, extra=draw(extras)) for call in calls_made}
            custom = {call.id for call in calls_made if call.custom}
            messages.append(Message("user", tuple(replace(result, custom=id in custom) for id, result in results.items())))
    return tuple(messages)


# Parsing writes the type that a tool's schema leaves out.
tool_schemas = schemas.filter(lambda schema: bytes(schema) != b"{}")
custom_tool_formats = st.sampled_from([None, Raw(b'{"type":"text"}'), Raw(b'{"type":"grammar","syntax":"lark","definition":"start: /a/"}')])
tools = st.lists(
    st.builds(Tool, names, st.none() | texts, st.none() | tool_schemas, st.none() | st.booleans(), extra=extras)
    | st.builds(Tool, names, st.none() | texts, custom=st.just(True), format=custom_tool_formats)
    | st.just(HostTool("openai_chat", "web_search", Raw(b'{"type":"web_search"}'))),
    max_size=3,
    unique_by=lambda tool: getattr(tool, "name", ""),
).map(tuple)
tool_choices = st.builds(ToolChoice, st.sampled_from(["auto", "none", "required"])) | st.builds(
    ToolChoice, st.sampled_from(["auto", "required"]), allowed=st.lists(names, min_size=1, max_size=2).map(tuple)
)
outputs = st.one_of(
    st.builds(JsonObject),
    st.builds(JsonSchema, schemas, names, st.none() | texts, st.none() | st.booleans()),
    st.builds(Regex, nonempty_texts),
    st.builds(output_format.Choice, st.lists(nonempty_texts, min_size=1, max_size=3).map(tuple)),
    st.builds(Grammar, nonempty_texts),
    st.just(StructuralTag('{"type":"structural_tag","format":{"type":"any_text"}}')),
)


@st.composite
def chat_requests(draw: st.DrawFn) -> ChatRequest:
    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    has_messages = draw(st.booleans())
    return ChatRequest(
        origin="openai_chat",
        model=draw(nonempty_texts),
        messages=() if not has_messages else draw(conversations()),
        prompt=draw(nonempty_texts) if not has_messages else None,
        tools=draw(tools),
        tool_choice=maybe(tool_choices),
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
        stop=draw(st.lists(nonempty_texts, max_size=2).map(tuple)),
        frequency_penalty=maybe(st.sampled_from([-2.0, 0.0, 1.5])),
        presence_penalty=maybe(st.sampled_from([-2.0, 0.0, 1.5])),
        logprobs=maybe(st.booleans()),
        top_logprobs=maybe(st.integers(0, 20)),
        logit_bias=maybe(st.just(Raw(b'{"50256":-100}'))),
        user=maybe(nonempty_texts),
        safety_identifier=maybe(nonempty_texts),
        metadata=maybe(st.dictionaries(names, texts, max_size=2)),
        service_tier=maybe(st.sampled_from(["auto", "flex"])),
        store=maybe(st.booleans()),
        cache_key=maybe(nonempty_texts),
        extra=draw(st.dictionaries(st.sampled_from(["x_one", "min_p", "modalities"]), raw_values.filter(lambda raw: raw != Raw(b"null")))),
    )
