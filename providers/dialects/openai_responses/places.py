"""Where an ask in Responses says what its meaning has at a place: paths of the meaning as paths of the caller's."""

import re

import msgspec

from providers.dialects.openai_responses.conversation import Resumed, input_items, is_text
from providers.dialects.openai_responses.fields import Object, text_of
from providers.dialects.openai_responses.reading_input import RESULTS, Placed, read_placed
from providers.errors import Malformed
from providers.wire import Body

_PATH = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\])?(?:\.content\[(\d+)\])?((?:\..+)?)", re.DOTALL)
_object = msgspec.json.Decoder(Object)
_parts = msgspec.json.Decoder(str | list[Object])
# What the meaning calls otherwise.
_NAMES = {".citations": ".annotations"}


def place(body: Body, path: str) -> str:
    """See providers.dialect.ChatDialect. What an earlier answer said, or was asked, stands nowhere but under `previous_response_id`."""
    found = _PATH.fullmatch(path)
    if found is None:
        return path
    message, part, within, rest = found.groups()
    try:
        placed = list(read_placed(body))
    except Malformed:
        return path
    if int(message) >= len(placed):
        return path
    return _place(body, placed[int(message)], part, within, _NAMES.get(rest, rest)) or path


def _place(body: Body, placed: Placed, part: str | None, within: str | None, rest: str) -> str | None:
    """None for what is not there."""
    if not placed.items:
        return "instructions"
    items = input_items(body)
    if part is None:
        at = next((each for each in placed.items if _said(_object.decode(items[each]), rest)), placed.items[0])
        return _item(body, at, _said(_object.decode(items[at]), rest))
    if int(part) >= len(placed.parts):
        return None
    at, inner = placed.parts[int(part)]
    item = _object.decode(items[at])
    kind = text_of(item, "type") or "message"
    if kind == "message":
        return _item(body, at, _within(item, "content", inner, rest))
    if kind in RESULTS and within is not None:
        return _item(body, at, _within(item, "output", int(within), rest))
    return _item(body, at, _said(item, rest))


def _within(item: Object, key: str, at: int, rest: str) -> str:
    """A text in place of a list of parts is one part, of which no more can be said."""
    parts = _parts.decode(item[key])
    return f".{key}" if isinstance(parts, str) or at >= len(parts) else f".{key}[{at}]{_said(parts[at], rest)}"


def _said(told: Object, rest: str) -> str:
    """The rest of a path, if it is there."""
    return rest if re.split(r"[.\[]", rest[1:])[0] in told else ""


def _item(body: Body, at: int, rest: str) -> str:
    said = body["input"]
    if isinstance(said, Resumed):
        if at < said.earlier:
            return "previous_response_id"
        at -= said.earlier
    if said.is_text if isinstance(said, Resumed) else is_text(body):
        return "input"
    return f"input[{at}]{rest}"
