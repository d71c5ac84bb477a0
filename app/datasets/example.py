"""Examples: a recorded request, its response and a demonstration, in OpenAI's chat whatever API the caller used."""

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from app.datasets.reasons import Skipped
from providers.canonical.chat import ChatRequest, Content, Message, Part, Reasoning, Text, Tool, ToolCall
from providers.canonical.errors import NarthexError, Unsupported
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy

_OPENAI_CHAT = CHAT_DIALECTS["openai_chat"]
_TARGET = "a dataset, which holds OpenAI's chat"
_MAX_OMITTED = 16
_INDEX = re.compile(r"\[\d+\]")


class Example(Struct, frozen=True):
    """A request and what a model shall answer to it, in OpenAI's chat format."""

    request: dict[str, Any]  # `messages`, with `tools` and `parallel_tool_calls` if there are any, or a `prompt` to continue
    response: dict[str, Any] | None  # a message of the assistant; None: there is none
    demonstration: dict[str, Any] | None  # a message of the assistant; None: there is none
    omitted: tuple[str, ...] = ()  # what OpenAI's chat has no field for and what changes no meaning, such as the signature of reasoning


def write_example(chat: ChatRequest, response: Sequence[Part] | None, demonstration: Any) -> Example:
    """Writes an inference as an example. Raises Skipped.

    `demonstration` is its value, as JSON has it; None means that there is none.
    """
    policy = DropPolicy(lambda _: False, {}, _TARGET)
    messages, begun = chat.messages, tuple[Content, ...]()
    if messages and messages[-1].role == "assistant":  # the beginning of the response
        messages, begun = messages[:-1], messages[-1].parts
    try:
        request: dict[str, Any] = {"prompt": chat.prompt}
        if chat.prompt is None:
            written = _write(chat, messages, _allowed_tools(chat), policy)
            names = ("messages", "tools", "parallel_tool_calls")
            request = {name: written[name] for name in names if name in written}
        answered = None if response is None else _write_assistant(chat, _joined((*begun, *response)), policy)
        demonstrated = None if demonstration is None else _write_assistant(chat, read_demonstration(demonstration), policy)
    except Unsupported as fault:
        raise Skipped("inexpressible", fault.param) from None
    except NarthexError as fault:
        raise Skipped("unreadable", getattr(fault, "param", None)) from None
    omitted = dict.fromkeys(_INDEX.sub("[]", name)[:80] for name in policy.dropped)
    return Example(request, answered, demonstrated, tuple(omitted)[:_MAX_OMITTED])


def _allowed_tools(chat: ChatRequest) -> tuple[Any, ...]:
    allowed = None if chat.tool_choice is None else chat.tool_choice.allowed
    return chat.tools if allowed is None else tuple(tool for tool in chat.tools if not isinstance(tool, Tool) or tool.name in allowed)


def _write(chat: ChatRequest, messages: tuple[Message, ...], tools: tuple[Any, ...], policy: DropPolicy) -> dict[str, Any]:
    # Parameters of sampling are no part of an example.
    parallel_calls = chat.parallel_calls if tools else None
    reduced = ChatRequest(chat.origin, chat.model, messages, tools=tools, parallel_calls=parallel_calls)
    return msgspec.json.decode(_OPENAI_CHAT.write_request(reduced, policy).write())


def _write_assistant(chat: ChatRequest, parts: tuple[Content, ...], policy: DropPolicy) -> dict[str, Any]:
    [message] = _write(chat, (Message("assistant", parts),), (), policy)["messages"]
    return message


def _joined(parts: tuple[Content, ...]) -> tuple[Content, ...]:
    """Neighbouring texts as one: a prefill and what continues it, or the blocks of a text with citations."""
    joined: list[Content] = []
    for part in parts:
        if isinstance(part, Text) and joined and isinstance(before := joined[-1], Text):
            joined[-1] = Text(before.text + part.text, before.citations + part.citations)
        else:
            joined.append(part)
    return tuple(joined)


def read_demonstration(value: Any) -> tuple[Content, ...]:
    """The parts of a demonstration: a text, a message of OpenAI's chat, blocks of TensorZero's, or else JSON that should be the output.

    Raises Skipped.
    """
    match value:
        case str():
            return (Text(value),)
        case {"role": _}:
            return _read_message(cast("dict[str, Any]", value))
        case [{"type": str()}, *_]:
            return tuple(_read_block(block, at) for at, block in enumerate(cast("list[Any]", value)))
        case _:
            return (Text(msgspec.json.encode(value).decode()),)


def _read_message(message: dict[str, Any]) -> tuple[Content, ...]:
    body = {"model": "none", "messages": [{"role": "user", "content": "-"}, message]}
    try:
        request = _OPENAI_CHAT.parse_request(msgspec.json.encode(body))
        read = _OPENAI_CHAT.read_request(request.body).messages[-1]
    except (NarthexError, *DECODE_ERRORS):
        raise Skipped("demonstration") from None
    if read.role != "assistant" or not read.parts:
        raise Skipped("demonstration", "role")
    return read.parts


def _read_block(block: Any, at: int) -> Content:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thought", "text": str(text)}:
            return Reasoning(text)
        case {"type": "tool_call", "name": str(name), "arguments": arguments}:
            written = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            id = block.get("id")
            return ToolCall(id if isinstance(id, str) and id else f"call_{at}", name, written)
        case _:
            raise Skipped("demonstration", f"[{at}]")
