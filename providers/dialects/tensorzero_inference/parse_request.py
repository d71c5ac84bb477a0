"""Parses a request to POST /inference into a body whose keys are the names of the fields wherever they stand in the request."""

import msgspec
from msgspec.structs import asdict

from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.parse_body import parse_body, parse_episode_id
from providers.canonical.raw_json import NULL, Body
from providers.canonical.token_estimate import AUDIO_TOKENS, FILE_TOKENS, IMAGE_TOKENS, text_tokens
from providers.dialect import InboundRequest
from providers.dialects.tensorzero_inference.dialect_name import DIALECT
from providers.dialects.tensorzero_inference.files import media_kind
from providers.dialects.tensorzero_inference.request_schema import Block, Request

_MEDIA_TOKENS = {"image": IMAGE_TOKENS, "audio": AUDIO_TOKENS, "file": FILE_TOKENS}

_decoder = msgspec.json.Decoder(Request)
_PREFIX = "tensorzero::"

# Fields that say how the gateway serves the request, by the names that they have in OpenAI's API.
_OF_GATEWAY = (
    *("variant_name", "namespace", "dryrun", "cache_options", "credentials", "extra_body", "extra_headers", "provider_tools"),
    *("include_raw_response", "include_raw_usage"),
)
# Those of which TensorZero's OpenAI API has none.
_NOT_OFFERED = {
    "include_original_response": "responses of hosts are translated, and kept in that form",
    "include_aggregated_response": "the chunks of a stream are all of the response",
    "internal_dynamic_variant_config": "variants are configured by whoever operates the gateway",
}


def parse_request(raw: bytes) -> InboundRequest:
    """Raises InvalidRequest, which says what is wrong, where, and what is expected; Unsupported for what is not offered here."""
    request, parsed = parse_body(raw, _decoder)
    name = _name(request)
    _check_fields(request, parsed)
    _check_blocks(request)
    body = _flatten(request, parsed, name)
    params = request.params.chat_completion
    return InboundRequest(
        dialect=DIALECT,
        body=body,
        model=name,
        stream=bool(request.stream),
        wants_usage=True,
        episode_id=None if request.episode_id is None else parse_episode_id(request.episode_id, None),
        tags=_tags(request),
        end_user=None,
        input_tokens=_input_tokens(raw, request),
        output_tokens=None if params is None else params.max_tokens,
        choices=1,
        has_strict_tools=any([bool(tool.strict) for tool in request.additional_tools or ()]),
        model_field="model_name" if request.function_name is None else "function_name",
    )


def _name(request: Request) -> str:
    if request.function_name is not None and request.model_name is not None:
        raise InvalidRequest("`function_name` and `model_name` are both set: send one of them.", param="function_name")
    if request.function_name is not None:
        return f"tensorzero::function_name::{request.function_name}"
    if request.model_name is None:
        raise InvalidRequest("Send `function_name` or `model_name`.", param="model_name")
    return f"tensorzero::model_name::{request.model_name}"


def _check_fields(request: Request, parsed: Body) -> None:
    for field, why in _NOT_OFFERED.items():
        if getattr(request, field):
            raise Unsupported(f"`{field}` is not offered: {why}.", param=field)
    if request.model_name is not None and request.variant_name is not None:
        raise InvalidRequest("`variant_name` is only for functions: a model has no variants.", param="variant_name")
    has_schema, params = request.output_schema is not None, request.params.chat_completion
    json_mode = None if params is None else params.json_mode
    if has_schema and json_mode == "off":
        raise InvalidRequest(
            '`output_schema` and `json_mode` "off" exclude each other: the response is held to the schema.', param="output_schema"
        )
    if request.model_name is not None and not has_schema and json_mode in ("strict", "tool", "implicit_tool"):
        raise InvalidRequest(f"`json_mode` {json_mode!r} needs `output_schema`.", param="params.chat_completion.json_mode")
    if has_schema and request.additional_tools:
        raise InvalidRequest("A JSON response holds no tool calls: send `output_schema` or `additional_tools`.", param="additional_tools")
    names = {tool.name for tool in request.additional_tools or ()}
    for index, name in enumerate(request.allowed_tools or ()):
        if request.model_name is not None and name not in names:
            raise InvalidRequest(
                f"`allowed_tools[{index}]`: no tool {name!r:.60} is in `additional_tools`.", param=f"allowed_tools[{index}]"
            )
    for index, tool in enumerate(request.additional_tools or ()):
        if tool.type != "openai_custom" and tool.parameters is None:
            path = f"additional_tools[{index}].parameters"
            raise InvalidRequest(f"Object missing required field `parameters` at `{path}`.", param=path)


def _check_blocks(request: Request) -> None:
    """Checks what the types of blocks do not express. A model has no templates, and needs a message."""
    is_function = request.function_name is not None
    if isinstance(request.input.system, dict) and not is_function:
        raise _no_template("input.system")
    for at, message in enumerate(request.input.messages):
        path = f"input.messages[{at}].content"
        if isinstance(message.content, dict):
            if not is_function:
                raise _no_template(path)
        elif not isinstance(message.content, str):
            for index, block in enumerate(message.content):
                _check_block(block, message.role, f"{path}[{index}]", is_function)
    if not is_function and not request.input.messages:
        raise InvalidRequest("Expected `input.messages` of length >= 1.", param="input.messages")


_REQUIRED: dict[str, tuple[str, ...]] = {
    "raw_text": ("value",),
    "template": ("name", "arguments"),
    "tool_call": ("id",),
    "tool_result": ("id", "result"),
    "unknown": ("data",),
}
_REQUIRED_ROLE = {"tool_call": "assistant", "thought": "assistant", "tool_result": "user", "file": "user", "image": "user"}


def _check_block(block: Block, role: str, path: str, is_function: bool) -> None:
    kind = block.type
    if _REQUIRED_ROLE.get(kind, role) != role:
        raise InvalidRequest(f"`{path}`: {kind} blocks can only be in messages of the {_REQUIRED_ROLE[kind]}.", param=path)
    for field in _REQUIRED.get(kind, ()):
        if getattr(block, field) in (None, NULL):
            raise InvalidRequest(f"Object missing required field `{field}` at `{path}`.", param=f"{path}.{field}")
    match kind:
        case "text":
            if (block.text is None) == (block.arguments is None):
                raise InvalidRequest(f"`{path}` must have `text` or `arguments`, and not both.", param=path)
            if not is_function and not isinstance(block.text, str):
                raise _no_template(path)
        case "template":
            if not is_function:
                raise _no_template(path)
        case "tool_call":
            if block.name is None and block.raw_name is None:
                raise InvalidRequest(f"Object missing required field `name` at `{path}`.", param=f"{path}.name")
            if block.arguments is None and block.raw_arguments is None:
                raise InvalidRequest(f"Object missing required field `arguments` at `{path}`.", param=f"{path}.arguments")
        case _:
            return


def _no_template(path: str) -> InvalidRequest:
    return InvalidRequest(f"`{path}` has arguments of a template: only functions have templates, and this names a model.", param=path)


def _tags(request: Request) -> dict[str, str]:
    if not request.internal:
        for key in request.tags:
            if key.startswith(_PREFIX):
                raise InvalidRequest(f"`tags`: names that begin with `{_PREFIX}` are reserved, and {key!r:.80} does.", param="tags")
    return request.tags


def _flatten(request: Request, parsed: Body, name: str) -> Body:
    """The fields that say what is to be answered, without null. Values that are not looked into here stay the caller's bytes."""
    body = Body(model=name, input=parsed["input"])
    params = request.params.chat_completion
    if params is not None:
        body.update((field, value) for field, value in asdict(params).items() if value is not None)
    if request.additional_tools:
        body["tools"] = as_raw(parsed["additional_tools"])
    for field in ("tool_choice", "allowed_tools", "parallel_tool_calls", "output_schema"):
        if parsed.has_value(field):
            body[field] = parsed[field]
    for field in _OF_GATEWAY:
        if getattr(request, field) and parsed.has_value(field):
            body[_PREFIX + field] = parsed[field]
    return body


def _input_tokens(raw: bytes, request: Request) -> int:
    """An estimate. The body counts as text, tools and schemas included, except media."""
    inline_bytes = media = 0
    for message in request.input.messages:
        if isinstance(message.content, list):
            for block in message.content:
                if block.type in ("file", "image"):
                    inline_bytes += len(memoryview(block.data))
                    media += _MEDIA_TOKENS[media_kind(block)]
    return text_tokens(max(0, len(raw) - inline_bytes)) + media
