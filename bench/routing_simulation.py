"""Compares the gateway's choice of endpoints with simpler ones, on simulated engines: `python -m bench.routing_simulation`.

The trace (make_trace): chats of several turns arrive at random (Poisson). Each begins with one of twelve system prompts of 200 to 4,000
tokens, by Zipf's law; a turn adds a question and an answer (lognormal, median 150 tokens each), and the next comes when its answer has
been written and read. The engines (simulate): each reads one prompt after the other, at 10,000 tokens a second and slower the more
responses it writes, writes at most 24 at once, and keeps prompts and answers in a prefix cache of 16-token blocks that forgets the least
recently used. One engine stands still for 15 of the 120 seconds. Everything is drawn from the seed, and no clock is read.

The gateway's part is its own code: EndpointChoice, with EndpointLoad and PrefixIndex, which sees prompts as JSON and the tokens that the
gateway would estimate. The simulation leaves out several workers, engine metrics, and errors of any kind.
"""

import heapq
import itertools
import json
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.gateway.fleet.endpoint_choice import EndpointChoice
from app.gateway.fleet.endpoint_load import RequestLoad
from app.gateway.fleet.fleet import Fleet
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from providers.catalogue import DIALECTS
from providers.transport.transport import Transport

ENDPOINTS = 8
SECONDS = 120.0
STUCK_ENDPOINT, STUCK_FROM_S, STUCK_UNTIL_S = 3, 40.0, 55.0
_BLOCK_TOKENS = 16
_CACHED_BLOCKS = 6_000
_PROMPT_TOKENS_PER_S = 10_000.0
_MAX_RUNNING = 24
_CHARS_PER_TOKEN = 4

_Block = tuple[object, ...]


class Turn(Struct):
    """A request: when it comes, its messages, the same as the engines' blocks of tokens, and how many tokens its response has."""

    at_s: float
    messages: Sequence[Mapping[str, str]]
    blocks: Sequence[_Block]
    output_tokens: int


def make_trace(seed: int, requests_per_s: float) -> list[Turn]:
    rng = random.Random(seed)
    system_tokens = [rng.choice((200, 500, 1_000, 2_000, 4_000)) for _ in range(12)]
    popularity = [1 / rank for rank in range(1, 13)]
    turns: list[Turn] = []
    begins_s = 0.0
    for chat in itertools.count():
        begins_s += rng.expovariate(requests_per_s / 5)  # a chat has five turns in the mean
        if begins_s >= SECONDS:
            return sorted(turns, key=lambda turn: turn.at_s)
        system = rng.choices(range(12), popularity)[0]
        messages = [{"role": "system", "content": _text(f"s{system}", system_tokens[system])}]
        blocks: list[_Block] = [("system", system, at) for at in range(system_tokens[system] // _BLOCK_TOKENS)]
        at_s = begins_s
        for number in range(1 + min(11, int(rng.expovariate(1 / 4)))):
            question = max(16, int(rng.lognormvariate(5, 1)))
            answer = max(16, min(800, int(rng.lognormvariate(5, 0.7))))
            messages = [*messages, {"role": "user", "content": _text(f"u{chat}.{number}", question)}]
            blocks = [*blocks, *((chat, number, "question", at) for at in range(question // _BLOCK_TOKENS))]
            if at_s < SECONDS:
                turns.append(Turn(at_s, messages, blocks, answer))
            messages = [*messages, {"role": "assistant", "content": _text(f"a{chat}.{number}", answer)}]
            blocks = [*blocks, *((chat, number, "answer", at) for at in range(answer // _BLOCK_TOKENS))]
            at_s += answer / 40 + rng.expovariate(1 / 8)
    raise AssertionError


def _text(name: str, tokens: int) -> str:
    """A text of about as many tokens, which no other name has."""
    return f"{name:8.8}" * (tokens * _CHARS_PER_TOKEN // 8)


class Policy(Protocol):
    """A way to choose an endpoint. What choose() gives as `token` is given back as the request goes on."""

    def choose(self, now: float, turn: Turn) -> tuple[int, Any]: ...

    def mark_answered(self, now: float, token: Any) -> None: ...

    def end(self, token: Any) -> None: ...


class RoundRobin:
    def __init__(self) -> None:
        self._turns = itertools.cycle(range(ENDPOINTS))

    def choose(self, now: float, turn: Turn) -> tuple[int, Any]:
        return next(self._turns), None

    def mark_answered(self, now: float, token: Any) -> None: ...

    def end(self, token: Any) -> None: ...


class LeastInFlight:
    def __init__(self) -> None:
        self.in_flight = [0] * ENDPOINTS

    def candidates(self, turn: Turn) -> Sequence[int]:
        return range(ENDPOINTS)

    def choose(self, now: float, turn: Turn) -> tuple[int, Any]:
        chosen = min(self.candidates(turn), key=lambda each: self.in_flight[each])
        self.in_flight[chosen] += 1
        return chosen, chosen

    def mark_answered(self, now: float, token: Any) -> None: ...

    def end(self, token: Any) -> None:
        self.in_flight[token] -= 1


class PrefixAffinity(LeastInFlight):
    """The endpoints that were sent the longest beginning of the prompt, however busy; of these the one with the least in flight."""

    def __init__(self) -> None:
        super().__init__()
        self._holders: dict[_Block, set[int]] = {}

    def candidates(self, turn: Turn) -> Sequence[int]:
        best = set(range(ENDPOINTS))
        for block in turn.blocks:
            holders = self._holders.get(block, set()) & best
            if not holders:
                break
            best = holders
        return sorted(best)

    def choose(self, now: float, turn: Turn) -> tuple[int, Any]:
        chosen, token = super().choose(now, turn)
        for block in turn.blocks:
            self._holders.setdefault(block, set()).add(chosen)
        return chosen, token


class GatewayChoice:
    """The gateway's own code."""

    def __init__(self) -> None:
        addresses = tuple(f"http://127.0.0.1:{9_000 + number}" for number in range(ENDPOINTS))
        self._target = Target("engine", "m", endpoints=addresses)
        fleet = Fleet(Settings(), Transport(connections_per_origin=1))
        fleet.apply_snapshot(build_snapshot(1, {"engine": ProviderConfig("vllm")}, {"m": ModelConfig((self._target,))}))
        self._table = fleet.table
        self._numbers = {endpoint: number for number, endpoint in enumerate(fleet.table.endpoints_of(self._target))}

    def choose(self, now: float, turn: Turn) -> tuple[int, Any]:
        request = DIALECTS["openai_chat"].parse_request(json.dumps({"model": "m", "stream": True, "messages": turn.messages}).encode())
        choice: EndpointChoice = self._table.choose_endpoints(self._target, request, "team")
        endpoint = choice.best(now)
        assert endpoint is not None
        return self._numbers[endpoint], endpoint.load.begin_request(choice.begin(endpoint), now, awaits_first_block=True)

    def mark_answered(self, now: float, token: RequestLoad) -> None:
        token.mark_answered(now)

    def end(self, token: RequestLoad) -> None:
        token.end()


class Outcome(Struct):
    """Times to the first token in seconds; `most_loaded`: requests of the endpoint that got most, by the mean; `cached`: of all tokens."""

    p50_s: float
    p90_s: float
    p99_s: float
    most_loaded: float
    cached: float


class _Engine:
    def __init__(self) -> None:
        self.waiting: deque[tuple[Turn, Any]] = deque()
        self.running = 0
        self.reading = False
        self.received = 0
        self.cached_blocks = 0
        self.prompt_blocks = 0
        self._cache: OrderedDict[_Block, None] = OrderedDict()

    def read_prompt(self, turn: Turn) -> int:
        """How many of its tokens are not cached; afterwards all are."""
        cached = sum(1 for _ in itertools.takewhile(self._cache.__contains__, turn.blocks))
        for block in reversed(turn.blocks):
            self._cache[block] = None
            self._cache.move_to_end(block)
        while len(self._cache) > _CACHED_BLOCKS:
            self._cache.popitem(last=False)
        self.cached_blocks += cached
        self.prompt_blocks += len(turn.blocks)
        return (len(turn.blocks) - cached) * _BLOCK_TOKENS


def simulate(policy: Policy, trace: Sequence[Turn]) -> Outcome:
    engines = [_Engine() for _ in range(ENDPOINTS)]
    number = itertools.count()
    events: list[tuple[float, int, Callable[[float], None]]] = []
    waits_s: list[float] = []

    def at(time_s: float, action: Callable[[float], None]) -> None:
        heapq.heappush(events, (time_s, next(number), action))

    def arrive(turn: Turn) -> Callable[[float], None]:
        def action(now: float) -> None:
            chosen, token = policy.choose(now, turn)
            engines[chosen].received += 1
            engines[chosen].waiting.append((turn, token))
            read_next(chosen, now)

        return action

    def read_next(chosen: int, now: float) -> None:
        engine = engines[chosen]
        if engine.reading or not engine.waiting or engine.running >= _MAX_RUNNING:
            return
        turn, token = engine.waiting.popleft()
        begins_s = STUCK_UNTIL_S if chosen == STUCK_ENDPOINT and STUCK_FROM_S <= now < STUCK_UNTIL_S else now
        reading_s = 0.005 + engine.read_prompt(turn) / _PROMPT_TOKENS_PER_S * (1 + engine.running / _MAX_RUNNING)
        engine.reading = True
        engine.running += 1

        def answer(now: float) -> None:
            engine.reading = False
            waits_s.append(now - turn.at_s)
            policy.mark_answered(now, token)
            at(now + turn.output_tokens * (0.012 + 0.0008 * engine.running), end)
            read_next(chosen, now)

        def end(now: float) -> None:
            engine.running -= 1
            policy.end(token)
            read_next(chosen, now)

        at(begins_s + reading_s, answer)

    for turn in trace:
        at(turn.at_s, arrive(turn))
    while events:
        now, _, action = heapq.heappop(events)
        action(now)
    waits_s.sort()
    received = [engine.received for engine in engines]
    return Outcome(
        *(waits_s[int(len(waits_s) * share)] for share in (0.5, 0.9, 0.99)),
        most_loaded=max(received) * ENDPOINTS / sum(received),
        cached=sum(each.cached_blocks for each in engines) / sum(each.prompt_blocks for each in engines),
    )


POLICIES: Mapping[str, Callable[[], Policy]] = {
    "round robin": RoundRobin,
    "least in flight": LeastInFlight,
    "prefix affinity": PrefixAffinity,
    "narthex": GatewayChoice,
}


def main() -> None:
    print(f"{'':18}{'seed':>5}{'req/s':>7}{'p50':>9}{'p90':>9}{'p99':>9}{'busiest':>9}{'cached':>8}")
    for requests_per_s in (10, 20, 28):
        for seed in (1, 2, 3):
            trace = make_trace(seed, requests_per_s)
            for name, policy in POLICIES.items():
                outcome = simulate(policy(), trace)
                times = "".join(f"{each * 1000:7.0f}ms" for each in (outcome.p50_s, outcome.p90_s, outcome.p99_s))
                sys.stdout.write(f"{name:18}{seed:5}{requests_per_s:7}{times}{outcome.most_loaded:8.2f}x{outcome.cached:7.0%}\n")


if __name__ == "__main__":
    main()
