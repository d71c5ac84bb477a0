"""Reads what a recorded inference says: messages of its request and response, the tools it offered, its settings.

The readers of the callers' dialects read it, so that it is the same whichever API was called, and whether the response was streamed. What
they cannot read is shown as it was recorded, with the reason in `problems`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.process.thread_steps import in_steps
from app.store.formats.content_packing import unpack_within
from app.store.messages.parts import PartReader, ShownPart
from providers.canonical.chat import ChatRequest, ChatResponse, Inline, Message, Tool
from providers.canonical.errors import NarthexError
from providers.canonical.events import ResponseAssembler
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialect import CallerChatDialect
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS

MAX_READ_BYTES = 4 * 1024 * 1024  # of a request or response; what is longer is not read
MAX_MESSAGES = 1000  # of a request, the newest
MAX_TOOLS = 200
_MAX_SETTING_CHARACTERS = 2000
_BLOCK_BYTES = 16 * 1024
_SETTINGS = (
    *("max_tokens", "temperature", "top_p", "top_k", "seed", "n", "stop", "frequency_penalty", "presence_penalty", "logprobs"),
    *("top_logprobs", "verbosity", "service_tier", "store", "parallel_calls"),
)


class ShownMessage(Struct, frozen=True):
    """A message. `role`: system, developer, user or assistant. `finish_reason`: of a response, as OpenAI's chat names it."""

    role: str
    name: str | None
    parts: tuple[ShownPart, ...]
    finish_reason: str | None = None


class OfferedTool(Struct, frozen=True):
    """A tool that the model could call. `parameters`: the first characters of its JSON schema; null: it has none, or its host runs it."""

    name: str
    description: str | None
    parameters: str | None


class RequestedFormat(Struct, frozen=True):
    """The form that the response must have. `kind`: json_object, json_schema, regex, choice, grammar or structural_tag.

    `definition`: the first characters of the schema, pattern, choices or grammar.
    """

    kind: str
    name: str | None
    definition: str | None


class Messages(Struct, frozen=True):
    """The messages of an inference. `output` has a message for each choice.

    `omitted`: how many of the oldest messages are left out of `input`. `new_from`: the position in `input` of the first message that comes
    after the last response in it, and so is new in this turn. `previous_response_id`: the response that the request goes on from, whose
    messages are not here. `problems`: what could not be read, in sentences.
    """

    input: tuple[ShownMessage, ...]
    omitted: int
    new_from: int
    output: tuple[ShownMessage, ...]
    tools: tuple[OfferedTool, ...]
    output_format: RequestedFormat | None
    settings: Mapping[str, Any]
    previous_response_id: str | None
    problems: tuple[str, ...]


class PackedExchange(Struct, frozen=True):
    """A recorded request and response, packed; None: it is not kept."""

    route: str  # the caller's API
    streamed: bool
    request: bytes | None
    response: bytes | None


def read_messages(packed: PackedExchange, max_characters: int) -> Messages:
    """Reads an inference, each part cut to so many characters. Call it in run_in_steps(): it may compute for a while."""
    return _Reader(packed, max_characters).read()


def read_media(packed: PackedExchange, number: int) -> Inline | None:
    """The media that MediaPart numbers so; None: there is none."""
    reader = _Reader(packed, 1)
    reader.read()
    return reader.parts.media[number - 1] if 0 < number <= len(reader.parts.media) else None


class _Reader:
    def __init__(self, packed: PackedExchange, max_characters: int) -> None:
        self.parts = PartReader(max_characters)
        self._packed = packed
        self._dialect: CallerChatDialect | None = CALLER_CHAT_DIALECTS.get(packed.route)
        self._problems: list[str] = []

    def read(self) -> Messages:
        request, response = self._packed.request, self._packed.response
        chat, previous = self._read_request(request) if request is not None else (None, None)
        is_shown_raw = chat is None and request is not None
        messages: Sequence[Message] = () if chat is None else chat.messages
        kept = messages[-MAX_MESSAGES:]
        shown = tuple(self._show_message(each) for each in in_steps(kept))
        if is_shown_raw:
            shown = self._show_raw("user", request)
        elif chat is not None and chat.prompt is not None:
            shown = (*shown, ShownMessage("user", None, (self.parts.show_text(chat.prompt),)))
        output = () if response is None else self._read_output(response, chat)
        return Messages(
            input=shown,
            omitted=len(messages) - len(kept),
            new_from=_new_from(kept, continues=chat is not None and chat.continues),
            output=output,
            tools=() if chat is None else tuple(_show_tool(each) for each in chat.tools[:MAX_TOOLS]),
            output_format=None if chat is None or chat.output is None else _show_format(chat.output),
            settings={} if chat is None else _settings(chat),
            previous_response_id=previous,
            problems=tuple(self._problems),
        )

    def _read_request(self, packed: bytes) -> tuple[ChatRequest | None, str | None]:
        """The chat, and the response that it goes on from."""
        raw = unpack_within(packed, MAX_READ_BYTES)
        if raw is None:
            self._problems.append(f"The request is longer than {MAX_READ_BYTES:,} bytes, and was not read.")
            return None, None
        if self._dialect is None:
            self._problems.append(f"Requests of {self._packed.route} are no chats: this is what was sent.")
            return None, None
        try:
            inbound = self._dialect.parse_request(raw)
            return self._dialect.read_request(inbound.body), inbound.previous_response_id
        except (NarthexError, *DECODE_ERRORS) as fault:
            self._problems.append(f"The request could not be read as messages: {_sentence(fault)}")
            return None, None

    def _read_output(self, packed: bytes, chat: ChatRequest | None) -> tuple[ShownMessage, ...]:
        raw = unpack_within(packed, MAX_READ_BYTES)
        if raw is None:
            self._problems.append(f"The response is longer than {MAX_READ_BYTES:,} bytes, and was not read.")
            return ()
        if self._dialect is None:
            return self._show_raw("assistant", packed)
        response = self._read_response(self._dialect, raw)
        if not response.choices:
            return self._show_raw("assistant", packed)
        may_be_json = chat is not None and isinstance(chat.output, JsonObject | JsonSchema)
        return tuple(
            ShownMessage(
                "assistant", None, tuple(self.parts.show(part, may_be_json=may_be_json) for part in choice.parts), choice.finish_reason
            )
            for choice in response.choices
        )

    def _read_response(self, dialect: CallerChatDialect, raw: bytes) -> ChatResponse:
        """Returns the response; of a stream that broke, what came before."""
        assembler = ResponseAssembler()
        try:
            if not self._packed.streamed:
                return dialect.read_response(raw)
            reader = dialect.stream_reader()
            for start in in_steps(range(0, len(raw), _BLOCK_BYTES)):
                for event in reader.feed(raw[start : start + _BLOCK_BYTES]):
                    assembler.feed(event)
            for event in reader.finish():
                assembler.feed(event)
        except (NarthexError, *DECODE_ERRORS) as fault:
            self._problems.append(f"The response is not complete, or an error: {_sentence(fault)}")
        return assembler.finish()

    def _show_message(self, message: Message) -> ShownMessage:
        return ShownMessage(message.role, message.name, tuple(self.parts.show(part) for part in message.parts))

    def _show_raw(self, role: str, packed: bytes | None) -> tuple[ShownMessage, ...]:
        raw = None if packed is None else unpack_within(packed, MAX_READ_BYTES)
        return () if not raw else (ShownMessage(role, None, (self.parts.show_json(raw),)),)


def _new_from(messages: Sequence[Message], *, continues: bool) -> int:
    earlier = messages[:-1] if continues else messages
    return next((at + 1 for at in range(len(earlier) - 1, -1, -1) if earlier[at].role == "assistant"), 0)


def _show_tool(tool: Any) -> OfferedTool:
    if not isinstance(tool, Tool):  # the host runs it
        return OfferedTool(tool.kind, None, None)
    definition = tool.format if tool.custom else tool.parameters
    description = None if tool.description is None else tool.description[:_MAX_SETTING_CHARACTERS]
    return OfferedTool(tool.name, description, None if definition is None else _cut_json(bytes(definition)))


def _show_format(output: OutputFormat) -> RequestedFormat:
    match output:
        case JsonObject():
            return RequestedFormat("json_object", None, None)
        case JsonSchema():
            return RequestedFormat("json_schema", output.name, _cut_json(bytes(output.schema)))
        case Regex():
            return RequestedFormat("regex", None, output.pattern[:_MAX_SETTING_CHARACTERS])
        case Choice():
            return RequestedFormat("choice", None, _cut_json(msgspec.json.encode(output.options)))
        case Grammar():
            return RequestedFormat("grammar", None, output.text[:_MAX_SETTING_CHARACTERS])
        case StructuralTag():
            return RequestedFormat("structural_tag", None, output.text[:_MAX_SETTING_CHARACTERS])


def _settings(chat: ChatRequest) -> dict[str, Any]:
    given = {name: getattr(chat, name) for name in _SETTINGS}
    shown = {name: value for name, value in given.items() if value is not None and value != ()}
    if chat.tool_choice is not None:
        shown["tool_choice"] = chat.tool_choice.name or chat.tool_choice.mode
    if chat.thinking is not None:
        thinking = {"effort": chat.thinking.effort, "budget_tokens": chat.thinking.budget_tokens}
        shown |= {f"thinking_{name}": value for name, value in thinking.items() if value is not None}
    return shown


def _cut_json(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")[:_MAX_SETTING_CHARACTERS]


def _sentence(fault: Exception) -> str:
    text = fault.message if isinstance(fault, NarthexError) else f"{fault}."
    return text[:500]
