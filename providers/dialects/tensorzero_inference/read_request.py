"""A parsed request as the canonical chat.

What templates are rendered with becomes a part as TensorZero's users write it in OpenAI's chat: `tensorzero::arguments` of a text, or
`tensorzero::template`.
"""

from collections.abc import Iterable
from typing import Any, cast, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import (
    ChatRequest,
    Content,
    Effort,
    Message,
    Opaque,
    OpaqueState,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialects.tensorzero_inference import request_schema
from providers.dialects.tensorzero_inference.dialect_name import DIALECT
from providers.dialects.tensorzero_inference.files import read_file
from providers.dialects.tensorzero_inference.opaque_states import CallState, read_signature, read_unknown
from providers.dialects.tensorzero_inference.request_schema import Block, Input
from providers.structured_output.locate_format import locate_format

_CHAT = "openai_chat"
# What is read of a body. A function may have set others.
_FIELDS = frozenset(
    {
        *("model", "input", "tools", "tool_choice", "allowed_tools", "parallel_tool_calls", "output_schema", "json_mode", "variant_name"),
        *("reasoning_effort", "thinking_budget_tokens", "verbosity", "max_tokens", "temperature", "top_p", "seed", "stop_sequences"),
        *("frequency_penalty", "presence_penalty", "service_tier"),
    }
)
_KNOWN_EFFORTS = frozenset(get_args(Effort))
_input_decoder = msgspec.json.Decoder(Input)
_tools_decoder = msgspec.json.Decoder(list[request_schema.Tool])


def read_request(body: Body) -> ChatRequest:
    """Raises InvalidRequest for what parse_request() does not check and this cannot understand."""
    try:
        return _read_body(body)
    except DECODE_ERRORS as fault:
        raise InvalidRequest(f"The body cannot be understood: {fault}.") from None


def _read_body(body: Body) -> ChatRequest:
    value, located = body.value, locate_format(DIALECT, body)
    return ChatRequest(
        origin=DIALECT,
        model=value("model"),
        messages=_read_input(_input_decoder.decode(as_raw(body["input"]))),
        tools=_read_tools(body),
        tool_choice=_read_tool_choice(value("tool_choice"), value("allowed_tools")),
        parallel_calls=value("parallel_tool_calls"),
        output=None if located is None else located.output,
        thinking=_read_thinking(value("reasoning_effort"), value("thinking_budget_tokens")),
        verbosity=value("verbosity"),
        max_tokens=value("max_tokens"),
        temperature=value("temperature"),
        top_p=value("top_p"),
        seed=value("seed"),
        stop=tuple(value("stop_sequences") or ()),
        frequency_penalty=value("frequency_penalty"),
        presence_penalty=value("presence_penalty"),
        service_tier=value("service_tier"),
        extra={name: as_raw(each) for name, each in body.items() if name not in _FIELDS},
    )


def _read_thinking(effort: str | None, budget_tokens: int | None) -> Thinking | None:
    if effort is None and budget_tokens is None:
        return None
    if effort is not None and effort not in _KNOWN_EFFORTS:
        raise InvalidRequest(
            f"`params.chat_completion.reasoning_effort` may be {', '.join(get_args(Effort))}, not {effort!r:.40}.",
            param="params.chat_completion.reasoning_effort",
        )
    return Thinking(cast("Effort | None", effort), budget_tokens)


def _read_tools(body: Body) -> tuple[Tool, ...]:
    if not body.has_value("tools"):
        return ()
    return tuple(_read_tool(tool) for tool in _tools_decoder.decode(as_raw(body["tools"])))


def _read_tool(tool: request_schema.Tool) -> Tool:
    if tool.type == "openai_custom":
        return Tool(tool.name, tool.description, custom=True, format=_flat_grammar(tool.format))
    return Tool(tool.name, tool.description, as_raw(tool.parameters), tool.strict)


def _flat_grammar(format: request_schema.Object | None) -> Raw | None:
    """The format of a custom tool: the canonical chat has a grammar beside its type."""
    if format is None:
        return None
    grammar = format.get("grammar")
    if grammar is None:
        return as_raw(format)
    return as_raw({**{key: value for key, value in format.items() if key != "grammar"}, **Body.read(grammar)})


def _read_tool_choice(choice: Any, allowed: list[str] | None) -> ToolChoice | None:
    names = None if allowed is None else tuple(allowed)
    match choice:
        case None:
            return None if names is None else ToolChoice("auto", allowed=names)
        case {"specific": str(name)}:
            return ToolChoice("named", name, names)
        case "none" | "off":
            return ToolChoice("none", allowed=names)
        case _:
            return ToolChoice("required" if choice == "required" else "auto", allowed=names)


def _read_input(input: Input) -> tuple[Message, ...]:
    messages: list[Message] = []
    if input.system is not None:
        system = Text(input.system) if isinstance(input.system, str) else _arguments(input.system)
        messages.append(Message("system", (system,)))
    for at, message in enumerate(input.messages):
        messages.append(Message(message.role, _read_content(message.content, f"input.messages[{at}].content")))
    return tuple(messages)


def _read_content(content: "str | list[Block] | request_schema.Object", path: str) -> tuple[Content, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, dict):
        return (_arguments(content),)
    parts: list[Content] = []
    call_states: dict[str, OpaqueState] = {}
    for index, block in enumerate(content):
        part = _read_block(block, f"{path}[{index}]")
        if isinstance(part, CallState):
            call_states[part.call_id] = part.state
        else:
            parts.append(part)
    return tuple(_with_states(parts, call_states)) if call_states else tuple(parts)


def _with_states(parts: Iterable[Content], states: dict[str, OpaqueState]) -> Iterable[Content]:
    for part in parts:
        yield replace(part, opaque_state=states[part.id]) if isinstance(part, ToolCall) and part.id in states else part


def _read_block(block: Block, path: str) -> Content | CallState:
    match block.type:
        case "text":
            if isinstance(block.text, str):
                return Text(block.text)
            return _arguments(block.text if block.text is not None else block.arguments)
        case "raw_text":
            return Text(block.value or "")
        case "template":
            return _opaque({"type": "tensorzero::template", "name": block.name, "arguments": block.arguments})
        case "tool_call":
            return ToolCall(block.id or "", block.name or block.raw_name or "", _read_arguments(block))
        case "tool_result":
            return ToolResult(block.id or "", (Text(block.result or ""),))
        case "thought":
            summary = "\n\n".join(each.text for each in block.summary or ())
            text = block.text if isinstance(block.text, str) else summary
            return Reasoning(text, read_signature(block.signature, block.provider_type))
        case "file" | "image":
            return read_file(block, path)
        case "unknown":
            return read_unknown(block, path)


def _read_arguments(block: Block) -> str:
    """Returns the arguments as the model wrote them, unless the caller changed them.

    A prefix that is cached must stay as it is.
    """
    raw, arguments = block.raw_arguments, block.arguments
    if arguments is None:
        return raw or ""
    if isinstance(arguments, str):
        return arguments
    encoded = msgspec.json.encode(arguments)
    try:
        is_same = raw is not None and msgspec.json.decode(raw) == msgspec.json.decode(encoded)
    except DECODE_ERRORS:
        is_same = False
    return raw if is_same and raw is not None else encoded.decode()


def _arguments(arguments: Any) -> Opaque:
    return _opaque({"type": "text", "tensorzero::arguments": arguments})


def _opaque(part: dict[str, Any]) -> Opaque:
    return Opaque(_CHAT, Raw(msgspec.json.encode(part)))
