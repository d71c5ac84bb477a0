"""DialectRule: the dialect in which a model takes some requests, where a host takes others in another one."""

from collections.abc import Callable

from msgspec import Struct

from providers.canonical.chat import ChatRequest


class DialectRule(Struct, frozen=True):
    """A rule that sends some requests for one model of a provider in `dialect`, whichever dialect their callers speak.

    It is made once for each model, so that models without a rule cost nothing.
    """

    dialect: str
    # Callers' names of top-level fields: a request that has none of them is no such request, and is not read to find out.
    fields: frozenset[str]
    applies: Callable[[ChatRequest], bool]
    # Whether the model takes such requests in no other dialect. False: it is the best one, and the others follow.
    is_only: bool = True


class ModelDialects(Struct, frozen=True):
    """The dialects that a provider speaks for one of its models, best first, and the rule about them; None: there is none."""

    names: tuple[str, ...]
    rule: DialectRule | None = None
