"""The input items of a request, alone and with the items of earlier turns before them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import Body

items_decoder: msgspec.json.Decoder[str | list[Raw]] = msgspec.json.Decoder(str | list[Raw])


# Items that are no messages: see context_items.py.
CONTEXT_TYPES = frozenset({"additional_tools", "configuration_update", "tool_search_call", "tool_search_output", "compaction_trigger"})
_CONTEXT_MARKERS = tuple(f'"{each}"'.encode() for each in sorted(CONTEXT_TYPES))


class ContinuedInput(list[Raw]):
    """An input whose items are known one by one. The first `earlier_count` of them come from earlier turns."""

    earlier_count = 0
    has_context_items = False  # whether some of them are of CONTEXT_TYPES
    is_text = False  # whether the request's own input is a string
    # the caller's path of each item, once calls and results were put in order; None: they are as they were put together
    paths: Sequence[str] | None = None
    summary_at: int | None = None  # the place of a message that stands for a compaction item
    rewritten: frozenset[int] = frozenset()  # the places of items that stand for another one, whose fields they do not have

    def item_path(self, at: int) -> str:
        """The caller's path of an item; `previous_response_id` for all that comes from earlier turns."""
        if self.paths is not None:
            return self.paths[at]
        if at < self.earlier_count:
            return "previous_response_id"
        return "input" if self.is_text else f"input[{at - self.earlier_count}]"


def list_input_items(body: Mapping[str, Any]) -> list[Raw]:
    """The input items, each as it came. A string becomes a user message."""
    raw_input = body.get("input")
    if raw_input is None:
        return []
    if isinstance(raw_input, ContinuedInput):
        return raw_input
    decoded = items_decoder.decode(raw_input if isinstance(raw_input, Raw) else msgspec.json.encode(raw_input))
    if isinstance(decoded, list):
        return decoded
    return [Raw(msgspec.json.encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": decoded}]}))]


def is_text_input(body: Mapping[str, Any]) -> bool:
    """Whether the input is a string and not a list."""
    raw_input = body.get("input")
    return isinstance(raw_input, Raw) and bytes(raw_input).lstrip()[:1] == b'"'


def prepend_items(body: Body, earlier_items: list[Raw]) -> ContinuedInput:
    """Puts earlier items before the request's own, removes `previous_response_id`, and returns the new input."""
    items = ContinuedInput([*earlier_items, *list_input_items(body)])
    items.earlier_count, items.is_text = len(earlier_items), is_text_input(body)
    items.has_context_items = has_context_items(body) or any(marker in bytes(item) for item in earlier_items for marker in _CONTEXT_MARKERS)
    body["input"] = items
    body.pop("previous_response_id", None)
    return items


def mark_context_items(body: Body) -> None:
    """Notes that the input has items of CONTEXT_TYPES: nobody searches an input for them again."""
    items = ContinuedInput(list_input_items(body))
    items.has_context_items = True
    body["input"] = items


def has_context_items(body: Mapping[str, Any]) -> bool:
    """Whether the input of a request that was parsed has items of CONTEXT_TYPES."""
    return "input" in body and body["input"].__class__ is ContinuedInput and body["input"].has_context_items
