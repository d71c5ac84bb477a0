"""OpenAI Responses: requests and responses that it can express."""

import json
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

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
from providers.canonical.output_format import JsonObject, JsonSchema
from tests.support.strategies.chat_strategies import META, counts, nonempty_texts, texts

ORIGIN = "openai_responses"

usage_reports = st.builds(Usage, input=counts, output=counts, cached=counts, reasoning=counts, cache_written=counts)
# Without arguments the call of a function is read as `{}`, which test_loose_responses.py covers; a custom tool's input may be empty.
tool_calls = st.one_of(
    st.builds(ToolCall, id=nonempty_texts, name=nonempty_texts, arguments=nonempty_texts.filter(str.strip)),
    st.builds(ToolCall, id=nonempty_texts, name=nonempty_texts, arguments=texts, custom=st.just(True)),
)
opaque_states = st.builds(
    OpaqueState, origin=st.sampled_from([ORIGIN, "anthropic_messages"]), data=nonempty_texts.filter(lambda text: text[0] not in "n{")
)
reasonings_with_state = st.builds(Reasoning, text=texts, opaque_state=opaque_states)
reasonings = st.builds(Reasoning, text=nonempty_texts) | reasonings_with_state
own_reasonings = reasonings.filter(lambda part: part.opaque_state is None or part.opaque_state.origin == ORIGIN)


def raw_json(value: Any) -> Raw:
    return Raw(json.dumps(value, ensure_ascii=False).encode())


@st.composite
def citations(draw: st.DrawFn) -> Citation:
    url, title, start, end = draw(st.tuples(nonempty_texts, nonempty_texts, counts, counts))
    annotation = {"type": "url_citation", "url": url, "title": title, "start_index": start, "end_index": end}
    return Citation(ORIGIN, raw_json(annotation), url, title, None, start, end)


cited_texts = st.builds(Text, text=texts, citations=st.lists(citations(), max_size=2).map(tuple))


redacted_thinking_parts = st.builds(
    Opaque, origin=st.just("anthropic_messages"), raw=texts.map(lambda data: raw_json({"type": "redacted_thinking", "data": data}))
)


@st.composite
def web_search_items(draw: st.DrawFn) -> Opaque:
    action = {"type": "search", "query": draw(texts)}
    return Opaque(ORIGIN, raw_json({"id": f"ws_{draw(counts)}", "type": "web_search_call", "status": "completed", "action": action}))


def _has_unique_ids(parts: list[Part]) -> bool:
    """The SDK identifies items by the ids of calls, or of the items themselves."""
    ids = [_id(part) for part in parts if isinstance(part, ToolCall | Opaque)]
    return len(ids) == len(set(ids))


def _id(part: ToolCall | Opaque) -> str:
    if isinstance(part, ToolCall):
        return part.id
    item = msgspec.json.decode(part.raw, type=dict[str, Any])
    return item.get("id") or item["data"]


parts = st.lists(
    cited_texts | st.builds(Refusal, text=texts) | reasonings | tool_calls | web_search_items() | redacted_thinking_parts, max_size=5
).filter(_has_unique_ids)
logprob_entries = st.tuples(texts, st.floats(-20, 0)).map(
    lambda entry: raw_json({"token": entry[0], "bytes": list(entry[0].encode()), "logprob": entry[1], "top_logprobs": []})
)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    drawn_parts = tuple(draw(parts))
    natural_finish = "tool_calls" if any(isinstance(part, ToolCall) for part in drawn_parts) else "stop"
    has_text = any(isinstance(part, Text) for part in drawn_parts)
    logprobs = draw(st.none() | st.lists(logprob_entries, min_size=1, max_size=3).map(tuple)) if has_text else None
    return Choice(drawn_parts, draw(st.sampled_from([natural_finish, "length", "content_filter"])), logprobs)


chat_responses = st.builds(
    ChatResponse,
    choices=choices().map(lambda choice: (choice,)),
    model=st.just(META.model),
    created=st.integers(1, 2**33),
    usage=st.none() | usage_reports,
    service_tier=st.none() | st.sampled_from(["default", "scale"]),
)


def _is_answered(answer: ChatResponse) -> bool:
    """An answer that ends by itself with neither content, calls nor usage is a failure, which test_empty_answers.py covers."""
    (choice,) = answer.choices
    if choice.finish_reason in ("length", "content_filter") or (answer.usage is not None and (answer.usage.input or answer.usage.output)):
        return True
    return any(not isinstance(part, Text | Refusal) or part.text for part in choice.parts)


answered_responses = chat_responses.filter(_is_answered)


def with_tool_uses(answer: ChatResponse) -> ChatResponse:
    """Returns the response as it is read, with its uses of the host's tools counted.

    They are counted in the output, and only where there is usage, which itself does not say.
    """
    searches = sum(isinstance(part, Opaque) and part.origin == ORIGIN for part in answer.choices[0].parts)
    if answer.usage is None or not searches:
        return answer
    return replace(answer, usage=replace(answer.usage, tool_uses={"web_search": searches}))


base64s = st.sampled_from(["QUJD", "", "AA=="])
sources = (
    st.builds(Url, url=nonempty_texts.map(lambda text: f"https://example.com/{text}"))
    | st.builds(Inline, media_type=st.sampled_from(["image/png", "application/pdf"]), data=base64s)
    | st.builds(Uploaded, origin=st.just("openai"), id=nonempty_texts)
)
extra_fields = st.fixed_dictionaries(
    {}, optional={"x_new": texts.map(raw_json), "prompt_cache_breakpoint": st.just(raw_json({"mode": "explicit"}))}
)
text_parts = st.builds(Text, text=texts, extra=extra_fields)
images = st.builds(Image, source=sources, detail=st.none() | st.sampled_from(["low", "high"]), extra=extra_fields)
files = st.builds(File, source=sources, name=st.none() | nonempty_texts, extra=extra_fields)
audios = st.builds(
    Audio, source=st.builds(Inline, media_type=st.sampled_from(["audio/wav", "audio/mp3"]), data=base64s), extra=extra_fields
)
tool_results = st.builds(
    ToolResult,
    id=nonempty_texts,
    parts=st.lists(text_parts | images | files, max_size=2).map(tuple),
    custom=st.booleans(),
    extra=st.dictionaries(st.just("namespace"), texts.map(raw_json), max_size=1),
)


def messages_of(role: Any, part_strategy: st.SearchStrategy[Any], max_parts: int = 3) -> st.SearchStrategy[Message]:
    return st.builds(Message, role=st.just(role), parts=st.lists(part_strategy, min_size=1, max_size=max_parts).map(tuple))


messages = st.one_of(
    messages_of("user", text_parts | images | files | audios),
    messages_of("user", tool_results),
    messages_of("system", text_parts, 2),
    messages_of("developer", text_parts, 2),
    messages_of("assistant", cited_texts | st.builds(Refusal, text=texts) | own_reasonings | tool_calls | web_search_items(), 4),
)


def _adjacency_kind(message: Message) -> str:
    """Adjacent assistant messages read as one message, and so do adjacent tool results."""
    return "results" if isinstance(message.parts[0], ToolResult) else message.role if message.role == "assistant" else ""


def _drop_adjacent_messages(messages: list[Message]) -> tuple[Message, ...]:
    kept = [
        each
        for at, each in enumerate(messages)
        if at == 0 or not _adjacency_kind(each) or _adjacency_kind(each) != _adjacency_kind(messages[at - 1])
    ]
    custom = {part.id for each in kept for part in each.parts if isinstance(part, ToolCall) and part.custom}
    return tuple(
        each for each in kept if all(not isinstance(part, ToolResult) or part.custom or part.id not in custom for part in each.parts)
    )


tools = st.one_of(
    st.builds(
        Tool,
        name=nonempty_texts,
        description=st.none() | nonempty_texts,
        parameters=st.none() | st.just(raw_json({"type": "object", "properties": {"a": {"type": "string"}}})),
        strict=st.none() | st.booleans(),
        extra=st.dictionaries(st.just("defer_loading"), st.just(raw_json(True)), max_size=1),
    ),
    st.builds(Tool, name=nonempty_texts, custom=st.just(True), format=st.none() | st.just(raw_json({"type": "text"}))),
    st.just(HostTool(ORIGIN, "file_search", raw_json({"type": "file_search", "vector_store_ids": ["vs_1"]}))),
)
tool_choices = (
    st.builds(ToolChoice, mode=st.sampled_from(["auto", "none", "required"]))
    | st.builds(ToolChoice, mode=st.just("named"), name=nonempty_texts)
    | st.builds(ToolChoice, mode=st.sampled_from(["auto", "required"]), allowed=st.lists(nonempty_texts, min_size=1, max_size=2).map(tuple))
)
schemas = st.builds(
    JsonSchema,
    schema=st.just(raw_json({"type": "object"})),
    name=nonempty_texts,
    description=st.none() | nonempty_texts,
    strict=st.none() | st.booleans(),
)
efforts = st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
thinkings = st.builds(Thinking, effort=efforts, summary=st.none() | st.just("auto")) | st.just(Thinking(summary="detailed"))
extras = st.fixed_dictionaries(
    {},
    optional={
        "max_tool_calls": st.just(raw_json(3)),
        "include": st.just(raw_json(["file_search_call.results"])),
        "truncation": st.just(raw_json("auto")),
        "reasoning.context": st.just(raw_json("all_turns")),
        "text.x_new": st.just(raw_json([1])),
        "cache_salt": texts.map(raw_json),
    },
)
unit_interval = st.floats(0, 1)
requests = st.builds(
    ChatRequest,
    origin=st.just(ORIGIN),
    model=nonempty_texts,
    messages=st.lists(messages, max_size=5).map(_drop_adjacent_messages),
    tools=st.lists(tools, max_size=3).map(tuple),
    tool_choice=st.none() | tool_choices,
    parallel_calls=st.none() | st.booleans(),
    output=st.none() | st.just(JsonObject()) | schemas,
    thinking=st.none() | thinkings,
    verbosity=st.none() | st.just("low"),
    max_tokens=st.none() | st.integers(1, 2**30),
    temperature=st.none() | unit_interval,
    top_p=st.none() | unit_interval,
    top_k=st.none() | st.integers(1, 99),
    logprobs=st.none() | st.just(True),
    top_logprobs=st.none() | st.integers(1, 20),
    user=st.none() | nonempty_texts,
    safety_identifier=st.none() | nonempty_texts,
    metadata=st.none() | st.dictionaries(nonempty_texts, texts, max_size=2),
    service_tier=st.none() | st.just("flex"),
    store=st.just(False),
    cache_key=st.none() | nonempty_texts,
    extra=extras,
)
