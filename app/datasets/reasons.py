"""The reasons why an inference that a selection matches gets no row of a dataset."""

from collections.abc import Mapping
from typing import Literal

SkipReason = Literal[
    "not_kept",
    "redacted",
    "team_policy",
    "lost",
    "erased",
    "expired",
    "deleted",
    "too_large",
    "not_a_chat",
    "no_response",
    "cut_off",
    "history",
    "template",
    "unreadable",
    "inexpressible",
    "demonstration",
]

DESCRIPTIONS: Mapping[str, str] = {
    "not_kept": "the team's content policy was `none`",
    "redacted": "the team's content policy was `redacted`",
    "team_policy": "the team does not keep such content any more",
    "lost": "the content was lost, as there was no disk space",
    "erased": "it was erased",
    "expired": "its content is kept no longer",
    "deleted": "its caller deleted the response",
    "too_large": "it is longer than a row may be",
    "not_a_chat": "it came by an API that is no chat and no completion",
    "no_response": "it has no complete response",
    "cut_off": "the response was cut off by `max_tokens` or a filter",
    "history": "earlier turns that it refers to are not kept",
    "template": "the templates of its variant cannot be rendered any more, or not within their bounds",
    "unreadable": "its content cannot be read, as parts of it were masked or lost",
    "inexpressible": "OpenAI's chat has no word for a part of it",
    "demonstration": "its demonstration is no message of an assistant",
}


class Skipped(Exception):
    """Raised for an inference that gets no row.

    `detail` says where, as a path, or which bound was broken. It never contains what was written there.
    """

    def __init__(self, reason: SkipReason, detail: str | None = None) -> None:
        super().__init__(reason, detail)
        self.reason: SkipReason = reason
        self.detail = None if detail is None else detail.replace("\0", "")[:200]
