"""Events of a streamed Response with their sequence numbers, and its output items as they are added and done."""

from typing import Any

import msgspec

from providers.dialect import ResponseMeta
from providers.dialects.openai_responses.item_ids import item_id
from providers.dialects.openai_responses.open_parts import OpenPart

_encode = msgspec.json.encode


class OutputEvents:
    """Writes events, each with the next number. `output` holds the items; one that is not done is None."""

    def __init__(self, meta: ResponseMeta) -> None:
        self.sequence_number = 0
        self.output: list[Any] = []
        self._meta = meta
        self._held_item: tuple[int, dict[str, Any]] | None = None

    def write(self, kind: str, body: dict[str, Any]) -> bytes:
        raw = _encode({"type": kind, **body, "sequence_number": self.sequence_number})
        self.sequence_number += 1
        return b"event: " + kind.encode() + b"\ndata: " + raw + b"\n\n"

    def write_delta(self, state: OpenPart, text: str) -> bytes:
        self.sequence_number += 1
        return b'%b%b%b,"sequence_number":%d}\n\n' % (state.delta_prefix, _encode(text), state.delta_suffix, self.sequence_number - 1)

    def reserve_item(self, prefix: str) -> tuple[int, str]:
        """The index and id of the next output item."""
        output_index = len(self.output)
        self.output.append(None)
        return output_index, item_id(self._meta, prefix, output_index)

    def write_item_added(self, output_index: int, item: Any) -> bytes:
        return self.write("response.output_item.added", {"output_index": output_index, "item": item})

    def write_item_done(self, output_index: int, item: Any) -> bytes:
        self.output[output_index] = item
        return self.write("response.output_item.done", {"output_index": output_index, "item": item})

    def hold_item(self, output_index: int, item: dict[str, Any]) -> bytes:
        """Keeps the end of an item until it is known whether the response was cut off in it: it is, if the response ends here."""
        released = self.release_item("completed")
        self._held_item = output_index, item
        return released

    def release_item(self, status: str) -> bytes:
        if self._held_item is None:
            return b""
        (output_index, item), self._held_item = self._held_item, None
        return self.write_item_done(output_index, {**item, "status": status})

    def write_whole_item(self, output_index: int, item: Any) -> bytes:
        return self.write_item_added(output_index, item) + self.write_item_done(output_index, item)
