"""The state of parts and messages that the stream writer has started."""

from typing import Any

import msgspec

from providers.canonical.chat import Part
from providers.dialects.openai_responses.item_ids import id_prefix as id_prefix

_encode = msgspec.json.encode


class OpenMessage:
    """A message that is being written. Its content is neighbouring texts and refusals, of which `open_count` are not complete."""

    __slots__ = ("content", "ended", "id", "open_count", "output_index", "phase")

    def __init__(self, output_index: int, id: str, phase: str | None) -> None:
        self.output_index = output_index
        self.id = id
        self.phase = phase
        self.content: list[dict[str, Any]] = []
        self.open_count = 0
        self.ended = False


class OpenPart:
    """A part that is being written. `delta_prefix` and `delta_suffix` are the bytes around the text of each of its deltas."""

    __slots__ = (
        "content_index",
        "delta_prefix",
        "delta_suffix",
        "event_head",
        "event_prefix",
        "id",
        "message",
        "output_index",
        "part",
        "texts",
    )

    def __init__(self, part: Part, output_index: int, id: str) -> None:
        self.part = part
        self.output_index = output_index
        self.id = id
        self.content_index = 0
        self.event_prefix = ""
        self.event_head: dict[str, Any] = {"item_id": id, "output_index": output_index}
        self.message: OpenMessage | None = None
        self.texts: list[str] = []
        self.delta_prefix = self.delta_suffix = b""

    def set_delta_type(self, event_name: str, **fields: Any) -> None:
        """Makes further deltas events of the type `response.EVENT_NAME.delta`."""
        self.event_prefix = f"response.{event_name}"
        event = f"{self.event_prefix}.delta"
        encoded_head = _encode({"type": event, **self.event_head, "delta": ""})
        self.delta_prefix = b"event: " + event.encode() + b"\ndata: " + encoded_head[:-3]
        self.delta_suffix = b"," + _encode(fields)[1:-1] if fields else b""
