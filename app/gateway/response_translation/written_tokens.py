"""Estimates how many tokens a stream has brought, for streams that end before their usage is reported."""

from providers.canonical.events import Event, PartDelta
from providers.canonical.token_estimate import CHARACTERS_PER_WRITTEN_TOKEN


class WrittenTokenCounter:
    """One token for each delta, or for every 4 characters where engines put several tokens into a delta."""

    def __init__(self) -> None:
        self._deltas = 0
        self._characters = 0

    @property
    def tokens(self) -> int:
        return max(self._deltas, self._characters // CHARACTERS_PER_WRITTEN_TOKEN)

    def observe(self, event: Event) -> None:
        if isinstance(event, PartDelta):
            self._deltas += 1
            self._characters += len(event.text)
