"""Compaction of a conversation by the model itself, where its host has none: the model writes a summary, which becomes one opaque item.

docs/dialects.md has the prompt, word for word.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, HostTool, Message, Opaque, Text, ToolChoice
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import ChoiceFinished, Event, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported

PROMPT = """\
Summarize this conversation for a model that goes on with it and sees nothing of it but your summary and the user's messages. Write:
1. what the user wants, with every requirement, preference and correction;
2. what was done and found, with names of files, commands, identifiers, numbers, quotations and errors exactly as they are;
3. what was decided, and why;
4. what is open, and the next step.
Write the summary alone, without an introduction, and call no tools."""


class Compaction(Struct, frozen=True):
    """The item that a summary becomes: it has this id, and what `encrypt` makes of the summary."""

    origin: str  # the caller's dialect
    id: str
    encrypt: Callable[[str], str]

    def write_item(self, summary: str) -> Opaque:
        item = {"id": self.id, "type": "compaction", "encrypted_content": self.encrypt(summary)}
        return Opaque(self.origin, Raw(msgspec.json.encode(item)))


def request_summary(chat: ChatRequest) -> ChatRequest:
    """The chat with the demand for a summary. Its tools stay, as hosts want those of the calls in it, and none may be called."""
    tools = tuple(tool for tool in chat.tools if not isinstance(tool, HostTool))
    return replace(
        chat,
        messages=(*chat.messages, Message("user", (Text(PROMPT),))),
        tools=tools,
        tool_choice=ToolChoice("none") if tools else None,
        parallel_calls=None,
        output=None,
        logprobs=None,
        top_logprobs=None,
        extra={key: value for key, value in chat.extra.items() if not key.startswith(("text.", "tool_choice"))},
    )


class SummaryCollector:
    """Makes one compaction item of the events of a response. Raises InvalidUpstreamResponse where they hold no whole summary."""

    def __init__(self, compaction: Compaction) -> None:
        self._compaction = compaction
        self._texts: list[str] = []
        self._open: set[int] = set()

    def collect(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case ResponseStarted() | UsageReported():
                    yield event
                case PartStarted(choice=0, part=Text(text=text)):
                    self._open.add(event.index)
                    self._texts.append(text)
                case PartDelta(choice=0) if event.index in self._open:
                    self._texts.append(event.text)
                case ChoiceFinished(choice=0):
                    yield PartStarted(0, 0, self._compaction.write_item(self._summary(event.reason)))
                    yield PartFinished(0, 0)
                    yield ChoiceFinished(0, "stop")
                case _:
                    pass

    def _summary(self, reason: str) -> str:
        summary = "".join(self._texts).strip()
        if reason in ("length", "content_filter"):
            raise InvalidUpstreamResponse(f"The model's summary of the conversation was cut off ({reason}).")
        if not summary:
            raise InvalidUpstreamResponse("The model wrote no summary of the conversation.")
        return summary
