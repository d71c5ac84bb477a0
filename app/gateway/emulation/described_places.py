"""DescribedPlaces: where the parts of a chat were before its calls were written as texts. Refusals name the caller's own places."""

import re
from collections.abc import Sequence

from msgspec import Struct

from providers.canonical.chat import Message

_PLACE = re.compile(r"messages\[(?P<message>\d+)\](?:\.content\[(?P<part>\d+)\])?(?P<rest>.*)", re.DOTALL)


class DescribedPlaces(Struct, frozen=True):
    """For each message its place before, and those of its parts. A message that was added has the place `messages`."""

    messages: Sequence[tuple[str, Sequence[str]]]

    def original_path(self, path: str) -> str:
        """The path before of what is at `path` now; of a part that was added, that of its message."""
        matched = _PLACE.fullmatch(path)
        if matched is None or int(matched["message"]) >= len(self.messages):
            return path
        place, parts = self.messages[int(matched["message"])]
        if matched["part"] is None:
            return place + matched["rest"]
        part = int(matched["part"])
        return parts[part] + matched["rest"] if part < len(parts) else place

    def after_instruction(self, before: int, after: int) -> "DescribedPlaces":
        """The places once an instruction was added: `before` and `after` count the messages. It may be a message of its own."""
        return DescribedPlaces((("messages", ()),) * (after - before) + tuple(self.messages))


def own_places(messages: Sequence[Message]) -> DescribedPlaces:
    """Those of messages that are what they were."""
    return DescribedPlaces(
        [
            (f"messages[{index}]", [f"messages[{index}].content[{number}]" for number in range(len(message.parts))])
            for index, message in enumerate(messages)
        ]
    )
