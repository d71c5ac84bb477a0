"""What a stream has brought: an estimate of its tokens, where it ends before its usage is reported, and whether anything came."""

from providers.canonical.chat import Opaque, Reasoning, ToolCall, Usage
from providers.canonical.events import Event, PartDelta, PartStarted
from providers.canonical.token_estimate import tokens_of_bytes


class WrittenTokenCounter:
    """See providers/canonical/token_estimate.py. observe() needs no events but those of parts."""

    def __init__(self) -> None:
        self._bytes = 0
        self._has_other_parts = False

    @property
    def tokens(self) -> int:
        return tokens_of_bytes(self._bytes)

    def observe(self, event: Event) -> None:
        if isinstance(event, PartDelta):
            self._bytes += len(event.text.encode())
        elif isinstance(event, PartStarted) and isinstance(event.part, ToolCall | Opaque | Reasoning):
            self._has_other_parts = True

    def is_empty(self, finish_reason: str | None, usage: Usage | None) -> bool:
        """Whether neither content nor calls nor usage came, and the response was neither cut off nor filtered."""
        if self._bytes or self._has_other_parts or finish_reason in ("length", "content_filter", None):
            return False
        return usage is None or not (usage.input or usage.output)
