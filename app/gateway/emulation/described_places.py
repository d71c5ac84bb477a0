"""DescribedPlaces: where the parts of a chat were before its calls were written as texts. Refusals name the caller's own places."""

import re
from collections.abc import Sequence

from msgspec import Struct

from providers.canonical.chat import Message

_PLACE = re.compile(r"messages\[(?P<message>\d+)\](?:\.content\[(?P<part>\d+)\])?(?P<rest>.*)", re.DOTALL)


class DescribedPlaces(Struct, frozen=True):
    """The former place of each message, and those of its parts.

    A message that was added has the place `messages`.
    """

    messages: Sequence[tuple[str, Sequence[str]]]

    def original_path(self, path: str) -> str:
        """Returns the former path of what is at `path` now.

        For a part that was added, it is that of its message.
        """
        matched = _PLACE.fullmatch(path)
        if matched is None or int(matched["message"]) >= len(self.messages):
            return path
        place, parts = self.messages[int(matched["message"])]
        if matched["part"] is None:
            return place + matched["rest"]
        part = int(matched["part"])
        return parts[part] + matched["rest"] if part < len(parts) else place

    def after_instruction(self, before: int, after: int) -> "DescribedPlaces":
        """Returns the places once an instruction was added, perhaps as a message of its own.

        `before` and `after` count the messages.
        """
        return DescribedPlaces((("messages", ()),) * (after - before) + tuple(self.messages))


def own_places(messages: Sequence[Message]) -> DescribedPlaces:
    """Returns the places of messages that are what they were."""
    return DescribedPlaces(
        [
            (f"messages[{index}]", [f"messages[{index}].content[{number}]" for number in range(len(message.parts))])
            for index, message in enumerate(messages)
        ]
    )
