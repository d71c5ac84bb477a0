"""Complete responses of Converse.

Source: the service model of Bedrock Runtime in botocore 1.44 (ConverseResponse), read 2026-11; recordings aws_bedrock/01 to 21.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatResponse, Choice, OpaqueState, Part, Reasoning, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.tool_calls import read_arguments
from providers.canonical.upstream_errors import find_error
from providers.dialects.bedrock_converse.citations import read_citation
from providers.dialects.bedrock_converse.finish_reasons import read_stop_reason
from providers.dialects.bedrock_converse.opaque_blocks import NAME, read_native_block, read_redacted
from providers.dialects.bedrock_converse.usage import read_tier, read_usage


class _ReasoningText(Struct):
    text: str = ""
    signature: str | None = None


class _Reasoning(Struct):
    reasoningText: _ReasoningText | None = None
    redactedContent: str | None = None


class _ToolUse(Struct):
    toolUseId: str
    name: str
    input: Raw = NULL
    type: str | None = None


class _Text(Struct):
    text: str = ""


class _CitedContent(Struct):
    content: list[_Text] = []
    citations: list[Raw] = []


class _Block(Struct):
    text: str | None = None
    reasoningContent: _Reasoning | None = None
    toolUse: _ToolUse | None = None
    citationsContent: _CitedContent | None = None


class _Message(Struct):
    content: list[Raw]


class _Output(Struct):
    message: _Message


class _Response(Struct):
    output: _Output
    stopReason: str | None = None
    usage: Raw = NULL
    serviceTier: Raw = NULL


_response_decoder = msgspec.json.Decoder(_Response)
_block_decoder = msgspec.json.Decoder(_Block)
_object = msgspec.json.Decoder(dict[str, Raw])


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error of a response with status 200, UnparsableModelOutput, or InvalidUpstreamResponse. No model is reported."""
    body = Body.read_response(raw)
    try:
        response = _response_decoder.decode(body.write())
        parts = tuple(part for each in response.output.message.content for part in _read_block(each))
    except DECODE_ERRORS as decode_error:
        raise find_error(body) or InvalidUpstreamResponse(f"The engine's answer is not one of Converse: {decode_error}.") from None
    usage, tier = read_usage(response.usage, response.serviceTier), read_tier(response.serviceTier)
    if response.stopReason is None:
        return ChatResponse((Choice(parts, None),), "", usage=usage, service_tier=tier)
    finish_reason, upstream_finish_reason = read_stop_reason(
        response.stopReason, has_tool_calls=any(isinstance(part, ToolCall) for part in parts)
    )
    return ChatResponse((Choice(parts, finish_reason, upstream_finish_reason=upstream_finish_reason),), "", usage=usage, service_tier=tier)


def _read_block(raw: Raw) -> Iterator[Part]:
    block = _block_decoder.decode(raw)
    if block.text is not None:
        if block.text:
            yield Text(block.text)
    elif block.toolUse is not None and not is_host_tool_type(block.toolUse.type):
        yield ToolCall(block.toolUse.toolUseId, block.toolUse.name, read_arguments(block.toolUse.input))
    elif block.citationsContent is not None:
        text = "".join(each.text for each in block.citationsContent.content)
        yield Text(text, tuple(map(read_citation, block.citationsContent.citations)))
    elif block.reasoningContent is not None and block.reasoningContent.redactedContent is not None:
        yield read_redacted(block.reasoningContent.redactedContent)
    elif block.reasoningContent is not None:
        reasoning_text = block.reasoningContent.reasoningText or _ReasoningText()
        yield Reasoning(reasoning_text.text, OpaqueState(NAME, reasoning_text.signature) if reasoning_text.signature else None)
    else:
        yield read_native_block(_object.decode(raw))


def is_host_tool_type(tool_type: str | None) -> bool:
    """Whether Bedrock runs the tool of a call itself."""
    return tool_type == "server_tool_use"
