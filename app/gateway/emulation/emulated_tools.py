"""Tools for a target that has none, or that cannot be made to call one.

They are described in the prompt and called in the text, or the prompt demands the call.

The tags are those of the templates of Hermes and Qwen models, which many others were trained on, too.
Source: https://huggingface.co/docs/transformers/chat_extras and the template of Qwen2.5, read 2026-11.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.gateway.emulation.described_places import DescribedPlaces, own_places
from providers.canonical.chat import ChatRequest, Content, HostTool, Message, Text, Tool, ToolCall, ToolChoice, ToolResult
from providers.canonical.instructions import add_instruction
from providers.canonical.output_format import JsonSchema
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.tool_calls import write_arguments

CALL_BEGIN, CALL_END = "<tool_call>", "</tool_call>"
_RESULT_BEGIN, _RESULT_END = "<tool_response>", "</tool_response>"

_INTRODUCTION = f"""\
# Tools

You can call these functions. Each line describes one, as JSON:
<tools>
{{tools}}
</tools>

To call a function, write a JSON object with its name and its arguments between these tags:
{CALL_BEGIN}
{{{{"name": "the function's name", "arguments": {{{{"the name of an argument": "its value"}}}}}}}}
{CALL_END}
After your calls, end your message: the results come in the next one, between {_RESULT_BEGIN} and {_RESULT_END}."""
_OPTIONAL = "Where you need no function, answer without a call."
_DEMANDED = "Your next message must be a call of {name}."
_SINGLE = "Call one function at a time."

_ANY_OBJECT = Raw(b'{"type":"object"}')
_SIMPLE_KEYWORDS = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "title", "description", "default"})
_MAX_ENFORCED_BYTES = 50_000


class EmulatedTools(Struct, frozen=True):
    """The tools of a chat, with what the gateway does itself about them."""

    tools: Mapping[str, Tool]  # those that may be called, by name
    are_described: bool  # in the prompt, so that calls are read from the text
    is_demanded: bool  # a response must call one, or is an error
    is_single: bool  # a response makes one call at most
    fields: frozenset[str]  # those of the canonical chat that the target is not sent
    places: DescribedPlaces | None = None  # where the parts of the chat were; None if that is where they are

    @property
    def are_native(self) -> bool:
        """Whether the target is sent them in its own fields."""
        return "tools" not in self.fields

    @property
    def strict(self) -> Mapping[str, Raw]:
        """The schemas of strict tools, by name."""
        return {name: tool.parameters for name, tool in self.tools.items() if tool.strict and tool.parameters is not None}

    @property
    def call_schema(self) -> JsonSchema:
        """The schema of a response that is one call and nothing else."""
        calls = [_call_schema(tool) for tool in self.tools.values()]
        return JsonSchema(Raw(msgspec.json.encode(calls[0] if len(calls) == 1 else {"anyOf": calls})), name="call")


def is_call_demanded(chat: ChatRequest) -> bool:
    return chat.tool_choice is not None and chat.tool_choice.mode in ("required", "named")


def describe_tools(chat: ChatRequest) -> tuple[ChatRequest, EmulatedTools] | None:
    """The chat with its tools, calls and results as texts, and what may be called in the response.

    None where they cannot be described, as one takes free text, the output has a format of its own, or log probabilities are wanted, which
    would be those of the text of calls, too; or where there is nothing to be described.
    """
    if not chat.tools and any(isinstance(part, ToolCall | ToolResult) for message in chat.messages for part in message.parts):
        emulated = EmulatedTools({}, are_described=False, is_demanded=False, is_single=False, fields=frozenset({"messages"}))
        described, places = _described(chat)
        return described, replace(emulated, places=places)
    allowed = _allowed_functions(chat)
    if allowed is None or (allowed and chat.logprobs):
        return None
    is_demanded, are_described = is_call_demanded(chat), bool(allowed)
    emulated = EmulatedTools(
        {tool.name: tool for tool in allowed},
        are_described,
        is_demanded,
        is_single=are_described and chat.parallel_calls is False,
        fields=frozenset({"tools", "tool_choice"} if is_demanded else {"tools"}),
    )
    described, places = _described(chat)
    messages = described.messages
    if are_described:
        messages = add_instruction(messages, _instruction(emulated))
        places = places.after_instruction(len(described.messages), len(messages))
    emulated = replace(emulated, places=places)
    host_tools = tuple(tool for tool in chat.tools if isinstance(tool, HostTool))
    return replace(chat, messages=messages, tools=host_tools, tool_choice=None, parallel_calls=None), emulated


def demand_call(chat: ChatRequest, *, in_prompt: bool) -> tuple[ChatRequest, EmulatedTools] | None:
    """The chat, a call in whose response is demanded and checked. None where none is, or where describe_tools() gives None.

    `in_prompt` says that the target lets the model alone choose, so that the prompt says that it must call a tool, and which.
    """
    allowed = _allowed_functions(chat)
    if not allowed or not is_call_demanded(chat):
        return None
    fields = frozenset({"tool_choice"} if in_prompt else ())
    emulated = EmulatedTools({tool.name: tool for tool in allowed}, are_described=False, is_demanded=True, is_single=False, fields=fields)
    if not in_prompt:
        return chat, emulated
    messages = add_instruction(chat.messages, _DEMANDED.format(name=_subject(emulated)))
    emulated = replace(emulated, places=own_places(chat.messages).after_instruction(len(chat.messages), len(messages)))
    return replace(chat, messages=messages, tools=tuple(emulated.tools.values()), tool_choice=None), emulated


def _allowed_functions(chat: ChatRequest) -> list[Tool] | None:
    """The tools that may be called; None: the chat has no tools, or they cannot be emulated."""
    tools = [tool for tool in chat.tools if isinstance(tool, Tool)]
    if not tools or chat.output is not None or chat.prompt is not None or any(tool.custom for tool in tools):
        return None
    allowed = _allowed_tools(tools, chat.tool_choice or ToolChoice("auto"))
    return None if not allowed and is_call_demanded(chat) else allowed


def _allowed_tools(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    match choice.mode:
        case "none":
            return []
        case "named":
            return [tool for tool in tools if tool.name == choice.name]
        case _:
            return [tool for tool in tools if choice.allowed is None or tool.name in choice.allowed]


def _instruction(emulated: EmulatedTools) -> str:
    lines = [msgspec.json.encode(_describe_tool(tool)).decode() for tool in emulated.tools.values()]
    sentences = [
        _INTRODUCTION.format(tools="\n".join(lines)),
        _DEMANDED.format(name=_subject(emulated)) if emulated.is_demanded else _OPTIONAL,
    ]
    return " ".join([*sentences, _SINGLE] if emulated.is_single else sentences)


def _subject(emulated: EmulatedTools) -> str:
    names = list(emulated.tools)
    return f'"{names[0]}"' if len(names) == 1 else "one of the functions"


def _describe_tool(tool: Tool) -> dict[str, Any]:
    fields = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {key: value for key, value in fields.items() if value is not None}


def _described(chat: ChatRequest) -> tuple[ChatRequest, DescribedPlaces]:
    described = [*_describe_calls(chat.messages)]
    return (
        replace(chat, messages=tuple(message for _, message, _ in described)),
        DescribedPlaces([(place, parts) for place, _, parts in described]),
    )


def _describe_calls(messages: Sequence[Message]) -> Iterator[tuple[str, Message, Sequence[str]]]:
    """The messages, each with its place and those of its parts.

    Results become one message with what the user says beside them: many templates allow no two messages of a role in a row.
    """
    for role, group in groupby(enumerate(messages), lambda each: each[1].role):
        in_a_row = [(f"messages[{index}]", message, _placed_parts(index, message)) for index, message in group]
        if role == "user" and any(isinstance(part, ToolResult) for _, message, _ in in_a_row for part in message.parts):
            in_a_row = [(*in_a_row[0][:2], [placed for _, _, parts in in_a_row for placed in parts])]
        for place, message, placed_parts in in_a_row:
            described = [*_describe_parts(placed_parts)]
            yield place, replace(message, parts=tuple(part for _, part in described)), [each for each, _ in described]


def _placed_parts(index: int, message: Message) -> list[tuple[str, Content]]:
    return [(f"messages[{index}].content[{number}]", part) for number, part in enumerate(message.parts)]


def _describe_parts(parts: Sequence[tuple[str, Content]]) -> Iterator[tuple[str, Content]]:
    before, after_result = "", False
    for place, part in parts:
        match part:
            case ToolCall():
                call = {"name": part.name, "arguments": write_arguments(part.arguments, custom=part.custom)}
                yield place, Text(f"{before}{CALL_BEGIN}\n{msgspec.json.encode(call).decode()}\n{CALL_END}", extra=part.extra)
            case ToolResult():
                text = "\n".join(each.text for each in part.parts if isinstance(each, Text))
                failed = "The call failed: " if part.is_error else ""
                yield place, Text(f"{before}{_RESULT_BEGIN}\n{failed}{text}\n{_RESULT_END}", extra=part.extra)
                placed = ((f"{place}.content[{number}]", each) for number, each in enumerate(part.parts))
                yield from (each for each in placed if not isinstance(each[1], Text))
            case Text() if after_result:
                yield place, replace(part, text=f"\n{part.text}")
            case _:
                yield place, part
        before, after_result = "\n", isinstance(part, ToolResult)


def _call_schema(tool: Tool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": _arguments_schema(tool)},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _arguments_schema(tool: Tool) -> Raw:
    """The schema that the engine enforces on arguments. Any object, where the tool's own would have to be checked or changed before.

    The schemas of strict tools were checked; a reference begins at the root of its schema, which is not the root here.
    """
    raw = bytes(tool.parameters or b"")
    if tool.parameters is None or b"$ref" in raw or b"\\u" in raw or len(raw) > _MAX_ENFORCED_BYTES:
        return _ANY_OBJECT
    if tool.strict:
        return tool.parameters
    try:
        return tool.parameters if _is_simple(msgspec.json.decode(raw)) else _ANY_OBJECT
    except DECODE_ERRORS:
        return _ANY_OBJECT


def _is_simple(schema: Any) -> bool:
    """Whether every engine is known to convert the schema of a tool that is not strict."""
    if not isinstance(schema, dict):
        return False
    fields = cast("dict[str, Any]", schema)
    properties = fields.get("properties", {})
    return (
        _SIMPLE_KEYWORDS.issuperset(fields)
        and isinstance(fields.get("type"), str)
        and isinstance(fields.get("additionalProperties", False), bool)
        and isinstance(properties, dict)
        and all(map(_is_simple, cast("dict[str, Any]", properties).values()))
        and ("items" not in fields or _is_simple(fields["items"]))
    )
