"""Parses a request to /v1/chat/completions.

Engines accept a raw prompt there too: mini-sglang as `prompt`, LMDeploy as a string for `messages` with `do_preprocess: false`.
Without that, a string is one user message.
"""

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.parse_body import parse_body
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import AUDIO_TOKENS, FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.dialect import InboundRequest
from providers.dialects.openai.parse_request import inbound_request, includes_usage
from providers.dialects.openai_chat.dialect_name import DIALECT
from providers.dialects.openai_chat.request_schema import ImageUrl, Request
from providers.output_bounds import merge_output_bounds

_decoder = msgspec.json.Decoder(Request)


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected."""
    request, body = parse_body(raw, _decoder)
    raw_prompt = _normalize_prompt(request, body)
    only_text = _holds_only_text(request)
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


def _holds_only_text(request: Request) -> bool:
    if not isinstance(request.messages, list):
        return True
    for message in request.messages:
        if type(message.content) is list:
            for part in message.content:
                if not part.is_text:
                    return False
    return True


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
