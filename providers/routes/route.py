"""A route beside chat that engines have in ways of their own: one common shape for callers, and engines' own for who speaks them."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from providers.chat import Usage
from providers.dialect import Ask, Edited, Editor, Stamp
from providers.envelope import openai_error
from providers.errors import Garbled, Malformed, NarthexError, NotOffered, NotServed
from providers.opening import one_episode, opened
from providers.provider import Provider
from providers.routes.replies import read_told, usage_told
from providers.routes.way import Way, cannot
from providers.wire import Body, frame


class Head(Struct):
    """What every ask of every route may say."""

    model: str
    stream: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    episode_id: str | None = None
    episode_id_prefixed: str | None = field(default=None, name="tensorzero::episode_id")
    tags_prefixed: dict[str, str] | None = field(default=None, name="tensorzero::tags")


# How an ask is checked that is said in one of the shapes.
Shape = msgspec.json.Decoder[Any]

_head = msgspec.json.Decoder(Head)

# An engine that nobody has named, and that has not said yet what it is.
_AS: Mapping[str, str] = {"auto": "openai"}
_GUESSED = ("auto", "openai")


class Route:
    """See providers.dialect.Dialect, whose methods these are; subclasses have the shapes, the ways, and edit().

    An ask is known by one field that each of its shapes has alone. `shapes`: by that field, the common one first.
    `ways`: by an engine's adapter, and by that field. `free`: nothing is charged for it.
    """

    name: ClassVar[str]
    does: ClassVar[str]
    shapes: ClassVar[Mapping[str, Shape]]
    ways: ClassVar[Mapping[str, Mapping[str, Way]]]
    free: ClassVar[bool] = False

    def open(self, raw: bytes) -> Ask:
        """Raises Malformed: what was wrong, where, and what was expected."""
        head, body = opened(raw, _head)
        if head.stream:
            raise Malformed("This is never streamed: leave `stream` out.", param="stream")
        said = [mark for mark in self.shapes if body.said(mark)]
        if not said:
            raise Malformed(f"Object missing required field `{next(iter(self.shapes))}`.", param=next(iter(self.shapes)))
        if len(said) > 1:
            raise Malformed(f"Send one of `{'`, `'.join(said)}`, and not more.", param=said[1])
        request, _ = opened(raw, self.shapes[said[0]])
        self.settle(request, body)
        body.pop("stream", None)
        return Ask(
            dialect=self.name,
            body=body,
            model=head.model,
            stream=False,
            wants_usage=True,
            episode_id=one_episode(head.episode_id, head.episode_id_prefixed),
            tags=head.tags_prefixed or head.metadata or {},
            end_user=head.user,
            input_tokens=0 if self.free else self.estimate(request),
            output_tokens=0,
            choices=1,
        )

    def settle(self, request: Any, body: Body) -> None:
        """What is to be said in one way of several that mean the same."""

    def estimate(self, request: Any) -> int:
        """About how many tokens an ask has that is not free."""
        return 0

    def ask(self, body: Body, provider: Provider, asked_for: str, model: str, may_drop: Callable[[str], bool]) -> tuple[Way, list[str]]:
        """Makes a caller's body an engine's; how it is asked there, and what was dropped. `asked_for`: the caller's word for `model`.

        Raises NotOffered for an engine without the route, Unsupported for what it cannot be asked.
        """
        way = self._way(body, provider, asked_for)
        # Not as the adapter would bend its chats: what is ours goes, and the way knows the rest.
        dropped = Provider.bend(provider, body, self.name, may_drop).dropped
        return way, dropped + way.write(body, provider, model, may_drop)

    def _way(self, body: Body, provider: Provider, model: str) -> Way:
        ways: Mapping[str, Way] = {} if provider.at_openai else self.ways.get(_AS.get(provider.name, provider.name), {})
        if not ways:
            raise NotOffered(
                f"{provider.configured_as} ({provider.name}), which serves {model!r:.100}, has no API that {self.does}. "
                f"These have: {', '.join(sorted(self.ways))}.",
                param="model",
            )
        mark = next(mark for mark in self.shapes if body.said(mark))
        way = ways.get(mark)
        if way is None:
            raise cannot(provider, mark, f"it is asked with {' or '.join(f'`{each}`' for each in ways)} instead.")
        return replace(way, guessed=True) if provider.name in _GUESSED else way

    def read(self, raw: bytes, way: Way, stamp: Stamp) -> Edited:
        """What an engine answered that was asked in this way. Raises Garbled, NotServed, or the error it told."""
        if way.own:
            return Route.edit(self, raw, stamp)
        try:
            return self.edit(raw if way.read is None else way.read(raw, Body(stamp.asked)), stamp)
        except Garbled as fault:
            if not way.guessed:
                raise
            # No fault of a server that has another route of this name, or passes over what it does not know.
            raise NotServed(
                f"The engine does not serve {way.name} as vLLM does: {fault.message} "
                "If it is one that Narthex knows, its provider should name the adapter of that.",
                told=200,
            ) from None

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        """As it came, but for the name asked for. A route with a common shape makes sure that it is one."""
        told = read_told(raw)
        if isinstance(told, Body) and "model" in told:
            told["model"] = stamp.model
        return self.edited(told)

    def edited(self, told: Body | list[Body]) -> Edited:
        """Nothing is written on any of these routes."""
        usage = Usage(0, 0) if self.free else Usage(usage_told(told), 0)
        return Edited(msgspec.json.encode(told), usage, None)

    def editor(self, stamp: Stamp) -> Editor:
        """Nobody may ask for a stream here, so none may come."""
        raise Garbled("The engine streamed an answer that was to come whole.")

    def prepare(self, body: Body, stream: bool, *, tell_usage: bool) -> None:
        """There is nothing to choose: these are always whole."""

    def write_error(self, error: NarthexError) -> bytes:
        return openai_error(error)

    def write_error_frame(self, error: NarthexError) -> bytes:
        return frame(openai_error(error))
