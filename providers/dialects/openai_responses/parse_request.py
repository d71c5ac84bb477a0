"""Parses a request to /v1/responses."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.parse_body import parse_body
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.token_estimate import AUDIO_TOKENS, FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.canonical.tool_schemas import OBJECT_TYPE
from providers.dialect import InboundRequest
from providers.dialects.openai.parse_request import inbound_request
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.input_items import CONTEXT_TYPES, mark_context_items
from providers.dialects.openai_responses.normalize_input import (
    are_calls_in_order,
    is_mislabelled,
    put_calls_in_order,
    relabel_images,
    write_schema_types,
)
from providers.dialects.openai_responses.request_schema import Item, Part, Request, Tool
from providers.output_bounds import merge_output_bounds

_decoder = msgspec.json.Decoder(Request)
_tool_decoder = msgspec.json.Decoder(Tool)
_EMPTY_LIST = msgspec.Raw(b"[]")
_DOCUMENTED = frozenset(Request.__struct_fields__) - {"input", "model"}

# The fields that an item or a part of a type needs: at least one field of each tuple.
_REQUIRED_ITEM_FIELDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "message": (("role",), ("content",)),
    "item_reference": (("id",),),
    "function_call": (("call_id",), ("name",), ("arguments",)),
    "function_call_output": (("call_id",), ("output",)),
    "custom_tool_call": (("call_id",), ("name",), ("input",)),
    "custom_tool_call_output": (("call_id",), ("output",)),
    "additional_tools": (("tools",),),
    "tool_search_output": (("tools",),),
}
_REQUIRED_PART_FIELDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "input_text": (("text",),),
    "output_text": (("text",),),
    "refusal": (("refusal",),),
    "input_image": (("image_url", "file_id"),),
    "input_file": (("file_data", "file_url", "file_id"),),
    "input_audio": (("input_audio",),),
}
# Items whose `output` is content like that of a message.
_RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})
_SUMMARY_TYPES = frozenset({"compaction", "compaction_summary"})
_ROLES = frozenset({"user", "assistant", "system", "developer"})


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected; Unsupported for features that need OpenAI's store."""
    request, body = parse_body(raw, _decoder)
    _check_state(request)
    has_references = has_context_items = has_summaries = False
    if isinstance(request.input, list):
        for at, item in enumerate(request.input):
            kind = _check_item(item, f"input[{at}]")
            if kind == "item_reference":
                has_references = True
            elif kind in _SUMMARY_TYPES:
                has_summaries = True
            elif kind in CONTEXT_TYPES:
                has_context_items = True
                _check_tools(
                    [_decode_tool(raw, f"input[{at}].tools[{number}]") for number, raw in enumerate(item.tools or ())], f"input[{at}].tools"
                )
    has_untyped_schema = False
    if request.tools:
        _check_tools(request.tools, "tools")
    for tool in request.tools or ():
        if tool.parameters is not None and tool.parameters.type != OBJECT_TYPE:
            has_untyped_schema = True
    if has_untyped_schema:
        write_schema_types(request.tools or (), body)
    if b"null" in raw or b"[]" in raw:
        _leave_out_empty_fields(body)
    inbound = inbound_request(
        DIALECT,
        request,
        body,
        end_user=request.user or request.safety_identifier,
        wants_usage=True,
        input_tokens=_input_tokens(raw, request, body),
        output_tokens=merge_output_bounds(body, "max_output_tokens", request.max_output_tokens),
    )
    inbound.previous_response_id = request.previous_response_id
    inbound.references_items = has_references
    inbound.holds_only_text = isinstance(request.input, str)
    inbound.stores_response = request.store is not False
    # What the response that this continues, or an item that this refers to, has called is not known here.
    is_whole_history = not has_references and request.previous_response_id is None
    if is_whole_history and isinstance(request.input, list) and not are_calls_in_order(request.input):
        inbound.repair = put_calls_in_order(request.input, body)
    if has_context_items:
        mark_context_items(body)
        inbound.has_context_items = True
        inbound.compacts = _is_compacted(request)
    inbound.has_summaries = has_summaries
    inbound.has_strict_tools = bool(request.tools) and any([tool.strict for tool in request.tools])
    return inbound


def _leave_out_empty_fields(body: Body) -> None:
    """Null means in every documented field what its absence does, and so does an empty list of tools; hosts refuse both."""
    for field in [field for field, value in body.items() if value == NULL and field in _DOCUMENTED]:
        del body[field]
    if body.get("tools") == _EMPTY_LIST:
        del body["tools"]
        if body.value("tool_choice") in (None, "auto", "none"):
            body.pop("tool_choice", None)


def _check_state(request: Request) -> None:
    if request.previous_response_id == "":
        raise InvalidRequest("`previous_response_id` is empty: leave it out to start a new conversation.", param="previous_response_id")
    if request.conversation is not None:
        if request.previous_response_id is not None:
            raise InvalidRequest("`previous_response_id` and `conversation` are both set: send one of them.", param="previous_response_id")
        raise Unsupported(
            "`conversation`: this gateway keeps no conversation objects. Continue a response with `previous_response_id`, "
            "or send the complete conversation as `input`.",
            param="conversation",
        )
    if request.prompt is not None:
        raise Unsupported(
            "`prompt`: this gateway does not have OpenAI's prompt templates. Send the text as `instructions` and `input`.", param="prompt"
        )
    if request.background:
        raise Unsupported("`background: true`: this gateway does not run requests in the background. Leave it out.", param="background")


def _is_compacted(request: Request) -> bool:
    """Whether the last item asks for a compaction. Raises InvalidRequest for one elsewhere, or without anything before it."""
    places = [at for at, item in enumerate(request.input) if isinstance(item, Item) and item.type == "compaction_trigger"]
    if not places:
        return False
    if places != [len(request.input) - 1]:
        raise InvalidRequest("A `compaction_trigger` must be the last item of the input.", param=f"input[{places[0]}]")
    if not places[0] and request.previous_response_id is None:
        raise InvalidRequest("There is nothing to compact: the `compaction_trigger` is the only item.", param="input[0]")
    return True


def _check_tools(tools: Sequence[Tool], path: str) -> None:
    for at, tool in enumerate(tools):
        if tool.type in ("function", "custom") and tool.name is None:
            raise InvalidRequest(f"Object missing required field `name` at `{path}[{at}]`.", param=f"{path}[{at}].name")


def _decode_tool(raw: Raw, path: str) -> Tool:
    try:
        return _tool_decoder.decode(raw)
    except DECODE_ERRORS as fault:
        raise InvalidRequest(f"`{path}` is no tool: {fault}.", param=path) from None


def _check_item(item: Item, path: str) -> str:
    """Checks an item, and returns its type."""
    kind = item.type or ("message" if item.role is not None or item.id is None else "item_reference")
    for names in _REQUIRED_ITEM_FIELDS.get(kind, ()):
        _check_required(item, names, path)
    if kind == "message":
        if item.role not in _ROLES:
            raise InvalidRequest(
                f"Invalid role {item.role!r:.40} at `{path}.role`: user, assistant, system, developer.", param=f"{path}.role"
            )
        _check_parts(item.content, f"{path}.content")
    elif kind in _RESULT_TYPES:
        if isinstance(item.output, dict):
            raise InvalidRequest(f"Expected `str | array`, got `object` at `{path}.output`.", param=f"{path}.output")
        _check_parts(item.output, f"{path}.output")
    return kind


def _check_parts(parts: str | list[Part] | None, path: str) -> None:
    for at, part in enumerate(parts if isinstance(parts, list) else ()):
        if part.type is None:
            raise InvalidRequest(f"Object missing required field `type` at `{path}[{at}]`.", param=f"{path}[{at}].type")
        for names in _REQUIRED_PART_FIELDS.get(part.type, ()):
            _check_required(part, names, f"{path}[{at}]")


def _check_required(fields: Struct, names: tuple[str, ...], path: str) -> None:
    if all(getattr(fields, name) is None for name in names):
        raise InvalidRequest(
            f"Object missing required field {' or '.join(f'`{name}`' for name in names)} at `{path}`.", param=f"{path}.{names[0]}"
        )


def _input_tokens(raw: bytes, request: Request, body: Body) -> int:
    """An estimate. The body counts as text, tools and schemas included, except media. On the way images get their true labels."""
    # Without one of these strings, all parts are text.
    if isinstance(request.input, str) or (b"input_image" not in raw and b"input_file" not in raw and b"input_audio" not in raw):
        return text_tokens(len(raw))
    inline_bytes = media = 0
    if any(map(is_mislabelled, _parts(request.input))):
        relabel_images(request.input, body)
    for part in _parts(request.input):
        match part.type:
            case "input_image":
                inline_bytes += len(part.image_url or "")
                media += IMAGE_TOKENS
            case "input_file":
                inline_bytes += len(part.file_data or "")
                media += FILE_TOKENS
            case "input_audio":
                inline_bytes += len(part.input_audio.data) if part.input_audio else 0
                media += AUDIO_TOKENS
            case _:
                pass
    return text_tokens(max(0, len(raw) - inline_bytes)) + media


def _parts(items: list[Item]) -> Iterator[Part]:
    for item in items:
        for content in (item.content, item.output):
            if isinstance(content, list):
                yield from content
