"""How one engine has a route: where it is asked, in which words, and how what it answers is read."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from providers.errors import Refused, Unsupported, UpstreamError
from providers.provider import HINTS, Provider
from providers.routes.missing import as_missing
from providers.wire import NULL, Body

# Why a field's value cannot be said there; None: it can be.
Misfit = Callable[[Any], str | None]


class Way(Struct, frozen=True, kw_only=True):
    """`name`: the path, which is its dialect's name too.

    `words`: the caller's fields that it has, with its own names for them; all others are refused. None: it speaks as the caller does,
    and fields that nobody knows go on to it. `refuses`: of those, what it takes and does nothing about. `here`: what is done to its answer
    here, and is no concern of its.
    `nothing`: by field, a value that asks for nothing there. `misfits`: by field, what else it can say of it.
    `says`: what must be said where the caller leaves it out. `says_model`: whether a body names the model.
    `read`: its answer made one of the route's common shape, by what was asked; None: it is one. `own`: it was asked in its own shape, and
    its answer goes back as it is.
    `asked_wrong`: what its 500s say that are the caller's doing. `guessed`: which engine it is, nobody has said.
    """

    name: str
    words: Mapping[str, str] | None = None
    refuses: frozenset[str] = frozenset()
    here: frozenset[str] = frozenset()
    nothing: Mapping[str, Any] = {}
    misfits: Mapping[str, Misfit] = {}
    says: Mapping[str, Any] = {}
    says_model: bool = True
    read: Callable[[bytes, Body], bytes] | None = None
    own: bool = False
    asked_wrong: tuple[str, ...] = ()
    guessed: bool = False

    def write(self, body: Body, provider: Provider, model: str, may_drop: Callable[[str], bool]) -> list[str]:
        """Makes a caller's body the engine's, and tells what was dropped. Raises Unsupported for what it cannot say."""
        dropped: list[str] = []
        for field in self.here & body.keys():
            del body[field]
        for field in sorted(body.keys() - {"model"}):
            if self._has(field, provider):
                misfit = self.misfits.get(field)
                why = misfit(body.value(field)) if misfit is not None else None
                if why is not None:
                    raise cannot(provider, field, why)
                continue
            if body[field] != NULL and not (field in self.nothing and body.value(field) == self.nothing[field]):
                if field not in HINTS and not may_drop(field):
                    raise provider.unsupported(field, f"its {self.name} knows nothing like it.")
                dropped.append(field)
            del body[field]
        for theirs, ours in (self.words or {}).items():
            if theirs != ours and theirs in body:
                body[ours] = body.pop(theirs)
        for field, value in self.says.items():
            if not body.said(field):
                body[field] = value
        body.pop("model", None)
        if self.says_model:
            body["model"] = model
        return dropped

    def _has(self, field: str, provider: Provider) -> bool:
        if self.words is not None:
            return field in self.words
        return field not in self.refuses and (self.own or field not in provider.hints)

    def told(self, error: UpstreamError, who: str) -> UpstreamError:
        """The error that an engine told, made plain where it says no more than that it has no such route."""
        if error.told == 500 and any(said in error.message for said in self.asked_wrong):
            return Refused(error.message, told=400)
        return as_missing(error, self.name, who)


def cannot(provider: Provider, field: str, why: str) -> Unsupported:
    """For what an ask is all about, which there is no going without."""
    return Unsupported(
        f"`{field}` cannot be honoured by {provider.configured_as} ({provider.name}): {why} Ask otherwise, or choose another model.",
        param=field,
    )
