"""Adds the events that an engine leaves out of a streamed Response: SDKs need its items, parts and deltas.

If nothing is missing, nothing changes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses.item_ids import ID_PREFIXES, item_id
from providers.dialects.openai_responses.repair_calls import CALL_FIELDS, is_named, started_call, whole_call
from providers.dialects.openai_responses.stream_event_schema import DoneEvent, ItemEvent, decode_done_event, decode_repaired
from providers.dialects.openai_responses.write_output_items import write_message_item, write_refusal_content, write_text_content

_Event = dict[str, Any]
_PartPosition = tuple[int, int]


_object_decoder = msgspec.json.Decoder(_Event)
_output_decoder = msgspec.json.Decoder(list[_Event] | None)

# Subject of an event -> type of the message part that it belongs to.
_CONTENT_TYPES: Mapping[str, str] = {"output_text": "output_text", "output_text.annotation": "output_text", "refusal": "refusal"}
_CALL_FIELDS: Mapping[str, str] = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}
_CALL_ITEMS: Mapping[str, str] = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}
# How many items, and parts of an item, an engine may skip: events for all of them are added.
_MAX_SKIPPED = 64
_REASONING_TYPES = frozenset({"reasoning_text", "reasoning_summary_text", "reasoning_summary_part"})


class EventRepair(Struct):
    """The events to send before an event, and the fields to set in it."""

    missing_events: list[_Event] = []
    changes: _Event = {}
    is_forwarded: bool = True  # False: the event is dropped


class StreamRepair:
    """Repairs the events of a stream. One per stream. Most events need no repair_event(): continues_text() says so."""

    def __init__(self, meta: ResponseMeta) -> None:
        self._meta = meta
        self._ids: dict[int, str] = {}
        self._call_names: dict[int, str] = {}
        self._item_indexes: dict[str, int] = {}
        self._last_item = 0
        # Calls whose names have not come, and the arguments of those whose items may not hold them.
        self._unnamed_calls: set[int] = set()
        self._arguments: dict[int, list[str]] = {}
        self._started_parts: set[_PartPosition] = set()
        self._parts_with_text: set[_PartPosition] = set()

    def continues_text(self, event: ItemEvent) -> bool:
        """Whether the event continues a text that has started, and so needs no repair."""
        at = event.output_index
        return at is not None and event.item_id is not None and (at, event.content_index or 0) in self._parts_with_text

    def repair_event(self, event: ItemEvent, data: bytes) -> EventRepair:
        self._check_index(event.output_index)
        subject, _, action = event.type.removeprefix("response.").rpartition(".")
        if subject == "output_item":
            return self._repair_item(event, action)
        if subject in _CONTENT_TYPES or subject == "content_part":
            return self._repair_content(event, subject, action, data)
        if subject in _CALL_FIELDS:
            return self._repair_call(event, subject, action, data)
        if subject in _REASONING_TYPES:
            at = self._item_index(event)
            if action == "delta":
                self._parts_with_text.add((at, event.content_index or 0))
            return EventRepair([*self._start_item(at, event.item_id, "reasoning")], self._position_changes(event, at))
        return EventRepair()

    def _check_index(self, at: int | None) -> None:
        if at is not None and not 0 <= at <= self._last_item + _MAX_SKIPPED:
            raise InvalidUpstreamResponse(f"The engine's event is of item {at}, and the last before it was {self._last_item}.")

    def missing_before_end(self, body: dict[str, Any]) -> list[_Event]:
        """The events to send before the Response that ends the stream: all of its items, if none was sent. Adds missing ids to `body`."""
        try:
            output = _output_decoder.decode(body.get("output", NULL))
        except DECODE_ERRORS:
            return []
        if not output:
            return []
        missing: list[_Event] = []
        items = [self._whole_item(at, item) for at, item in enumerate(output)]
        unsent = frozenset(self._unnamed_calls if self._ids else range(len(items)))
        for at in sorted(unsent - self._ids.keys()):
            if at < len(items):
                missing += [*self._missing_item_events(at, items[at]), self._event("output_item.done", at, item=items[at])]
        if any(item is not original for item, original in zip(items, output, strict=True)):
            body["output"] = Raw(msgspec.json.encode(items))
        return missing

    def _whole_item(self, at: int, item: _Event) -> _Event:
        """An item that is complete, with its id and, if it is a call, its arguments. Raises InvalidUpstreamResponse."""
        identified, sent = self._with_id(at, item), self._arguments.get(at)
        field = CALL_FIELDS.get(str(item.get("type")))
        if field is not None and not item.get(field) and sent is None and (at, 0) in self._parts_with_text:
            return identified  # all that there is of its arguments are the deltas, which the caller has
        return whole_call(identified, "".join(sent or ()))

    def _repair_item(self, event: ItemEvent, action: str) -> EventRepair:
        try:
            item = decode_repaired(_object_decoder, bytes(event.item))
        except DECODE_ERRORS:
            return EventRepair()
        at = len(self._ids) if action == "added" and event.output_index is None else self._item_index(event, item.get("id"))
        if action == "added" and item.get("type") in CALL_FIELDS and not is_named(item):
            self._unnamed_calls.add(at)  # its last event will hold all of it
            return EventRepair(is_forwarded=False)
        identified = self._with_id(at, item) if action == "added" else self._whole_item(at, item)
        if action == "added" and (started := started_call(identified)) is not identified:
            identified, self._arguments[at] = started, []
        if action == "added" and self._ids.get(at) == identified["id"]:
            return EventRepair(is_forwarded=False)
        change = self._position_changes(event, at, of_item=True) | ({} if identified is item else {"item": identified})
        if action == "added":
            self._remember_item(at, identified)
            for part_index, part in enumerate(identified.get("content") or ()):
                self._started_parts.add((at, part_index))
                if _part_text(part):
                    self._parts_with_text.add((at, part_index))
            return EventRepair(changes=change)
        return EventRepair([*self._missing_item_events(at, identified)], change)

    def _missing_item_events(self, at: int, item: _Event) -> Iterator[_Event]:
        """The events that were not sent for an item that is complete."""
        if at not in self._ids:
            self._remember_item(at, item)
            yield self._event("output_item.added", at, item=_empty_item(item))
        kind = str(item.get("type"))
        if kind == "message":
            for part_index, part in enumerate(item.get("content") or ()):
                yield from self._missing_part_events(at, part_index, part)
        elif kind in _CALL_ITEMS and (at, 0) not in self._parts_with_text and not self._arguments.get(at):
            subject = _CALL_ITEMS[kind]
            arguments: str = item.get(_CALL_FIELDS[subject]) or ""
            self._parts_with_text.add((at, 0))
            if arguments:
                yield self._event(f"{subject}.delta", at, item_id=self._ids[at], delta=arguments)
            yield self._event(f"{subject}.done", at, item_id=self._ids[at], **{_CALL_FIELDS[subject]: arguments, "name": item.get("name")})

    def _missing_part_events(self, at: int, part_index: int, part: _Event) -> Iterator[_Event]:
        position, kind = (at, part_index), part.get("type", "")
        if kind not in ("output_text", "refusal"):
            return
        is_new = position not in self._started_parts
        yield from self._start_part(position, kind)
        head = {"item_id": self._ids[at], "content_index": part_index}
        if position not in self._parts_with_text and _part_text(part):
            yield from self._write_delta(position, kind, _part_text(part))
            logprobs = _logprobs_field(kind)
            yield self._event(f"{kind}.done", at, **head, **{"text" if logprobs else "refusal": _part_text(part)}, **logprobs)
        if is_new:
            yield self._event("content_part.done", at, **head, part=part)

    def _repair_content(self, event: ItemEvent, subject: str, action: str, data: bytes) -> EventRepair:
        at = self._item_index(event)
        position = (at, event.content_index or 0)
        done_event = decode_done_event(data) if action != "delta" else DoneEvent()
        kind = _CONTENT_TYPES.get(subject) or (done_event.part.type if done_event.part else "")
        if kind not in ("output_text", "refusal"):
            item_start = [*self._start_item(at, event.item_id, "reasoning")] if kind == "reasoning_text" else []
            return EventRepair(item_start, self._position_changes(event, at))
        missing = [*self._start_item(at, event.item_id, "message")]
        if subject == "content_part" and action == "added":
            if position in self._started_parts:
                return EventRepair(missing, is_forwarded=False)
            if position[1] > 0:
                missing += self._start_part((at, position[1] - 1), kind)
            self._started_parts.add(position)
        missing += self._start_part(position, kind)
        if action == "delta":
            self._parts_with_text.add(position)
        elif action == "done" and position not in self._parts_with_text and done_event.complete_text:
            missing += self._write_delta(position, kind, done_event.complete_text)
        change = self._position_changes(event, at)
        return EventRepair(missing, change if event.content_index is not None else {**change, "content_index": 0})

    def _repair_call(self, event: ItemEvent, subject: str, action: str, data: bytes) -> EventRepair:
        """Drops events of a call whose item has not started: its name is not known, and its last event will hold all of it."""
        at = self._item_index(event)
        if at not in self._ids:
            return EventRepair(is_forwarded=False)
        missing: list[_Event] = []
        kept = self._arguments.get(at)
        if action == "delta" and kept is not None:
            kept.append(decode_done_event(data).delta or "")
            return EventRepair(changes=self._position_changes(event, at))
        done_event = decode_done_event(data) if action == "done" else DoneEvent()
        arguments = done_event.complete_text
        if action == "done" and not arguments and (kept or (at, 0) not in self._parts_with_text):
            arguments = "".join(kept or ()) or ("{}" if subject == "function_call_arguments" else "")
        if arguments:
            self._arguments[at] = [arguments]
        if kept:
            self._parts_with_text.add((at, 0))
        if arguments and (at, 0) not in self._parts_with_text:
            missing.append(self._event(f"{subject}.delta", at, item_id=self._ids[at], delta=arguments))
        self._parts_with_text.add((at, 0))
        change = self._position_changes(event, at)
        if action == "done" and subject == "function_call_arguments" and done_event.name is None and at in self._call_names:
            change["name"] = self._call_names[at]
        if action == "done" and subject == "function_call_arguments" and arguments and arguments != done_event.arguments:
            change["arguments"] = arguments
        return EventRepair(missing, change)

    def _start_item(self, at: int, id: str | None, kind: str) -> Iterator[_Event]:
        if at not in self._ids:
            item = self._with_id(at, {"type": kind, **({"id": id} if id else {})})
            self._remember_item(at, item)
            if kind == "message":
                item = write_message_item(item["id"], [], "in_progress")
            else:
                item["summary"] = []
            yield self._event("output_item.added", at, item=item)

    def _start_part(self, position: _PartPosition, kind: str) -> Iterator[_Event]:
        """Starts a part, and those before it that have not started: SDKs count them."""
        at, last = position
        missing = (
            [part_index for part_index in range(last + 1) if (at, part_index) not in self._started_parts]
            if position not in self._started_parts
            else []
        )
        if len(missing) > _MAX_SKIPPED or last < 0:
            raise InvalidUpstreamResponse(f"The engine's event is of part {last} of item {at}, of which there are not that many.")
        for within in missing:
            self._started_parts.add((at, within))
            empty = write_text_content("", []) if kind == "output_text" else write_refusal_content("")
            yield self._event("content_part.added", at, item_id=self._ids[at], content_index=within, part=empty)

    def _write_delta(self, position: _PartPosition, kind: str, text: str) -> Iterator[_Event]:
        at, part_index = position
        self._parts_with_text.add(position)
        yield self._event(f"{kind}.delta", at, item_id=self._ids[at], content_index=part_index, delta=text, **_logprobs_field(kind))

    def _event(self, kind: str, at: int, **fields: Any) -> _Event:
        return {"type": f"response.{kind}", "output_index": at, **fields}

    def _item_index(self, event: ItemEvent, id: str | None = None) -> int:
        """The output index. If the engine sends none: that of the item with that id, else of a new item; without an id, of the last."""
        if event.output_index is not None:
            return event.output_index
        id = id or event.item_id
        if id is None:
            return max(self._ids, default=0)
        return self._item_indexes.get(id, len(self._ids))

    def _remember_item(self, at: int, item: _Event) -> None:
        self._ids[at] = item["id"]
        self._last_item = max(self._last_item, at)
        self._item_indexes[item["id"]] = at
        if isinstance(item.get("name"), str):
            self._call_names[at] = item["name"]

    def _with_id(self, at: int, item: _Event) -> _Event:
        if item.get("id"):
            return item
        return {**item, "id": self._ids.get(at) or item_id(self._meta, ID_PREFIXES.get(str(item.get("type")), "item"), at)}

    def _position_changes(self, event: ItemEvent, at: int, *, of_item: bool = False) -> _Event:
        change: _Event = {} if event.output_index is not None else {"output_index": at}
        if not of_item and not event.item_id and at in self._ids:
            change["item_id"] = self._ids[at]
        return change


def _logprobs_field(kind: str) -> _Event:
    return {"logprobs": []} if kind == "output_text" else {}


def _part_text(part: _Event) -> str:
    return part.get("text") or part.get("refusal") or ""


def _empty_item(item: _Event) -> _Event:
    """An item as it is when it starts: without its content."""
    emptied = {key: value for key, value in item.items() if key != "encrypted_content"}
    for key in ("content", "summary"):
        if isinstance(emptied.get(key), list):
            emptied[key] = []
    for key in _CALL_FIELDS.values():
        if isinstance(emptied.get(key), str):
            emptied[key] = ""
    return emptied | {"status": "in_progress"} if "status" in item else emptied
