"""The input items of a request, alone and with the items of earlier turns before them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import Body

items_decoder: msgspec.json.Decoder[str | list[Raw]] = msgspec.json.Decoder(str | list[Raw])


class ContinuedInput(list[Raw]):
    """An input whose first `earlier_count` items come from earlier turns."""

    earlier_count = 0
    is_text = False  # whether the request's own input is a string
    # the caller's path of each item, once calls and results were put in order; None: they are as they were put together
    paths: Sequence[str] | None = None
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
    body["input"] = items
    body.pop("previous_response_id", None)
    return items
