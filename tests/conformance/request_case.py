"""A case of request translation: the request of each caller, and the outcome at each target."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from tests.conformance.situations import ANTHROPIC, CHAT, GEMINI, RESPONSES

Body = Mapping[str, Any]


class Translated(Struct, frozen=True):
    """The target receives the same: these fields in addition to those of a plain hello; None: without that field."""

    fields: Body = {}
    converted: str | None = None  # how the target's form differs, where it is not the direct counterpart
    dropped: tuple[str, ...] = ()  # hints that are reported as dropped


class Refused(Struct, frozen=True):
    """A 422 that names this field of the caller's body. If `x-narthex-drop` names it, it is dropped and reported instead."""

    param: str


class DropReported(Struct, frozen=True):
    """A hint is dropped and reported. `fields`: as in Translated."""

    dropped: tuple[str, ...]
    fields: Body = {}


Outcome = Translated | Refused | DropReported
FeatureGroup = Literal["messages", "media", "tools", "output", "sampling", "reasoning", "history", "hints", "other fields"]


class RequestCase(Struct, frozen=True):
    """A row of the tables of requests."""

    group: FeatureGroup
    feature: str
    request_fields: Mapping[str, Body]  # what callers of each dialect add to a plain hello; a dialect that is missing cannot express it
    # By target for all callers, or by `caller>target` for one. To a target of the caller's own dialect it passes unchanged unless an
    # outcome is given.
    outcomes: Mapping[str, Outcome]

    def outcome(self, caller: str, target: str) -> Outcome | None:
        """Returns the outcome for this caller at this target, or None if the caller's API cannot express the request."""
        if caller not in self.request_fields:
            return None
        return self.outcomes.get(f"{caller}>{target}") or (Translated() if caller == target else self.outcomes[target])


HELLO: Mapping[str, Body] = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    RESPONSES: {"model": "m", "input": [{"role": "user", "content": "Hello"}]},
    ANTHROPIC: {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    GEMINI: {"model": "m", "contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
}


def chat(*messages: Any, **more: Any) -> Body:
    return {"messages": list(messages), **more} if messages else more


def responses(*items: Any, **more: Any) -> Body:
    return {"input": list(items), **more} if items else more


anthropic = chat


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}
