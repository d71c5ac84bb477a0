"""The generated choices: reasoning, text and tool calls of each as a list of steps, which a stream sends one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from app.sandbox.request import SandboxRequest
from app.sandbox.text.constraint import ConstraintSource
from app.sandbox.text.draft import Draft, Draw, GeneratedText
from app.sandbox.text.grammar_walk import Budget, Walker
from app.sandbox.text.random_text import write_random_text, write_reasoning
from app.sandbox.text.tokens import count_tokens, split_tokens


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's log probability, and those of its alternatives, the likeliest first."""

    token: str
    logprob: float
    top: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Step:
    """One token of a choice, or the start of a tool call, whose text is the function's name."""

    kind: Literal["reasoning", "text", "call", "arguments"]
    text: str
    call_index: int = 0  # the call's position
    call_id: str = ""
    logprob: TokenLogprob | None = None

    def count_tokens(self) -> int:
        return count_tokens(self.text) if self.kind == "call" else 1


@dataclass(frozen=True, slots=True)
class Choice:
    steps: Sequence[Step]
    finish_reason: str

    def count_tokens(self) -> int:
        return sum(step.count_tokens() for step in self.steps)

    def text(self, kind: Literal["reasoning", "text"]) -> str:
        return "".join(step.text for step in self.steps if step.kind == kind)


def generate_choices(request: SandboxRequest, budget: Budget) -> list[Choice]:
    """All choices, complete. Takes milliseconds without a constraint, and at most the budget with one. Raises InvalidConstraint."""
    generator = ConstrainedGenerator(budget)
    return [generate_choice(request, request.rng_for_choice(index), generator) for index in range(request.n)]


class ConstrainedGenerator:
    """Compiles each constraint of a request once, when it is first needed."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._walkers: dict[int, Walker] = {}
        self._choices: dict[tuple[int, int | None], Sequence[str]] = {}

    def generate(self, source: ConstraintSource, rng: Random, max_tokens: int | None, *, record: bool) -> GeneratedText:
        if source.kind == "choice":
            draft = Draft(rng)
            draft.choose(self._fitting_choices(source, max_tokens))
            return draft.result()
        walker = self._walkers.get(id(source))
        if walker is None:
            walker = self._walkers[id(source)] = Walker(source.compile(), self._budget)
        return walker.walk(rng, max_tokens, record=record)

    def _fitting_choices(self, source: ConstraintSource, max_tokens: int | None) -> Sequence[str]:
        """Returns the choices that fit, or all if none fits."""
        fitting = self._choices.get((id(source), max_tokens))
        if fitting is None:
            choices = source.compile().choices
            fitting = [each for each in choices if max_tokens is None or count_tokens(each) <= max_tokens] or choices
            self._choices[id(source), max_tokens] = fitting
        return fitting


def generate_choice(request: SandboxRequest, rng: Random, generator: ConstrainedGenerator) -> Choice:
    remaining_tokens = request.max_tokens
    steps: list[Step] = []
    if request.has_reasoning:
        steps += [Step("reasoning", token) for token in split_tokens(write_reasoning(rng, request.user_text))]
        remaining_tokens = None if remaining_tokens is None else max(1, remaining_tokens - len(steps))
    called_tools = request.tools.choose_calls(rng) if request.control.say is None else []
    is_finished = True
    reason = "stop"
    for call_index, tool in enumerate(called_tools):
        generated = generator.generate(tool.arguments, rng, remaining_tokens, record=False)
        steps.append(Step("call", tool.name, call_index, f"call_{rng.getrandbits(96):024x}"))
        steps += [Step("arguments", token, call_index) for token in split_tokens(generated.text)]
        is_finished = is_finished and generated.is_finished
        # As OpenAI does: a call that the caller has chosen by name ends with "stop".
        reason = "stop" if request.tools.is_named else "tool_calls"
    if not called_tools:
        generated = generate_text(request, rng, remaining_tokens, generator)
        generated = truncate_at_stop(generated, request.stop, request.min_tokens)
        steps += [Step("text", token, logprob=logprob) for token, logprob in token_logprobs(generated, request.top_logprobs)]
        is_finished = generated.is_finished
    kept_steps = list(limit_tokens(steps, request.token_limit))
    if len(kept_steps) < len(steps) or not is_finished:
        reason = "length"
    return Choice(kept_steps, request.control.finish_reason or reason)


def generate_text(request: SandboxRequest, rng: Random, max_tokens: int | None, generator: ConstrainedGenerator) -> GeneratedText:
    """Generates the text of a choice. What the field `say` has takes precedence over a constraint, so that a client can be tested with an
    engine that does not obey.
    """
    if request.control.say is not None:
        return GeneratedText(request.control.say[len(request.written) :])
    if request.constraint is not None:
        return generator.generate(request.constraint, rng, max_tokens, record=request.top_logprobs is not None)
    draft = Draft(rng)
    is_unending = request.control.tokens is None and request.unending_tokens is not None
    tokens = request.unending_tokens if is_unending else request.control.tokens
    write_random_text(draft, request.user_text, request.media_descriptions, tokens, request.min_tokens)
    generated = draft.result()
    if request.written:  # the same request had this text before, unless it has no seed
        generated = GeneratedText(generated.text[len(request.written) :])
    return replace(generated, is_finished=not is_unending)


def truncate_at_stop(generated: GeneratedText, stops: Sequence[str], min_tokens: int) -> GeneratedText:
    """Cuts the text off at the first stop text, as engines do: they look for one only after `min_tokens` tokens."""
    start = len("".join(split_tokens(generated.text)[:min_tokens])) if stops and min_tokens else 0
    offsets = [offset for offset in (generated.text.find(stop, start) for stop in stops) if offset >= 0]
    return replace(generated, text=generated.text[: min(offsets)], is_finished=True) if offsets else generated


def limit_tokens(steps: Sequence[Step], max_tokens: int) -> Iterator[Step]:
    remaining_tokens = max_tokens
    for step in steps:
        remaining_tokens -= step.count_tokens()
        if remaining_tokens < 0:
            return
        yield step


def token_logprobs(generated: GeneratedText, top: int | None) -> Iterator[tuple[str, TokenLogprob | None]]:
    """Yields each token with its log probability: the sum of the draws that start in it, 0 without any.

    The log probability is None if `top` is None.
    """
    pending = list(reversed(generated.draws)) if top is not None else []
    end_offset = 0
    for token in split_tokens(generated.text):
        if top is None:
            yield token, None
            continue
        end_offset += len(token.encode())
        token_draws: list[Draw] = []
        while pending and pending[-1].offset < end_offset:
            token_draws.append(pending.pop())
        logprob = sum(draw.logprob for draw in token_draws)
        alternatives = token_draws[0].alternatives if token_draws else ()
        # The alternatives are those of the token's first draw. The token itself is listed even if it ranks below them.
        ranked = sorted(
            [(token, logprob), *((text, alternative_logprob) for text, alternative_logprob in alternatives if text != token)],
            key=lambda pair: -pair[1],
        )
        shown = ranked[:top]
        if top and all(text != token for text, _ in shown):
            shown[-1] = (token, logprob)
        yield token, TokenLogprob(token, logprob, shown)
