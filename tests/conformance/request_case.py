"""What a situation of a request is made of, and what may come of it."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

Body = Mapping[str, Any]


class Translated(Struct, frozen=True):
    """The target is asked for the same: these keys, beside those of a plain hello; None: without that key.

    `converted`: in words that are not its own counterpart of the caller's; says how. `dropped`: hints that are reported beside it.
    """

    fields: Body = {}
    converted: str | None = None
    dropped: tuple[str, ...] = ()


class Refused(Struct, frozen=True):
    """422, naming this field of the caller's. Let go by `x-narthex-drop`, it is dropped and reported."""

    param: str


class DropReported(Struct, frozen=True):
    """A mere hint, which goes without and is reported; `reads` as of Carried."""

    dropped: tuple[str, ...]
    fields: Body = {}


Outcome = Translated | Refused | DropReported
FeatureGroup = Literal["messages", "media", "tools", "output", "sampling", "reasoning", "history", "hints", "the rest"]


class RequestCase(Struct, frozen=True):
    """`says`: what callers of each dialect add to a plain hello; one that is not here has no word for it. `on`: what comes of it at each
    target, for all callers, or for one (`caller>target`). The caller's own dialect always carries it as it was said.
    """

    group: FeatureGroup
    feature: str
    request_fields: Mapping[str, Body]
    outcomes: Mapping[str, Outcome]

    def outcome(self, caller: str, target: str) -> Outcome | None:
        """None: the caller has no word for it."""
        if caller not in self.request_fields:
            return None
        return self.outcomes.get(f"{caller}>{target}") or (Translated() if caller == target else self.outcomes[target])


HELLO: Mapping[str, Body] = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    RESPONSES: {"model": "m", "input": [{"role": "user", "content": "Hello"}]},
    ANTHROPIC: {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
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
