"""Parses requests to Anthropic's /v1/messages and count_tokens, and validates every documented field.

Errors write paths as Anthropic does: messages.0.content.1.text.
"""

import re
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import NULL, Body
from providers.canonical.token_estimate import FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.canonical.tool_schemas import OBJECT_TYPE, is_schema_of_object
from providers.dialect import InboundRequest
from providers.dialects.anthropic.normalize_messages import (
    are_calls_in_order,
    has_wrong_label,
    put_calls_in_order,
    relabel_images,
    write_schema_types,
)
from providers.dialects.anthropic.request_schema import Block, CountTokensRequest, MessagesRequest, Object, Source, Tool
from providers.output_bounds import merge_output_bounds

RequestT = TypeVar("RequestT", bound=CountTokensRequest)

_count_decoder = msgspec.json.Decoder(CountTokensRequest)
_messages_decoder = msgspec.json.Decoder(MessagesRequest)
_EMPTY_LIST = msgspec.Raw(b"[]")
_OPTIONAL_FIELDS = frozenset(MessagesRequest.__struct_fields__) - {"messages", "model", "max_tokens"}
_MISSING = re.compile(r"missing required field `([^`]*)`")

# The required fields of each type of block.
_REQUIRED_BY_BLOCK = {
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
_REQUIRED_BY_SOURCE = {
    "base64": ("media_type", "data"),
    "url": ("url",),
    "file": ("file_id",),
    "text": ("data",),
    "content": ("content",),
}
_REQUIRED_ROLE = {
    "tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "server_tool_use": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}
# Blocks that only messages can hold.
_NOT_IN_TOOL_RESULTS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})


def parse_messages_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest with the path and the problem."""
    request, body = _decode(raw, _messages_decoder)
    max_tokens = merge_output_bounds(body, "max_tokens", request.max_tokens, minimum=0)
    assert max_tokens is not None  # the field is required
    thinking = request.thinking
    # With tools the budget covers the thinking between all calls of a turn, and may exceed `max_tokens`.
    if thinking is not None and thinking.budget_tokens is not None and not request.tools and thinking.budget_tokens >= max_tokens:
        raise _invalid("thinking.budget_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`")
    return _inbound_request("anthropic_messages", raw, body, request, request.metadata.user_id if request.metadata else None, max_tokens)


def parse_count_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest with the path and the problem."""
    request, body = _decode(raw, _count_decoder)
    if request.stream:
        raise _invalid("stream", "a token count is never streamed; leave this field out")
    return _inbound_request("anthropic_count_tokens", raw, body, request, None, 0)


def _decode(raw: bytes, decoder: msgspec.json.Decoder[RequestT]) -> tuple[RequestT, Body]:
    try:
        request, body = parse_body(raw, decoder)
    except InvalidRequest as error:
        raise _with_anthropic_path(error) from None
    if body.has_value("thread"):
        raise _thread_unsupported()
    _check(request)
    for tool in request.tools or ():
        if tool.input_schema is not None and tool.input_schema.type != OBJECT_TYPE:
            write_schema_types(request.tools or (), body)
            break
    return request, body


def _leave_out_empty_fields(body: Body) -> None:
    """Null means in every documented field what its absence does, and so does an empty list in some; hosts refuse both."""
    for field in [field for field, value in body.items() if value == NULL and field in _OPTIONAL_FIELDS]:
        del body[field]
    for field in ("tools", "stop_sequences"):
        if body.get(field) == _EMPTY_LIST:
            del body[field]
    if "tools" not in body and body.has_value("tool_choice") and body.value("tool_choice").get("type") in ("auto", "none"):
        del body["tool_choice"]


def _thread_unsupported() -> InvalidRequest:
    """The error code on which Anthropic's clients send the complete conversation instead of a thread."""
    error = _invalid("thread", "conversations are not kept here; send all of it in `messages`, without `thread`")
    error.code = "thread_unsupported_request"
    error.details = {"error_code": error.code, "unsupported": ["thread"]}
    return error


def _with_anthropic_path(error: InvalidRequest) -> InvalidRequest:
    if error.param is None:
        return error
    path = error.param.replace("[...]", ".*").replace("[", ".").replace("]", "")
    missing = _MISSING.search(error.message)
    if missing is None:
        return error.reworded(f"{path}: {error.message.removesuffix(f' at `{error.param}`.')}", param=path)
    field_path = path if path == missing[1] else f"{path}.{missing[1]}"
    return error.reworded(f"{field_path}: Field required", param=field_path)


def _invalid(path: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{path}: {problem}", param=path)


def _inbound_request(
    dialect: str, raw: bytes, body: Body, request: CountTokensRequest, end_user: str | None, output_tokens: int
) -> InboundRequest:
    has_calls = b'"tool_use"' in raw or b'"tool_result"' in raw
    repair = put_calls_in_order(request.messages, body) if has_calls and not are_calls_in_order(request.messages) else None
    if b"null" in raw or b"[]" in raw:
        _leave_out_empty_fields(body)
    return InboundRequest(
        dialect=dialect,
        body=body,
        model=request.model,
        stream=bool(request.stream),
        wants_usage=True,
        episode_id=parse_episode_id(request.episode_id, request.episode_id_prefixed),
        tags=request.tags_prefixed or {},
        end_user=end_user,
        input_tokens=_input_tokens(raw, request, body),
        output_tokens=output_tokens,
        choices=1,
        has_strict_tools=any([tool.strict for tool in request.tools or ()]),
        repair=repair,
    )


def _check(request: CountTokensRequest) -> None:
    """Validates what the types cannot express."""
    for message_index, message in enumerate(request.messages):
        if not isinstance(message.content, str):
            for index, block in enumerate(message.content):
                _check_block(block, message.role, message_index, index)
    if isinstance(request.system, list):
        for index, block in enumerate(request.system):
            if block.type != "text":
                raise _invalid(f"system.{index}.type", "Input should be 'text'")
            _check_required(block, f"system.{index}")
    _check_tools(request.tools or [])
    if request.tool_choice is not None and request.tool_choice.type == "tool" and not request.tool_choice.name:
        raise _invalid("tool_choice.name", "Field required")
    if request.thinking is not None and request.thinking.type == "enabled" and request.thinking.budget_tokens is None:
        raise _invalid("thinking.budget_tokens", "Field required")


def _check_block(block: Block, role: str, message_index: int, index: int) -> None:
    kind = block.type
    required_role = _REQUIRED_ROLE.get(kind, role)
    if required_role != role:
        raise _invalid(f"messages.{message_index}.content.{index}.type", f"`{kind}` blocks can only be in `{required_role}` messages")
    # For speed, paths are built only for blocks that may be invalid: most blocks are texts.
    if kind != "text" or block.text is None:
        _check_required(block, f"messages.{message_index}.content.{index}")


def _check_required(block: Block, path: str) -> None:
    for field in _REQUIRED_BY_BLOCK.get(block.type, ()):
        if getattr(block, field) is None:
            raise _invalid(f"{path}.{field}", "Field required")
    if block.type in ("image", "document"):
        _check_source(block.source, f"{path}.source")
    if block.type in ("tool_result", "search_result") and isinstance(block.content, list):
        for index, inner in enumerate(block.content):
            if inner.type in _NOT_IN_TOOL_RESULTS:
                raise _invalid(f"{path}.content.{index}.type", f"`{inner.type}` blocks cannot be in a `{block.type}`")
            _check_required(inner, f"{path}.content.{index}")


def _check_source(source: Source | str | None, path: str) -> None:
    if not isinstance(source, Source):
        raise _invalid(path, "Input should be an object")
    for field in _REQUIRED_BY_SOURCE[source.type]:
        if getattr(source, field) is None:
            raise _invalid(f"{path}.{field}", "Field required")


def _check_tools(tools: list[Tool]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.type in (None, "custom"):
            if tool.name is None:
                raise _invalid(f"tools.{index}.name", "Field required")
            if tool.input_schema is None:
                raise _invalid(f"tools.{index}.input_schema", "Field required")
            if not is_schema_of_object(tool.input_schema):
                raise _invalid(f"tools.{index}.input_schema.type", "Input should be 'object'")
        if tool.name in names:
            raise _invalid(f"tools.{index}.name", f"Tool names must be unique: {tool.name!r} is repeated")
        if tool.name is not None:
            names.add(tool.name)


def _input_tokens(raw: bytes, request: CountTokensRequest, body: Body) -> int:
    """An estimate: the body counts as text, tools and schemas included, except for images and documents.

    On the way images get their true labels.
    """
    # Every image and document has this key.
    if b'"source"' not in raw:
        return text_tokens(len(raw))
    inline_bytes = media = 0
    is_mislabelled = False
    for block in _blocks(request):
        is_mislabelled = is_mislabelled or has_wrong_label(block)
        if block.type in ("image", "document") and isinstance(block.source, Source):
            is_text = block.source.type in ("text", "content")
            inline_bytes += 0 if is_text else len(block.source.data or "")
            media += IMAGE_TOKENS if block.type == "image" else 0 if is_text else FILE_TOKENS
    if is_mislabelled:
        relabel_images(body)
    return text_tokens(max(0, len(raw) - inline_bytes)) + media


def _blocks(request: CountTokensRequest) -> Iterator[Block]:
    """All blocks, with those of tool results and of documents."""
    for message in request.messages:
        yield from _nested_blocks(message.content)


def _nested_blocks(content: "str | list[Block] | Object | None") -> Iterator[Block]:
    for block in content if isinstance(content, list) else ():
        yield block
        yield from _nested_blocks(block.content)
        if isinstance(block.source, Source):
            yield from _nested_blocks(block.source.content)
