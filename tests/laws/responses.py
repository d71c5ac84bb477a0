"""Requests and answers as OpenAI's Responses can say them."""

import json
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.chat import (
    Audio,
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
    Refusal,
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
from providers.structured_output import JsonObject, JsonSchema
from tests.laws.chats import STAMP, counts, said, texts

ORIGIN = "openai_responses"

usages = st.builds(Usage, input=counts, output=counts, cached=counts, reasoning=counts, cache_written=counts)
calls = st.builds(ToolCall, id=said, name=said, arguments=texts, custom=st.booleans())
seals = st.builds(OpaqueState, origin=st.sampled_from([ORIGIN, "anthropic_messages"]), data=said.filter(lambda text: text[0] not in "n{"))
sealed = st.builds(Reasoning, text=texts, opaque_state=seals)
reasonings = st.builds(Reasoning, text=said) | sealed
own = reasonings.filter(lambda part: part.opaque_state is None or part.opaque_state.origin == ORIGIN)


def raw(told: Any) -> Raw:
    return Raw(json.dumps(told, ensure_ascii=False).encode())


@st.composite
def citations(draw: st.DrawFn) -> Citation:
    url, title, start, end = draw(st.tuples(said, said, counts, counts))
    told = {"type": "url_citation", "url": url, "title": title, "start_index": start, "end_index": end}
    return Citation(ORIGIN, raw(told), url, title, None, start, end)


cited = st.builds(Text, text=texts, citations=st.lists(citations(), max_size=2).map(tuple))


redacted = st.builds(
    Opaque, origin=st.just("anthropic_messages"), raw=texts.map(lambda data: raw({"type": "redacted_thinking", "data": data}))
)


@st.composite
def searches(draw: st.DrawFn) -> Opaque:
    action = {"type": "search", "query": draw(texts)}
    return Opaque(ORIGIN, raw({"id": f"ws_{draw(counts)}", "type": "web_search_call", "status": "completed", "action": action}))


def _uniquely(parts: list[Part]) -> bool:
    """The SDK tells items apart by the ids of calls, or of the items themselves."""
    ids = [_id(part) for part in parts if isinstance(part, ToolCall | Opaque)]
    return len(ids) == len(set(ids))


def _id(part: ToolCall | Opaque) -> str:
    if isinstance(part, ToolCall):
        return part.id
    told = msgspec.json.decode(part.raw, type=dict[str, Any])
    return told.get("id") or told["data"]


parts = st.lists(cited | st.builds(Refusal, text=texts) | reasonings | calls | searches() | redacted, max_size=5).filter(_uniquely)
entries = st.tuples(texts, st.floats(-20, 0)).map(
    lambda told: raw({"token": told[0], "bytes": list(told[0].encode()), "logprob": told[1], "top_logprobs": []})
)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    said = tuple(draw(parts))
    whole = "tool_calls" if any(isinstance(part, ToolCall) for part in said) else "stop"
    has_text = any(isinstance(part, Text) for part in said)
    logprobs = draw(st.none() | st.lists(entries, min_size=1, max_size=3).map(tuple)) if has_text else None
    return Choice(said, draw(st.sampled_from([whole, "length", "content_filter"])), logprobs)


answers = st.builds(
    ChatResponse,
    choices=choices().map(lambda choice: (choice,)),
    model=st.just(STAMP.model),
    created=st.integers(1, 2**33),
    usage=st.none() | usages,
    service_tier=st.none() | st.sampled_from(["default", "scale"]),
)

base64s = st.sampled_from(["QUJD", "", "AA=="])
sources = (
    st.builds(Url, url=said.map(lambda text: f"https://example.com/{text}"))
    | st.builds(Inline, media_type=st.sampled_from(["image/png", "application/pdf"]), data=base64s)
    | st.builds(Uploaded, origin=st.just("openai"), id=said)
)
more = st.fixed_dictionaries({}, optional={"x_new": texts.map(raw), "prompt_cache_breakpoint": st.just(raw({"mode": "explicit"}))})
plain = st.builds(Text, text=texts, extra=more)
images = st.builds(Image, source=sources, detail=st.none() | st.sampled_from(["low", "high"]), extra=more)
files = st.builds(File, source=sources, name=st.none() | said, extra=more)
audios = st.builds(Audio, source=st.builds(Inline, media_type=st.sampled_from(["audio/wav", "audio/mp3"]), data=base64s), extra=more)
results = st.builds(
    ToolResult,
    id=said,
    parts=st.lists(plain | images | files, max_size=2).map(tuple),
    custom=st.booleans(),
    extra=st.dictionaries(st.just("namespace"), texts.map(raw), max_size=1),
)


def message(role: Any, said: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[Message]:
    return st.builds(Message, role=st.just(role), parts=st.lists(said, min_size=1, max_size=most).map(tuple))


messages = st.one_of(
    message("user", plain | images | files | audios),
    message("user", results),
    message("system", plain, 2),
    message("developer", plain, 2),
    message("assistant", cited | st.builds(Refusal, text=texts) | own | calls | searches(), 4),
)


def _kind(message: Message) -> str:
    """Neighbours of the assistant's are one message, and so are neighbouring results."""
    return "results" if isinstance(message.parts[0], ToolResult) else message.role if message.role == "assistant" else ""


def _apart(messages: list[Message]) -> tuple[Message, ...]:
    kept = [each for at, each in enumerate(messages) if at == 0 or not _kind(each) or _kind(each) != _kind(messages[at - 1])]
    custom = {part.id for each in kept for part in each.parts if isinstance(part, ToolCall) and part.custom}
    return tuple(
        each for each in kept if all(not isinstance(part, ToolResult) or part.custom or part.id not in custom for part in each.parts)
    )


tools = st.one_of(
    st.builds(
        Tool,
        name=said,
        description=st.none() | said,
        parameters=st.none() | st.just(raw({"type": "object", "properties": {"a": {"type": "string"}}})),
        strict=st.none() | st.booleans(),
        extra=st.dictionaries(st.just("defer_loading"), st.just(raw(True)), max_size=1),
    ),
    st.builds(Tool, name=said, custom=st.just(True), format=st.none() | st.just(raw({"type": "text"}))),
    st.just(HostTool(ORIGIN, "web_search", raw({"type": "web_search", "search_context_size": "low"}))),
)
tool_choices = (
    st.builds(ToolChoice, mode=st.sampled_from(["auto", "none", "required"]))
    | st.builds(ToolChoice, mode=st.just("named"), name=said)
    | st.builds(ToolChoice, mode=st.sampled_from(["auto", "required"]), allowed=st.lists(said, min_size=1, max_size=2).map(tuple))
)
schemas = st.builds(
    JsonSchema, schema=st.just(raw({"type": "object"})), name=said, description=st.none() | said, strict=st.none() | st.booleans()
)
efforts = st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
thinkings = st.builds(Thinking, effort=efforts, summary=st.none() | st.just("auto")) | st.just(Thinking(summary="detailed"))
extras = st.fixed_dictionaries(
    {},
    optional={
        "max_tool_calls": st.just(raw(3)),
        "include": st.just(raw(["file_search_call.results"])),
        "truncation": st.just(raw("auto")),
        "reasoning.context": st.just(raw("all_turns")),
        "text.x_new": st.just(raw([1])),
        "cache_salt": texts.map(raw),
    },
)
unit = st.floats(0, 1)
requests = st.builds(
    ChatRequest,
    origin=st.just(ORIGIN),
    model=said,
    messages=st.lists(messages, max_size=5).map(_apart),
    tools=st.lists(tools, max_size=3).map(tuple),
    tool_choice=st.none() | tool_choices,
    parallel_calls=st.none() | st.booleans(),
    output=st.none() | st.just(JsonObject()) | schemas,
    thinking=st.none() | thinkings,
    verbosity=st.none() | st.just("low"),
    max_tokens=st.none() | st.integers(1, 2**30),
    temperature=st.none() | unit,
    top_p=st.none() | unit,
    top_k=st.none() | st.integers(1, 99),
    logprobs=st.none() | st.just(True),
    top_logprobs=st.none() | st.integers(1, 20),
    user=st.none() | said,
    safety_identifier=st.none() | said,
    metadata=st.none() | st.dictionaries(said, texts, max_size=2),
    service_tier=st.none() | st.just("flex"),
    store=st.just(False),
    cache_key=st.none() | said,
    extra=extras,
)
