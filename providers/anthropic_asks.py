"""What may be asked of Anthropic's /v1/messages, and of its count_tokens beside it: every documented field is checked.

Here and not in a dialect, as both dialects open their asks with it. Paths are written as Anthropic writes them: messages.0.content.1.text.
"""

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from providers.anthropic_shapes import Answered, Block, Counted, Object, Source, Tool
from providers.dialect import Ask
from providers.errors import Malformed
from providers.estimate import FILE, IMAGE, text_tokens
from providers.opening import one_episode, opened
from providers.wire import Body

Asked = TypeVar("Asked", bound=Counted)

_counted = msgspec.json.Decoder(Counted)
_answered = msgspec.json.Decoder(Answered)
_MISSING = re.compile(r"missing required field `([^`]*)`")

# What a block of a type needs.
_NEEDS = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "thinking": ("thinking",),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "server_tool_use": ("id", "name", "input"),
    "search_result": ("source", "title", "content"),
    "container_upload": ("file_id",),
}
_SOURCE_NEEDS = {
    "base64": ("media_type", "data"),
    "url": ("url",),
    "file": ("file_id",),
    "text": ("data",),
    "content": ("content",),
}
_ONLY_FROM = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "server_tool_use": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}
# What no tool can give.
_NEVER_GIVEN = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})


def open_messages(raw: bytes) -> Ask:
    """Raises Malformed: what was wrong and where."""
    request, body = _read(raw, _answered)
    thinking = request.thinking
    # With tools, thinking goes on between the calls of one turn, and its budget is that of all of them: it may exceed one answer.
    if thinking is not None and thinking.budget_tokens is not None and not request.tools and thinking.budget_tokens >= request.max_tokens:
        raise _wrong("thinking.budget_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`")
    return _ask("anthropic_messages", raw, body, request, request.metadata.user_id if request.metadata else None, request.max_tokens)


def open_count(raw: bytes) -> Ask:
    """Raises Malformed: what was wrong and where."""
    request, body = _read(raw, _counted)
    if request.stream:
        raise _wrong("stream", "a count of tokens is never streamed; leave it out")
    return _ask("anthropic_count_tokens", raw, body, request, None, 0)


def _read(raw: bytes, decoder: msgspec.json.Decoder[Asked]) -> tuple[Asked, Body]:
    try:
        request, body = opened(raw, decoder)
    except Malformed as fault:
        raise _in_their_words(fault) from None
    if body.said("thread"):
        raise _threaded()
    _check(request)
    return request, body


def _threaded() -> Malformed:
    """In the words on which Anthropic's clients ask again with the whole conversation, and no thread."""
    error = _wrong("thread", "conversations are not kept here; send the whole of it in `messages`, without `thread`")
    error.code = "thread_unsupported_request"
    error.details = {"error_code": error.code, "unsupported": ["thread"]}
    return error


def _in_their_words(fault: Malformed) -> Malformed:
    if fault.param is None:
        return fault
    path = fault.param.replace("[...]", ".*").replace("[", ".").replace("]", "")
    missing = _MISSING.search(fault.message)
    if missing is None:
        return _wrong(path, fault.message.removesuffix(f" at `{fault.param}`."))
    place = path if path == missing[1] else f"{path}.{missing[1]}"
    return _wrong(place, "Field required")


def _wrong(path: str, what: str) -> Malformed:
    return Malformed(f"{path}: {what}", param=path)


def _ask(dialect: str, raw: bytes, body: Body, request: Counted, end_user: str | None, output_tokens: int) -> Ask:
    return Ask(
        dialect=dialect,
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=True,
        episode_id=one_episode(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or {},
        end_user=end_user,
        input_tokens=_input_tokens(raw, request),
        output_tokens=output_tokens,
        choices=1,
        strict=any([tool.strict for tool in request.tools or ()]),
    )


def _check(request: Counted) -> None:
    """What the types cannot say."""
    for at, message in enumerate(request.messages):
        if not isinstance(message.content, str):
            for index, block in enumerate(message.content):
                _check_block(block, message.role, at, index)
    if isinstance(request.system, list):
        for index, block in enumerate(request.system):
            if block.type != "text":
                raise _wrong(f"system.{index}.type", "Input should be 'text'")
            _check_needs(block, f"system.{index}")
    _check_tools(request.tools or [])
    if request.tool_choice is not None and request.tool_choice.type == "tool" and not request.tool_choice.name:
        raise _wrong("tool_choice.name", "Field required")
    if request.thinking is not None and request.thinking.type == "enabled" and request.thinking.budget_tokens is None:
        raise _wrong("thinking.budget_tokens", "Field required")


def _check_block(block: Block, role: str, at: int, index: int) -> None:
    kind = block.type
    owner = _ONLY_FROM.get(kind, role)
    if owner != role:
        raise _wrong(f"messages.{at}.content.{index}.type", f"`{kind}` blocks can only be in `{owner}` messages")
    # The path is only spelled out for what may be wrong: most blocks are texts that are not.
    if kind != "text" or block.text is None:
        _check_needs(block, f"messages.{at}.content.{index}")


def _check_needs(block: Block, path: str) -> None:
    for need in _NEEDS.get(block.type, ()):
        if getattr(block, need) is None:
            raise _wrong(f"{path}.{need}", "Field required")
    if block.type in ("image", "document"):
        _check_source(block.source, f"{path}.source")
    if block.type in ("tool_result", "search_result") and isinstance(block.content, list):
        for index, inner in enumerate(block.content):
            if inner.type in _NEVER_GIVEN:
                raise _wrong(f"{path}.content.{index}.type", f"`{inner.type}` blocks cannot be in a `{block.type}`")
            _check_needs(inner, f"{path}.content.{index}")


def _check_source(source: Source | str | None, path: str) -> None:
    if not isinstance(source, Source):
        raise _wrong(path, "Input should be an object")
    for need in _SOURCE_NEEDS[source.type]:
        if getattr(source, need) is None:
            raise _wrong(f"{path}.{need}", "Field required")


def _check_tools(tools: list[Tool]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.type in (None, "custom"):
            if tool.name is None:
                raise _wrong(f"tools.{index}.name", "Field required")
            if tool.input_schema is None:
                raise _wrong(f"tools.{index}.input_schema", "Field required")
        if tool.name in names:
            raise _wrong(f"tools.{index}.name", f"Tool names must be unique: {tool.name!r} is there already")
        if tool.name is not None:
            names.add(tool.name)


def _input_tokens(raw: bytes, request: Counted) -> int:
    """The whole body counts as text, tools and schemas too, but for what is said in it of media."""
    # Without this word no block is an image or a document.
    if b'"source"' not in raw:
        return text_tokens(len(raw))
    inline_bytes = media = 0
    for block in _blocks(request):
        if block.type in ("image", "document") and isinstance(block.source, Source):
            written = block.source.type in ("text", "content")
            inline_bytes += 0 if written else len(block.source.data or "")
            media += IMAGE if block.type == "image" else 0 if written else FILE
    return text_tokens(max(0, len(raw) - inline_bytes)) + media


def _blocks(request: Counted) -> Iterator[Block]:
    """Those of tool results, and those that documents are made of, too."""
    for message in request.messages:
        yield from _within(message.content)


def _within(content: "str | list[Block] | Object | None") -> Iterator[Block]:
    for block in content if isinstance(content, list) else ():
        yield block
        yield from _within(block.content)
        if isinstance(block.source, Source):
            yield from _within(block.source.content)
