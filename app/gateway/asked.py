"""A caller's ask made an engine's. The same dialect: an edit of the bytes. Another: its meaning is read, and written anew."""

import asyncio
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.domain import Target
from app.gateway.media import Media
from app.gateway.translate import AnyDialect, Theirs, both
from providers import guided, media
from providers.callers_names import names_for, renamed
from providers.carrier import find_carrier
from providers.chat import ChatRequest, Message, Text
from providers.dialect import Ask, ChatDialect, Concessions, Dialect
from providers.dialects.catalogue import CHAT_DIALECTS, ENGINE_DIALECTS, PROMPTED
from providers.errors import Malformed, NotObeyed, NotOffered, Unsupported
from providers.foreign import Foreign
from providers.guided import Constraint, Guiding
from providers.provider import Provider
from providers.routes.route import Route
from providers.wire import UNREADABLE, Body

P = ParamSpec("P")
T = TypeVar("T")

_MOST_PLACES = 32
# For places in a body, which is read anew for each: so many, and of so many bytes together.
_LOOKS = 8
_PLACED_BYTES = 4_000_000
_INDEX = re.compile(r"\[\d+\]")


# OpenAI's first words for tools, by which a caller who says them is told what cannot be.
_OF_OLD: Mapping[str, str] = {"functions": "tools", "function_call": "tool_choice"}

_NO_HEADERS: Mapping[bytes, bytes] = {}
_NO_WORDS: Mapping[str, str] = {}


class Prepared(Struct, frozen=True):
    """What goes to the engine, in which dialect, whether it will be asked to stream, and which of the caller's fields do not go.

    `betas`: the caller's `anthropic-beta`, for an engine that speaks the same. `guiding`: how what constrains the answer is asked for.
    `id`: that by which the engine knows the request, if it is one that takes it. `model`: where the address names it.
    """

    raw: bytes
    dialect: Theirs
    stream: bool
    dropped: list[str]
    betas: bytes
    guiding: Guiding | None
    id: str | None = None
    model: str = ""


class Asked:
    """A caller's ask, and its meaning once somebody wants it. `fetching` gets what a target must have in bytes, once.

    `id`: the inference's. `headers`: the caller's, of which a target's credential may be one.
    `repairs`: how often an answer that does not obey `constraint` may be asked for again.
    """

    __slots__ = (
        *("_betas", "_carries", "_chat", "_fetching", "_foreign", "_id", "_ids", "_repaired", "_may_drop", "_most_places", "_speaks"),
        *("_words", "ask", "constraint", "dialect", "headers", "repairs"),
    )

    def __init__(
        self,
        ask: Ask,
        raw: bytes,
        dialect: Dialect,
        fetching: Media,
        may_drop: Callable[[str], bool],
        betas: bytes = b"",
        constraint: Constraint | None = None,
        id: str = "",
        repairs: int = 0,
        headers: Mapping[bytes, bytes] = _NO_HEADERS,
    ) -> None:
        self.ask = ask
        self.headers = headers
        self.dialect = dialect
        self._may_drop = may_drop
        self._betas = betas
        self._most_places = min(_LOOKS, 1 + _PLACED_BYTES // (len(raw) + 1))
        self._fetching = fetching
        self._speaks = CHAT_DIALECTS.get(dialect.name)
        # What another dialect's engine sealed must be given back to it as its own, or left out: no engine reads our carriers.
        self._carries = self._speaks is not None and _carries(ask, raw)
        self.constraint = constraint
        self.repairs = repairs
        self._id = id
        self._ids = 0
        self._repaired = False
        # Engines' words for guided decoding, in a dialect in which no engine reads them.
        self._foreign = dialect.name in ("openai_responses", "anthropic_messages") and not guided.WORDS.isdisjoint(ask.body)
        self._chat: ChatRequest | None = None
        self._words: Mapping[str, str] = {}

    def dialects(self, provider: Provider, spoken: Sequence[str]) -> Sequence[AnyDialect]:
        """Of those spoken there, in which this may be asked, best first. Raises NotOffered if in none."""
        own = self.dialect.name
        constrained = self.constraint is not None and self.constraint.output is not None
        if self.ask.raw_prompt:
            spoken = [name for name in spoken if name in PROMPTED or (provider.takes_prompt and name == own)]
        elif own in spoken and (not constrained or own == "openai_completions" or self._is_obeyed_in(own, provider, spoken)):
            return (self.dialect,)
        elif self._speaks is None:
            spoken = ()
        elif own == "openai_completions":
            spoken = [name for name in spoken if name in PROMPTED]
        else:
            spoken = [name for name in spoken if name in ENGINE_DIALECTS and name not in PROMPTED]
            if constrained:
                spoken.sort(key=lambda name: name not in provider.guided_in)
        if not spoken:
            what = "raw prompts" if self.ask.raw_prompt else f"such requests ({own})"
            raise NotOffered(
                f"{provider.configured_as} ({provider.name}), which serves {self.ask.model!r:.100}, has no API for {what}.", param="model"
            )
        return [ENGINE_DIALECTS[name] for name in spoken]

    def _is_obeyed_in(self, own: str, provider: Provider, spoken: Sequence[str]) -> bool:
        """Or as well as in any other."""
        return provider.guided_in.isdisjoint(spoken) or (own in provider.guided_in and not self._foreign)

    def edited(self, provider: Provider, target: Target) -> Prepared | None:
        """An edit of the caller's bytes, for an engine that speaks the caller's dialect; None where that is not enough.

        Raises Unsupported for what cannot be honoured there, Malformed for what shows to be wrong.
        """
        holds_media = self._speaks is not None and self.dialect.name != "openai_completions"
        if self._carries or self._foreign or self._repaired:
            return None
        if holds_media and (kinds := provider.bytes_only_in(self.dialect.name)) and self._names_media(kinds):
            return None
        return self._prepared(self.dialect, Body(self.ask.body), provider, target, [], self.constraint, None)

    def _names_media(self, kinds: frozenset[media.Kind]) -> bool:
        """Whether the body names by its address what must go in bytes. What cannot be read is the host's to refuse."""
        if not any(b"url" in bytes(value) for value in self.ask.body.values() if isinstance(value, msgspec.Raw)):
            return False
        try:
            return bool(media.addresses(CHAT_DIALECTS[self.dialect.name].read_request(self.ask.body), kinds))
        except Malformed:
            return False

    def routed(self, route: Route, provider: Provider, target: Target) -> Prepared:
        """For a route that each engine has in its own way. Raises NotOffered and Unsupported."""
        if target.dialect is not None:
            raise NotOffered(
                f"{provider.configured_as}, which serves {self.ask.model!r:.100}, is asked in {target.dialect} alone.", param="model"
            )
        body = Body(self.ask.body)
        way, dropped = route.ask(body, provider, self.ask.model, target.model, self._may_drop)
        if target.lora is not None and not route.free:
            if not way.says_model:
                raise provider.unsupported("model", f"its {way.name} cannot be asked for a LoRA adapter.")
            body["model"] = provider.name_of(target.model, target.lora, body)
        return Prepared(body.write(), way, False, dropped, b"", None)

    def translated(self, foreign: Foreign, provider: Provider, target: Target) -> Prepared:
        """For what a host is asked in a shape of its own. Raises Unsupported and Malformed."""
        body, dropped = foreign.write(Body(self.ask.body), target.model, self._may_drop)
        provider.name_model(body, foreign.name, target.model, False)
        addressed = target.model if provider.addresses_models else ""
        return Prepared(body.write(), foreign, False, dropped, b"", None, None, addressed)

    async def crossed(self, dialect: AnyDialect, provider: Provider, target: Target) -> Prepared:
        """Raises as edited() does, and for media that cannot be fetched."""
        ours, theirs = both(self.dialect, dialect)
        if self._chat is None:
            self._chat = constrained(ours.read_request(self.ask.body))
            self._words = words_of(ours, self.ask.body)
        only_bytes = provider.bytes_only_in(theirs.name) | theirs.only_bytes
        chat = self._chat
        wanted = {each for each in media.addresses(chat, only_bytes) if not provider.takes_address(each, theirs.name)}
        if wanted:
            chat = self._chat = media.inlined(chat, only_bytes, await self._fetching.fetch(wanted))
        place = functools.partial(ours.place, self.ask.body)
        who = f"{provider.configured_as} ({provider.name})"
        concessions = Concessions(self._may_drop, self._words, who, place, most_places=self._most_places)
        try:
            # Some hosts' rules differ by model: it is named as they know it.
            body = theirs.write_request(provider.bend_chat(replace(chat, model=target.model), theirs.name, concessions), concessions)
        except UNREADABLE as fault:
            # What came in a carrier, or beside what is checked, and is not what it says.
            raise Malformed(f"Something in the request cannot be said to {who}: {fault}.") from None
        if chat.prompt is not None and chat.max_tokens is None and ours.name != theirs.name == "openai_completions":
            if provider.no_limit is None:
                concessions.without("max_tokens", "its completions need one: it writes 16 tokens where nobody says how many.")
            else:
                body.update(provider.no_limit)
        constraint = self.constraint
        if constraint is not None and isinstance(constraint.output, guided.JsonSchema | guided.JsonObject):
            constraint = replace(constraint, plain=True)  # as it was written just now
        spoken_too = CHAT_DIALECTS.get(theirs.name)
        name = names_for(ours.name, self._words, theirs.name, spoken_too.words if spoken_too is not None else _NO_WORDS)
        try:
            return await self.unhurried(self._prepared, dialect, body, provider, target, _few(concessions.dropped), constraint, name)
        except Unsupported as fault:
            raise renamed(fault, name) from None

    async def unhurried(self, prepare: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """On a thread where the constraint is one whose conversion takes long: others are to be served meanwhile."""
        if self.constraint is None or not self.constraint.slow:
            return prepare(*args, **kwargs)
        return await asyncio.to_thread(prepare, *args, **kwargs)

    def repair(self, failed: NotObeyed) -> None:
        """From now on the ask goes on from an answer that did not obey, with a word about that."""
        if self._chat is None:
            ours = CHAT_DIALECTS[self.dialect.name]
            self._chat = constrained(ours.read_request(self.ask.body))
            self._words = words_of(ours, self.ask.body)
        if self._chat.prompt is not None:
            return
        told = (
            Message("assistant", (Text(failed.said),)),
            Message("user", (Text(f"This answer does not obey what constrains it: {failed.why} Answer again, and obey it."),)),
        )
        self._chat = replace(self._chat, messages=(*self._chat.messages, *told))
        self._repaired = True

    def _prepared(
        self,
        dialect: AnyDialect,
        body: Body,
        provider: Provider,
        target: Target,
        dropped: list[str],
        constraint: Constraint | None,
        name: Callable[[str], str] | None,
    ) -> Prepared:
        """`name`: what the caller calls a field of the body, where that is another word."""
        body["model"] = target.model  # hosts' rules are of their models, by their names
        if name is None:
            bent = provider.bend(body, dialect.name, self._may_drop, constraint)
            dropped += bent.dropped
        else:
            bent = provider.bend(body, dialect.name, lambda field: self._may_drop(field) or self._may_drop(name(field)), constraint)
            dropped += map(name, bent.dropped)
        model = target.model if target.lora is None else provider.name_of(target.model, target.lora, body)
        id = self._next_id() if provider.id_field is not None else None
        if provider.id_field is not None:
            body[provider.id_field] = id
        stream = self.ask.stream
        if provider.streams != "both" and dialect.name in ENGINE_DIALECTS:
            stream = provider.streams == "only"
        if stream != self.ask.stream and _is_shown_or_spoken(body):
            raise provider.unsupported("modalities", "such an answer reaches its caller only as the host tells it: streamed, or whole.")
        dialect.prepare(body, stream, tell_usage=provider.stream_usage)
        provider.name_model(body, dialect.name, model, stream)
        betas = self._betas
        if betas and dialect is not self.dialect:
            dropped.append("anthropic-beta")
            betas = b""
        if betas:
            betas = provider.tell_betas(body, dialect.name, betas)
        return Prepared(body.write(), dialect, stream, dropped, betas, bent.guiding, id, target.model if provider.addresses_models else "")

    def _next_id(self) -> str:
        """Another for each attempt, of which none begins with another: SGLang refuses one that it still works on, and aborts by prefix.

        Source: managers/tokenizer_manager.py and scheduler.py of SGLang 0.5.23, read 2026-11.
        """
        self._ids += 1
        return self._id if self._ids == 1 else f"{self._ids}-{self._id}"


def _is_shown_or_spoken(body: Body) -> bool:
    """Whether the answer is to be more than text, which nothing but OpenAI's chat itself has a place for."""
    said: Any = body.value("modalities")
    return isinstance(said, list) and said != ["text"] and said != []


def _carries(ask: Ask, raw: bytes) -> bool:
    """What was said before an answer that the ask goes on from, or refers to, is in the ask alone."""
    return find_carrier(raw) is not None or ((ask.previous is not None or ask.refers) and find_carrier(ask.body.write()) is not None)


def _few(dropped: list[str]) -> list[str]:
    """Of a long conversation, not each place by itself: clients bound the headers that they take."""
    return dropped if len(dropped) <= _MOST_PLACES else sorted({_INDEX.sub("[]", each) for each in dropped})[:_MOST_PLACES]


def words_of(ours: ChatDialect, body: Body) -> Mapping[str, str]:
    """What the caller calls the meaning's fields: a constraint, by the word of those that it sent; tools, by the one of old if it did."""
    constraint = min(guided.WORDS & body.keys(), default=None)
    if constraint is None and _OF_OLD.keys().isdisjoint(body):
        return ours.words
    old = {now: once for once, now in _OF_OLD.items() if body.said(once) and not body.said(now)}
    return {**ours.words, **old, **({} if constraint is None else {"output": constraint})}


def constrained(chat: ChatRequest) -> ChatRequest:
    """Engines' words for guided decoding, which callers of any dialect may send, as the output that they ask for."""
    words = guided.WORDS & chat.extra.keys()
    if not words:
        return chat
    output = guided.read_output(Body(chat.extra))
    if output is not None and chat.output is not None:
        raise Malformed("Two fields constrain the answer: send one of them.", param=min(words))
    rest = {key: value for key, value in chat.extra.items() if key not in words}
    return replace(chat, output=output or chat.output, extra=rest)
