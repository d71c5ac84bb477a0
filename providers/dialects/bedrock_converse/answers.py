"""Whole answers of Converse as meaning.

Source: the service model of Bedrock Runtime in botocore 1.44 (ConverseResponse), read 2026-11; recordings aws_bedrock/01 to 21.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from providers.chat import ChatResponse, Choice, Part, Reasoning, Seal, Text, ToolCall
from providers.dialects.bedrock_converse.cited import read_citation
from providers.dialects.bedrock_converse.sealed import NAME, read_hidden, read_input, read_unknown
from providers.dialects.bedrock_converse.usage import read_reason, read_tier, read_usage
from providers.errors import Garbled
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body


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


class _Cited(Struct):
    content: list[_Text] = []
    citations: list[Raw] = []


class _Block(Struct):
    text: str | None = None
    reasoningContent: _Reasoning | None = None
    toolUse: _ToolUse | None = None
    citationsContent: _Cited | None = None


class _Message(Struct):
    content: list[Raw]


class _Output(Struct):
    message: _Message


class _Answer(Struct):
    output: _Output
    stopReason: str | None = None
    usage: Raw = NULL
    serviceTier: Raw = NULL


_answer = msgspec.json.Decoder(_Answer)
_block = msgspec.json.Decoder(_Block)
_object = msgspec.json.Decoder(dict[str, Raw])


def read_response(raw: bytes) -> ChatResponse:
    """It does not tell its model. Raises Garbled, and Unparsed for an answer that its host could not read."""
    body = Body.read_reply(raw)
    try:
        told = _answer.decode(body.write())
        parts = tuple(part for each in told.output.message.content for part in _read_block(each))
    except UNREADABLE as fault:
        raise error_in(body) or Garbled(f"The engine's answer is not one of Converse: {fault}.") from None
    usage, tier = read_usage(told.usage, told.serviceTier), read_tier(told.serviceTier)
    if told.stopReason is None:
        return ChatResponse((Choice(parts, None),), "", usage=usage, service_tier=tier)
    reason, own = read_reason(told.stopReason, called=any(isinstance(part, ToolCall) for part in parts))
    return ChatResponse((Choice(parts, reason, told=own),), "", usage=usage, service_tier=tier)


def _read_block(raw: Raw) -> Iterator[Part]:
    block = _block.decode(raw)
    if block.text is not None:
        if block.text:
            yield Text(block.text)
    elif block.toolUse is not None and not is_hosts(block.toolUse.type):
        yield ToolCall(block.toolUse.toolUseId, block.toolUse.name, read_input(block.toolUse.input))
    elif block.citationsContent is not None:
        text = "".join(each.text for each in block.citationsContent.content)
        yield Text(text, tuple(map(read_citation, block.citationsContent.citations)))
    elif block.reasoningContent is not None and block.reasoningContent.redactedContent is not None:
        yield read_hidden(block.reasoningContent.redactedContent)
    elif block.reasoningContent is not None:
        told = block.reasoningContent.reasoningText or _ReasoningText()
        yield Reasoning(told.text, Seal(NAME, told.signature) if told.signature else None)
    else:
        yield read_unknown(_object.decode(raw))


def is_hosts(kind: str | None) -> bool:
    """Whether a call is of a tool that Bedrock runs itself."""
    return kind == "server_tool_use"
