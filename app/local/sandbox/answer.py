"""The answer: reasoning, words and tool calls of each choice, as the list of small steps that a stream tells and a whole answer sums up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from app.local.sandbox.ask import Ask
from app.local.sandbox.babble import babble, think
from app.local.sandbox.constraint import Recipe
from app.local.sandbox.draft import Draft, Drawn, Said
from app.local.sandbox.tokens import count, split
from app.local.sandbox.walk import Budget, Walker


@dataclass(frozen=True, slots=True)
class Chance:
    """A token's log probability and those of what might have stood in its place, likeliest first."""

    token: str
    logprob: float
    top: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Step:
    """One token of a choice, or the opening of a tool call (whose text is its name). `call` is the call's place in the answer."""

    kind: Literal["reasoning", "text", "call", "arguments"]
    text: str
    call: int = 0
    call_id: str = ""
    chance: Chance | None = None

    def tokens(self) -> int:
        return count(self.text) if self.kind == "call" else 1


@dataclass(frozen=True, slots=True)
class Choice:
    steps: Sequence[Step]
    finish_reason: str

    def tokens(self) -> int:
        return sum(step.tokens() for step in self.steps)

    def text(self, kind: Literal["reasoning", "text"]) -> str:
        return "".join(step.text for step in self.steps if step.kind == kind)


def answer(ask: Ask, budget: Budget) -> list[Choice]:
    """All choices, whole. Takes milliseconds where nothing is constrained, and at most the budget where something is."""
    walkers = Walkers(budget)
    return [one_choice(ask, ask.rng(index), walkers) for index in range(ask.n)]


class Walkers:
    """Each constraint of a request compiled once, when it is first needed. Choices are made here too: they need no walk."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._walkers: dict[int, Walker] = {}

    def obey(self, recipe: Recipe, rng: Random, max_tokens: int | None, *, record: bool) -> Said:
        walker = self._walkers.get(id(recipe))
        if walker is None:
            constraint = recipe.compile()
            if constraint.choices:
                short = [each for each in constraint.choices if max_tokens is None or count(each) <= max_tokens]
                draft = Draft(rng)
                draft.choose(short or constraint.choices)
                return draft.said()
            walker = self._walkers[id(recipe)] = Walker(constraint, self._budget)
        return walker.walk(rng, max_tokens, record=record)


def one_choice(ask: Ask, rng: Random, walkers: Walkers) -> Choice:
    room = ask.max_tokens
    steps: list[Step] = []
    if ask.has_reasoning:
        steps += [Step("reasoning", token) for token in split(think(rng, ask.heard))]
        room = None if room is None else max(1, room - len(steps))
    called = ask.tools.picked(rng) if ask.control.say is None else []
    is_whole = True
    reason = "stop"
    for place, offer in enumerate(called):
        said = walkers.obey(offer.arguments, rng, room, record=False)
        steps.append(Step("call", offer.name, place, f"call_{rng.getrandbits(96):024x}"))
        steps += [Step("arguments", token, place) for token in split(said.text)]
        is_whole = is_whole and said.is_finished
        # As OpenAI does: a call that the caller has chosen by name is no decision, and ends with "stop".
        reason = "stop" if ask.tools.is_named else "tool_calls"
    if not called:
        said = in_words(ask, rng, room, walkers)
        said = stopped(said, ask.stop)
        steps += [Step("text", token, chance=chance) for token, chance in chances(said, ask.top_logprobs)]
        is_whole = said.is_finished
    kept = list(within(steps, ask.max_tokens))
    if len(kept) < len(steps) or not is_whole:
        reason = "length"
    return Choice(kept, ask.control.finish_reason or reason)


def in_words(ask: Ask, rng: Random, room: int | None, walkers: Walkers) -> Said:
    """`say` goes before any constraint: so a client can be tried against an engine that does not obey."""
    if ask.control.say is not None:
        return Said(ask.control.say)
    if ask.constraint is not None:
        return walkers.obey(ask.constraint, rng, room, record=ask.top_logprobs is not None)
    draft = Draft(rng)
    babble(draft, ask.heard, ask.saw, ask.control.tokens)
    return draft.said()


def stopped(said: Said, stops: Sequence[str]) -> Said:
    places = [place for place in (said.text.find(stop) for stop in stops) if place >= 0]
    return replace(said, text=said.text[: min(places)], is_finished=True) if places else said


def within(steps: Sequence[Step], max_tokens: int | None) -> Iterator[Step]:
    room = max_tokens
    for step in steps:
        if room is not None:
            room -= step.tokens()
            if room < 0:
                return
        yield step


def chances(said: Said, top: int | None) -> Iterator[tuple[str, Chance | None]]:
    """Each token with its chance: the product of the draws that begin in it. What was not drawn was certain."""
    pending = list(reversed(said.drawn)) if top is not None else []
    at = 0
    for token in split(said.text):
        if top is None:
            yield token, None
            continue
        at += len(token.encode())
        draws: list[Drawn] = []
        while pending and pending[-1].at < at:
            draws.append(pending.pop())
        logprob = sum(draw.logprob for draw in draws)
        others = draws[0].others if draws else ()
        # The alternatives are those of the token's first draw, among which it may rank low; it is listed all the same.
        ranked = sorted([(token, logprob), *((text, chance) for text, chance in others if text != token)], key=lambda pair: -pair[1])
        shown = ranked[:top]
        if top and all(text != token for text, _ in shown):
            shown[-1] = (token, logprob)
        yield token, Chance(token, logprob, shown)
