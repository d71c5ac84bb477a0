"""Parses a request to /v1/chat/completions.

Engines accept a raw prompt there too: mini-sglang as `prompt`, LMDeploy as a string for `messages` with `do_preprocess: false`.
Without that, a string is one user message.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from providers.canonical.errors import InvalidRequest
from providers.canonical.open_calls import Repair
from providers.canonical.parse_body import parse_body
from providers.canonical.raw_json import NULL, Body
from providers.canonical.token_estimate import AUDIO_TOKENS, FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.canonical.tool_schemas import OBJECT_TYPE
from providers.dialect import InboundRequest
from providers.dialects.openai.parse_request import inbound_request, includes_usage
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.flat_tools import nest_flat_tools
from providers.dialects.openai_chat.normalize_messages import (
    are_calls_in_order,
    is_mislabelled,
    leave_out_empty_lists,
    put_calls_in_order,
    relabel_images,
    write_schema_types,
)
from providers.dialects.openai_chat.request_schema import ImageUrl, Message, Request, Tool, ToolChoice
from providers.output_bounds import merge_output_bounds

_decoder = msgspec.json.Decoder(Request)
# What LiteLLM, Groq's docs and agents' menus call the host's own default: sent on, OpenAI and others answer 400 to it.
_DEFAULT_EFFORTS = ("auto", "default")
_EMPTY_LIST = msgspec.Raw(b"[]")
_DOCUMENTED = frozenset(Request.__struct_fields__) - {"messages", "model"}


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected."""
    request, body = parse_body(raw, _decoder)
    raw_prompt = _normalize_prompt(request, body)
    only_text, repair = _normalize_messages(request.messages, body) if type(request.messages) is list else (True, None)
    if request.tools is not None:
        _normalize_tools(request.tools, body)
    if request.tool_choice is not None:
        _normalize_tool_choice(request.tool_choice, body)
    if request.reasoning_effort in _DEFAULT_EFFORTS:
        del body["reasoning_effort"]
    if b"null" in raw or b"[]" in raw:
        _leave_out_empty_fields(body)
    bound_field = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    max_output_tokens = merge_output_bounds(body, bound_field, request.max_completion_tokens or request.max_tokens)
    choices = request.n or 1
    inbound = inbound_request(
        DIALECT,
        request,
        body,
        end_user=request.user,
        wants_usage=includes_usage(request.stream_options),
        input_tokens=text_tokens(len(raw)) if only_text else _input_tokens(raw, request),
        output_tokens=None if max_output_tokens is None else max_output_tokens * choices,
        choices=choices,
    )
    inbound.raw_prompt = raw_prompt
    inbound.holds_only_text = only_text
    inbound.repair = repair
    inbound.has_strict_tools = bool(request.tools) and any([tool.function is not None and tool.function.strict for tool in request.tools])
    return inbound


def _normalize_prompt(request: Request, body: Body) -> bool:
    """Whether the request has a raw prompt. If so, the body then has `prompt`; if not, its messages are a list."""
    messages, prompt = request.messages, request.prompt
    if request.do_preprocess:
        del body["do_preprocess"]  # every target puts messages into its template
    if prompt is not None and messages:
        raise InvalidRequest("`prompt` and `messages` are both set: send one of them.", param="prompt")
    if isinstance(messages, str):
        body.pop("do_preprocess", None)
        if prompt is None and request.do_preprocess is False:
            del body["messages"]
            body["prompt"] = messages
            return True
        if prompt is None:
            body["messages"] = [{"role": "user", "content": messages}]
            return False
    if prompt is not None:
        body.pop("messages", None)
        return True
    if messages is None:
        raise InvalidRequest("Object missing required field `messages` (or `prompt`, a text to continue).", param="messages")
    if not messages:
        raise InvalidRequest("Expected `messages` of length >= 1, or a `prompt`, at `messages`.", param="messages")
    return False


def _normalize_tool_choice(choice: str | ToolChoice, body: Body) -> None:
    """A choice without `type` names a function: that is the type's default in LMDeploy's API, and others refuse it."""
    if isinstance(choice, ToolChoice) and choice.type is None and choice.function is not None:
        body["tool_choice"] = {**body.value("tool_choice"), "type": "function"}


def _normalize_messages(messages: Sequence[Message], body: Body) -> tuple[bool, Repair | None]:
    """Whether they hold text alone, and what of the history was repaired (normalize_messages.py)."""
    only_text, has_calls, has_empty_lists, has_wrong_labels = True, False, False, False
    for message in messages:
        calls = message.tool_calls
        if calls is not None:
            has_calls = True
            if not calls:
                has_empty_lists = True
        elif message.role == "tool":
            has_calls = True
        if type(message.content) is list:
            if not message.content and not calls:
                has_empty_lists = True
            for part in message.content:
                if not part.is_text:
                    only_text = False
                    if part.image_url is not None and is_mislabelled(part.image_url):
                        has_wrong_labels = True
    if has_wrong_labels:
        relabel_images(messages, body)
    if has_empty_lists:
        leave_out_empty_lists(body)
    repair = put_calls_in_order(messages, body) if has_calls and not are_calls_in_order(messages) else None
    return only_text, repair


def _normalize_tools(tools: Sequence[Tool], body: Body) -> None:
    """An empty list is left out, with what means nothing without tools; schemas say that they are of an object."""
    if not tools:
        _leave_out_tools(body, "tools", "tool_choice")
        return
    for tool in tools:
        if tool.name is not None:
            nest_flat_tools(tools, body)
            break
    for tool in tools:
        function = tool.function
        if function is None or function.parameters is UNSET:
            continue
        if function.parameters is None or function.parameters.type != OBJECT_TYPE:
            write_schema_types(tools, body)
            return


def _leave_out_empty_fields(body: Body) -> None:
    """Null means in every documented field what its absence does, and so does an empty list in some; hosts refuse both."""
    for field in [field for field, value in body.items() if value == NULL and field in _DOCUMENTED]:
        del body[field]
    if body.get("stop") == _EMPTY_LIST:
        del body["stop"]
    if body.get("functions") == _EMPTY_LIST:
        _leave_out_tools(body, "functions", "function_call")


def _leave_out_tools(body: Body, field: str, choice_field: str) -> None:
    """OpenAI answers 400 to a choice, and to `parallel_tool_calls`, without tools."""
    del body[field]
    if body.value(choice_field) in (None, "auto", "none"):
        body.pop(choice_field, None)
    if not body.has_value("tools") and not body.has_value("functions"):
        body.pop("parallel_tool_calls", None)


def _input_tokens(raw: bytes, request: Request) -> int:
    """An estimate. The body counts as text, tools and schemas included, except media."""
    inline_bytes = media = 0
    for message in request.messages if isinstance(request.messages, list) else ():
        for part in message.content if isinstance(message.content, list) else ():
            match part.type:
                case "image_url":
                    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
                    inline_bytes += len(url or "")
                    media += IMAGE_TOKENS
                case "input_audio":
                    inline_bytes += len(part.input_audio.data) if part.input_audio else 0
                    media += AUDIO_TOKENS
                case "file":
                    inline_bytes += len(part.file.file_data or "") if part.file else 0
                    media += FILE_TOKENS
                case _:
                    pass
    return text_tokens(max(0, len(raw) - inline_bytes)) + media
