"""One choice of a streamed chat, as it is being read: its open part, and its tool calls."""

from typing import Any

from providers.canonical.chat import Citation, Opaque, OpaqueState, Reasoning, Refusal, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import Event, PartDelta, PartFinished, PartStarted
from providers.canonical.raw_json import NULL
from providers.dialects.openai_chat.citations import read_annotations
from providers.dialects.openai_chat.read_reasoning_details import (
    TEXT_KEYS,
    decode_entries,
    engine_opaque_state,
    has_position,
    read_detail,
    text_entry_type,
    text_of,
)
from providers.dialects.openai_chat.response_schema import (
    Function,
    WireMessage,
    WireToolCall,
    arguments_text,
    call_id_or_new,
    content_texts,
)
from providers.dialects.openai_chat.tool_calls import is_complete_json, join_name, read_opaque_state, starts_new_call

_NO_FUNCTION = Function()
_EMPTY_PARTS = {Text: Text(""), Reasoning: Reasoning(""), Refusal: Refusal("")}
_PART_TYPES = {"text": Text, "reasoning": Reasoning, "refusal": Refusal}


class _OpenCall:
    """A tool call. It starts for the caller with its first arguments after the name, which may come in pieces until then."""

    __slots__ = ("closed", "custom", "fragments", "id", "name", "opaque_state", "part_index", "started")

    def __init__(self, part_index: int, id: str | None, *, custom: bool) -> None:
        self.part_index = part_index
        self.id = id
        self.custom = custom
        self.name = ""
        self.started = False
        self.fragments: list[str] = []
        self.opaque_state: OpaqueState | None = None
        self.closed = False


class StreamedChoice:
    """A choice that is being read: at most one text, reasoning or refusal is open, and any number of tool calls."""

    __slots__ = (
        "_calls",
        "_citations",
        "_content_length",
        "_engine_entry",
        "_has_citations",
        "_index",
        "_latest_call",
        "_opaque_state",
        "_part_count",
        "_part_index",
        "_part_type",
        "_text_start",
        "finished",
    )

    def __init__(self, index: int) -> None:
        self.finished = False
        self._index = index
        self._part_count = 0
        self._part_type: type[Text | Reasoning | Refusal] | None = None
        self._part_index = -1
        # Characters of content so far, and before the open text.
        self._content_length = 0
        self._text_start = 0
        self._citations: list[Citation] = []
        self._has_citations = False
        self._opaque_state: OpaqueState | None = None
        # The engine's own entry for the open reasoning, without its text.
        self._engine_entry: dict[str, Any] = {}
        self._calls: dict[int, _OpenCall] = {}
        self._latest_call: _OpenCall | None = None

    def read_delta(self, delta: WireMessage, events: list[Event]) -> None:
        details = () if delta.reasoning_details is NULL else decode_entries(delta.reasoning_details)
        reasoning = delta.reasoning_content or delta.reasoning
        # If the engine sends the reasoning in details too, those are used: they say which pieces belong together.
        if reasoning and not any(text_entry_type(entry) and text_of(entry) and not has_position(entry) for entry in details):
            self.append_text(Reasoning, reasoning, events)
        for entry in details:
            if text_entry_type(entry) and not has_position(entry):
                self._read_engine_detail(entry, events)
            else:
                self._read_detail(entry, events)
        content = delta.content
        if content:
            if content.__class__ is str:
                self.append_text(Text, content, events)  # pyright: ignore[reportArgumentType]
            else:
                for kind, text in content_texts(content):
                    self.append_text(_PART_TYPES[kind], text, events)
        if delta.annotations is not NULL:
            self._citations += read_annotations(delta.annotations, self._text_start if self._part_type is Text else self._content_length)
            self._has_citations = self._has_citations or bool(self._citations)
        if delta.refusal:
            self.append_text(Refusal, delta.refusal, events)
        if delta.tool_calls:
            for at, call in enumerate(delta.tool_calls):
                self._read_call(at if call.index is None else call.index, call, events)
        elif delta.function_call is not None:  # llama-cpp-python sends a call under both names
            self._read_call(0, WireToolCall(function=delta.function_call), events)

    def append_text(self, part_type: type[Text | Reasoning | Refusal], text: str, events: list[Event]) -> None:
        if self._part_type is not part_type:
            self._close_current_part(events)
            self._part_type = part_type
            self._text_start = self._content_length
            self._part_index = self._part_count
            self._part_count += 1
            events.append(PartStarted(self._index, self._part_index, _EMPTY_PARTS[part_type]))
        if part_type is Text:
            self._content_length += len(text)
        events.append(PartDelta(self._index, self._part_index, text))

    def _read_engine_detail(self, entry: dict[str, Any], events: list[Event]) -> None:
        """Reads a piece of an engine's own entry. Pieces of one type and index belong together; the signature is known at the end."""
        text, key = text_of(entry), (entry["type"], entry.get("index"))
        if self._part_type is not Reasoning and not text:
            self._read_detail(entry, events)  # a signature that came last
            return
        if self._engine_entry and key != (self._engine_entry["type"], self._engine_entry.get("index")):
            self._close_current_part(events)
        if text:
            self.append_text(Reasoning, text, events)
        self._engine_entry |= {name: value for name, value in entry.items() if name != TEXT_KEYS[entry["type"]] and value is not None}
        self._opaque_state = engine_opaque_state(self._engine_entry)

    def _read_detail(self, entry: dict[str, Any], events: list[Event]) -> None:
        """Reads a complete entry. A signature belongs to the open reasoning; an opaque entry becomes a part of its own.

        A gateway like ours sends signatures at the end, when the reasoning is closed: they are for clients that collect the message.
        """
        part = read_detail(entry).part
        if isinstance(part, Reasoning) and self._part_type is Reasoning and part.opaque_state is not None and part.text:
            self._opaque_state = part.opaque_state
        elif isinstance(part, Opaque) or (part.opaque_state is not None and not part.text):
            self._close_current_part(events)
            events += (PartStarted(self._index, self._part_count, part), PartFinished(self._index, self._part_count))
            self._part_count += 1

    def _read_call(self, number: int, call: WireToolCall, events: list[Event]) -> None:
        function = call.function or _NO_FUNCTION
        custom = call.custom
        current = self._calls.get(number)
        name = function.name if custom is None else custom.name
        fragment = arguments_text(function) if custom is None else custom.input or ""
        if current is None or (
            (current.name or (current.id and call.id)) and starts_new_call(current.id, current.fragments, call.id, name, fragment)
        ):
            if current is not None:
                self._close_call(current, events)
            self._close_current_part(events)
            current = self._calls[number] = self._latest_call = _OpenCall(self._part_count, call.id, custom=custom is not None)
            self._part_count += 1
        if not current.started:
            current.id = current.id or call.id
            current.name = join_name(current.name, name)
        if call.extra_content is not NULL:
            current.opaque_state = read_opaque_state(call.extra_content) or current.opaque_state
        if fragment:
            if current.closed:
                if fragment.isspace():
                    return
                raise InvalidUpstreamResponse("The engine continued a tool call whose arguments were complete.")
            current.fragments.append(fragment)
            if current.started:
                events.append(PartDelta(self._index, current.part_index, fragment))
            elif current.name:
                self._start_call(current, events)

    def _start_call(self, call: _OpenCall, events: list[Event]) -> None:
        call.started = True
        events.append(PartStarted(self._index, call.part_index, ToolCall(call_id_or_new(call.id), call.name, "", custom=call.custom)))
        if call.fragments:
            events.append(PartDelta(self._index, call.part_index, "".join(call.fragments)))

    def _close_current_part(self, events: list[Event]) -> None:
        """Closes what is open and known to be complete, as another part begins."""
        if self._part_type is not None:
            events.append(
                PartFinished(self._index, self._part_index, self._opaque_state, tuple(self._citations) if self._part_type is Text else ())
            )
            if self._part_type is Text:
                self._citations.clear()
            self._part_type = self._opaque_state = None
            self._engine_entry = {}
        # Engines may interleave calls or send them one after the other.
        latest, self._latest_call = self._latest_call, None
        if latest is None or not latest.name or latest.closed:
            return
        if is_complete_json(latest.fragments):
            self._close_call(latest, events)
        elif not latest.started:  # calls start in their order
            self._start_call(latest, events)

    def _close_call(self, call: _OpenCall, events: list[Event]) -> None:
        """Ends a call, whose arguments are an object if none came. One of which nothing came at all was none."""
        if not call.closed:
            call.closed = True
            has_arguments = any(not fragment.isspace() for fragment in call.fragments)
            if not call.started:
                if not call.name:
                    if has_arguments:
                        raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
                    return
                self._start_call(call, events)
            if not has_arguments and not call.custom:
                events.append(PartDelta(self._index, call.part_index, "{}"))
            events.append(PartFinished(self._index, call.part_index, call.opaque_state))

    def add_citations(self, sources: tuple[Citation, ...]) -> None:
        """Adds the search results as citations, unless the text has citations of its own."""
        if sources and self._content_length and not self._has_citations:
            self._citations += sources

    def close_all(self) -> list[Event]:
        """Closes every part that is open, once."""
        events: list[Event] = []
        if self._citations and self._part_type is not Text:
            # The citations came without a text that they could belong to.
            self._close_current_part(events)
            self._part_type, self._part_index = Text, self._part_count
            self._part_count += 1
            events.append(PartStarted(self._index, self._part_index, Text("")))
        self._close_current_part(events)
        for call in sorted(self._calls.values(), key=lambda call: call.part_index):
            self._close_call(call, events)
        return events
