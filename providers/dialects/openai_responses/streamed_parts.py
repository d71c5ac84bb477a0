"""The parts of a streamed Response, as its reader opens, extends and closes them."""

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from providers.canonical.chat import Opaque, Part, Refusal, Text, ToolCall
from providers.canonical.events import Event, PartDelta, PartFinished, PartStarted
from providers.dialects.openai_responses.read_output_items import read_citations, read_content
from providers.dialects.openai_responses.response_schema import Content

# Where a part is: the index of its item, or the item's id where events have no indexes; and the part's own index.
PartPosition = tuple[int | str | None, int]


class StreamedPart:
    """A part that has started."""

    __slots__ = ("annotations", "has_text", "index", "is_function", "paragraph", "part_type")

    def __init__(self, index: int, part: Part) -> None:
        self.index = index
        self.part_type = type(part)
        self.is_function = isinstance(part, ToolCall) and not part.custom
        self.has_text = False
        self.paragraph: tuple[bool, int] | None = None  # for reasoning, whether it is a summary and the index of the current text
        self.annotations: list[Raw] = []


class StreamedParts:
    """The parts that have begun, by their positions, those that are closed too."""

    def __init__(self) -> None:
        self.by_position: dict[PartPosition, StreamedPart] = {}
        self.closed: set[PartPosition] = set()
        # The phases of messages that have one, by their positions.
        self.phases: dict[int | str | None, str] = {}
        self._count = 0

    def close_content(self, position: PartPosition, content: Content) -> Iterator[Event]:
        part = read_content(content)
        if part is None or position in self.closed:
            return
        empty = self.empty_text(position) if isinstance(part, Text) else Refusal("")
        yield from self.append_missing_text(position, empty, part.text)
        citations = part.citations if isinstance(part, Text) else ()
        yield from self.close(position, citations=citations or read_citations(self.by_position[position].annotations))

    def add_opaque(self, position: PartPosition, part: Opaque) -> Iterator[Event]:
        if position not in self.by_position:
            yield self.begin(position, part)
            yield from self.close(position)

    def begin(self, position: PartPosition, part: Part) -> PartStarted:
        self.by_position[position] = StreamedPart(self._count, part)
        self._count += 1
        return PartStarted(0, self.by_position[position].index, part)

    def empty_text(self, position: PartPosition) -> Text:
        return Text("", phase=self.phases.get(position[0]))

    def append_text(self, position: PartPosition, empty: Part, text: str) -> Iterator[Event]:
        if position not in self.by_position:
            yield self.begin(position, empty)
        if text:
            self.by_position[position].has_text = True
            yield PartDelta(0, self.by_position[position].index, text)

    def append_missing_text(self, position: PartPosition, empty: Part, text: str) -> Iterator[Event]:
        """Appends the complete text of a part of which no text has come."""
        if position not in self.closed and (position not in self.by_position or not self.by_position[position].has_text):
            yield from self.append_text(position, empty, text)

    def close(self, position: PartPosition, **fields: Any) -> Iterator[Event]:
        if position not in self.closed:
            self.closed.add(position)
            yield PartFinished(0, self.by_position[position].index, **fields)
