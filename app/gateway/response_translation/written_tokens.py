"""Counts what a stream has brought.

That is how many tokens, where it ends before its usage is reported, and whether anything came.
"""

import re

from providers.canonical.chat import Opaque, Reasoning, ToolCall, Usage
from providers.canonical.events import Event, PartDelta, PartStarted, UsageReported
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


# A word, signs or white space, with the space before it: tokenizers make one token of it, or a few of a rare word, and of nothing that
# is longer. (GPT-4's splits so: https://github.com/openai/tiktoken, cl100k_base, read 2026-11.)
_ONE_TOKEN = re.compile(r"\s*(?:[^\W\d_]+|\d{1,3}|[^\s\w]*_*\s*)")
_MAX_TOKEN_BYTES = 16


class ArrivedTokenCounter(WrittenTokenCounter):
    """Counts the tokens that came, of a stream of one text that may break off.

    Most engines send each token by itself, so what may be one token counts as one. What came in larger pieces is estimated by its bytes,
    as everywhere. Where the engine says in the midst of its stream how many it has written, that is the count up to there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counted = 0
        self._merged_bytes = 0

    @property
    def tokens(self) -> int:
        return self._counted + tokens_of_bytes(self._merged_bytes)

    def observe(self, event: Event) -> None:
        super().observe(event)
        if isinstance(event, PartDelta) and event.text:
            size_bytes = len(event.text.encode())
            if size_bytes <= _MAX_TOKEN_BYTES and _ONE_TOKEN.fullmatch(event.text):
                self._counted += 1
            else:
                self._merged_bytes += size_bytes
        elif isinstance(event, UsageReported) and event.usage.output and self._bytes:  # Anthropic's first report is of what comes yet
            self._counted, self._merged_bytes = event.usage.output, 0
