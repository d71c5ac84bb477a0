"""What an engine leaves out of a streamed Response, said for it: no SDK puts an answer together without its items, parts and deltas.

Where nothing is left out, nothing is touched.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.dialect import Stamp
from providers.dialects.openai_responses.conversation import PREFIXES
from providers.dialects.openai_responses.items import item_id, message_item, refusal_content, text_content
from providers.errors import Garbled
from providers.wire import NULL, UNREADABLE, mended

T = TypeVar("T")
_Event = dict[str, Any]
_Place = tuple[int, int]


class Told(Struct):
    """An event of an engine's, as far as it tells of an item."""

    type: str = ""
    sequence_number: int | None = None
    response: Raw = NULL
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    item: Raw = NULL


class _Content(Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Whole(Struct):
    """What an event says that ends something."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    part: _Content | None = None

    @property
    def said(self) -> str:
        return self.text or self.refusal or self.arguments or self.input or (self.part and (self.part.text or self.part.refusal)) or ""


_wholes = msgspec.json.Decoder(_Whole)
_object = msgspec.json.Decoder(_Event)
_output = msgspec.json.Decoder(list[_Event] | None)

# By what an event tells of: the part of a message that it is.
_CONTENT: Mapping[str, str] = {"output_text": "output_text", "output_text.annotation": "output_text", "refusal": "refusal"}
_CALLS: Mapping[str, str] = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}
_CALL_ITEMS: Mapping[str, str] = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}
# The most items, and parts of one, that an engine may leave out: what is left out is said for it.
_MOST_SKIPPED = 64
_THOUGHTS = frozenset({"reasoning_text", "reasoning_summary_text", "reasoning_summary_part"})


class Mended(Struct):
    """What is to come before an event, and what is to be set in it. `passes` False: it is not to be told."""

    before: list[_Event] = []
    change: _Event = {}
    passes: bool = True


class Mending:
    """One per stream. follows() says of most events that they need no mend()."""

    def __init__(self, stamp: Stamp) -> None:
        self._stamp = stamp
        self._ids: dict[int, str] = {}
        self._places: dict[str, int] = {}
        self._last = 0
        self._begun: set[_Place] = set()
        self._grown: set[_Place] = set()

    def follows(self, event: Told) -> bool:
        """Whether it goes on with a text that has begun."""
        at = event.output_index
        return at is not None and event.item_id is not None and (at, event.content_index or 0) in self._grown

    def mend(self, event: Told, data: bytes) -> Mended:
        self._check(event.output_index)
        thing, _, happened = event.type.removeprefix("response.").rpartition(".")
        if thing == "output_item":
            return self._item(event, happened)
        if thing in _CONTENT or thing == "content_part":
            return self._content(event, thing, happened, data)
        if thing in _CALLS:
            return self._call(event, thing, happened, data)
        if thing in _THOUGHTS:
            at = self._at(event)
            if happened == "delta":
                self._grown.add((at, event.content_index or 0))
            return Mended([*self._begin(at, event.item_id, "reasoning")], self._placed(event, at))
        return Mended()

    def _check(self, at: int | None) -> None:
        if at is not None and not 0 <= at <= self._last + _MOST_SKIPPED:
            raise Garbled(f"The engine's event is of item {at}, and the last before it was {self._last}.")

    def complete(self, body: dict[str, Any]) -> list[_Event]:
        """What is to come before the Response that ends the stream: all of it, if nothing of it was told. Its items get their ids."""
        try:
            output = _output.decode(body.get("output", NULL))
        except UNREADABLE:
            return []
        if not output:
            return []
        before: list[_Event] = []
        if not self._ids:
            for at, item in enumerate(output):
                before += [
                    *self._whole(at, self._identified(at, item)),
                    self._event("output_item.done", at, item=self._identified(at, item)),
                ]
        if not all(item.get("id") for item in output):
            body["output"] = Raw(msgspec.json.encode([self._identified(at, item) for at, item in enumerate(output)]))
        return before

    def _item(self, event: Told, happened: str) -> Mended:
        try:
            item = _read(_object, bytes(event.item))
        except UNREADABLE:
            return Mended()
        at = len(self._ids) if happened == "added" and event.output_index is None else self._at(event, item.get("id"))
        named = self._identified(at, item)
        if happened == "added" and self._ids.get(at) == named["id"]:
            return Mended(passes=False)
        change = self._placed(event, at, of_item=True) | ({} if named is item else {"item": named})
        if happened == "added":
            self._know(at, named)
            for within, part in enumerate(named.get("content") or ()):
                self._begun.add((at, within))
                if _said(part):
                    self._grown.add((at, within))
            return Mended(change=change)
        return Mended([*self._whole(at, named)], change)

    def _whole(self, at: int, item: _Event) -> Iterator[_Event]:
        """What was not told of an item that is whole."""
        if at not in self._ids:
            self._know(at, item)
            yield self._event("output_item.added", at, item=_empty(item))
        kind = str(item.get("type"))
        if kind == "message":
            for within, part in enumerate(item.get("content") or ()):
                yield from self._part(at, within, part)
        elif kind in _CALL_ITEMS and (at, 0) not in self._grown:
            thing = _CALL_ITEMS[kind]
            said: str = item.get(_CALLS[thing]) or ""
            self._grown.add((at, 0))
            if said:
                yield self._event(f"{thing}.delta", at, item_id=self._ids[at], delta=said)
            yield self._event(f"{thing}.done", at, item_id=self._ids[at], **{_CALLS[thing]: said, "name": item.get("name")})

    def _part(self, at: int, within: int, part: _Event) -> Iterator[_Event]:
        place, kind = (at, within), part.get("type", "")
        if kind not in ("output_text", "refusal"):
            return
        is_new = place not in self._begun
        yield from self._begin_part(place, kind)
        head = {"item_id": self._ids[at], "content_index": within}
        if place not in self._grown and _said(part):
            yield from self._grow(place, kind, _said(part))
            rest = _beside(kind)
            yield self._event(f"{kind}.done", at, **head, **{"text" if rest else "refusal": _said(part)}, **rest)
        if is_new:
            yield self._event("content_part.done", at, **head, part=part)

    def _content(self, event: Told, thing: str, happened: str, data: bytes) -> Mended:
        at = self._at(event)
        place = (at, event.content_index or 0)
        told = _whole_in(data) if happened != "delta" else _Whole()
        kind = _CONTENT.get(thing) or (told.part.type if told.part else "")
        if kind not in ("output_text", "refusal"):
            begun = [*self._begin(at, event.item_id, "reasoning")] if kind == "reasoning_text" else []
            return Mended(begun, self._placed(event, at))
        before = [*self._begin(at, event.item_id, "message")]
        if thing == "content_part" and happened == "added":
            if place in self._begun:
                return Mended(before, passes=False)
            if place[1] > 0:
                before += self._begin_part((at, place[1] - 1), kind)
            self._begun.add(place)
        before += self._begin_part(place, kind)
        if happened == "delta":
            self._grown.add(place)
        elif happened == "done" and place not in self._grown and told.said:
            before += self._grow(place, kind, told.said)
        change = self._placed(event, at)
        return Mended(before, change if event.content_index is not None else {**change, "content_index": 0})

    def _call(self, event: Told, thing: str, happened: str, data: bytes) -> Mended:
        """Of a call whose item has not begun nobody knows the name: its last event will tell all of it."""
        at = self._at(event)
        if at not in self._ids:
            return Mended(passes=False)
        before: list[_Event] = []
        said = _whole_in(data).said if happened == "done" else ""
        if said and (at, 0) not in self._grown:
            before.append(self._event(f"{thing}.delta", at, item_id=self._ids[at], delta=said))
        self._grown.add((at, 0))
        return Mended(before, self._placed(event, at))

    def _begin(self, at: int, id: str | None, kind: str) -> Iterator[_Event]:
        if at not in self._ids:
            item = self._identified(at, {"type": kind, **({"id": id} if id else {})})
            self._know(at, item)
            if kind == "message":
                item = message_item(item["id"], [], "in_progress")
            else:
                item["summary"] = []
            yield self._event("output_item.added", at, item=item)

    def _begin_part(self, place: _Place, kind: str) -> Iterator[_Event]:
        """And those before it: the SDKs count them."""
        at, last = place
        missing = [within for within in range(last + 1) if (at, within) not in self._begun] if place not in self._begun else []
        if len(missing) > _MOST_SKIPPED or last < 0:
            raise Garbled(f"The engine's event is of part {last} of item {at}, of which there are not that many.")
        for within in missing:
            self._begun.add((at, within))
            empty = text_content("", []) if kind == "output_text" else refusal_content("")
            yield self._event("content_part.added", at, item_id=self._ids[at], content_index=within, part=empty)

    def _grow(self, place: _Place, kind: str, text: str) -> Iterator[_Event]:
        at, within = place
        self._grown.add(place)
        yield self._event(f"{kind}.delta", at, item_id=self._ids[at], content_index=within, delta=text, **_beside(kind))

    def _event(self, kind: str, at: int, **more: Any) -> _Event:
        return {"type": f"response.{kind}", "output_index": at, **more}

    def _at(self, event: Told, id: str | None = None) -> int:
        """Where an engine that tells no places means: at the item with that id, or else at a new one; without an id, at the last."""
        if event.output_index is not None:
            return event.output_index
        id = id or event.item_id
        if id is None:
            return max(self._ids, default=0)
        return self._places.get(id, len(self._ids))

    def _know(self, at: int, item: _Event) -> None:
        self._ids[at] = item["id"]
        self._last = max(self._last, at)
        self._places[item["id"]] = at

    def _identified(self, at: int, item: _Event) -> _Event:
        if item.get("id"):
            return item
        return {**item, "id": self._ids.get(at) or item_id(self._stamp, PREFIXES.get(str(item.get("type")), "item"), at)}

    def _placed(self, event: Told, at: int, *, of_item: bool = False) -> _Event:
        change: _Event = {} if event.output_index is not None else {"output_index": at}
        if not of_item and not event.item_id and at in self._ids:
            change["item_id"] = self._ids[at]
        return change


def _read(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return decoder.decode(mended(raw))


def _whole_in(data: bytes) -> _Whole:
    try:
        return _read(_wholes, data)
    except UNREADABLE:
        return _Whole()


def _beside(kind: str) -> _Event:
    return {"logprobs": []} if kind == "output_text" else {}


def _said(part: _Event) -> str:
    return part.get("text") or part.get("refusal") or ""


def _empty(item: _Event) -> _Event:
    """An item as it begins."""
    begun = {key: value for key, value in item.items() if key != "encrypted_content"}
    for key in ("content", "summary"):
        if isinstance(begun.get(key), list):
            begun[key] = []
    for key in _CALLS.values():
        if isinstance(begun.get(key), str):
            begun[key] = ""
    return begun | {"status": "in_progress"} if "status" in item else begun
