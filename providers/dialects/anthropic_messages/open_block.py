"""A block of a streamed message that has begun, with what its deltas have brought so far."""

import msgspec
from msgspec import Raw

from providers.canonical.chat import Citation, Opaque, Part
from providers.canonical.tool_calls import is_json_object

_object = msgspec.json.Decoder(dict[str, Raw])


class OpenBlock:
    """A block that has begun."""

    __slots__ = ("citations", "fields", "has_content", "initial_arguments", "input_pieces", "part", "part_index", "signature")

    def __init__(self, part_index: int, part: Part | None, initial_arguments: str = "") -> None:
        self.part_index = part_index
        self.part = part  # None: it is not a part, but carries the signature of a call
        self.has_content = False
        self.signature = ""
        self.citations: list[Citation] = []
        self.initial_arguments = initial_arguments  # those that came with the start of a call
        self.input_pieces: list[str] = []  # what followed the start of a block that only Anthropic has, as is `fields`
        self.fields: dict[str, Raw] = {}

    def collect_opaque(self, partial_json: str | None, data: bytes) -> None:
        """Adds a delta of a block that only Anthropic has.

        `input` arrives in pieces; any other field of a delta replaces that of the block.
        """
        if partial_json is not None:
            self.input_pieces.append(partial_json)
        else:
            delta_fields = _object.decode(_object.decode(data)["delta"])
            self.fields.update({key: value for key, value in delta_fields.items() if key != "type"})

    def assemble_opaque(self, part: Opaque) -> Opaque:
        """Returns the part with all that its deltas added."""
        if not self.input_pieces and not self.fields:
            return part
        fields = {**_object.decode(part.raw), **self.fields}
        input_json = "".join(self.input_pieces)
        if is_json_object(input_json):
            fields["input"] = Raw(input_json.encode())
        return Opaque(part.origin, Raw(msgspec.json.encode(fields)))
