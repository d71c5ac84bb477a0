"""Endpoint choice: which endpoint of a target serves a request: sticky to the one that holds the prompt's beginning until that is busy."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.domain.exchange import Candidate
from app.domain.routing import Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_load import CROWDING_TOKENS, RUNNING_REQUEST_TOKENS, STALLED_TOKENS_PER_S
from app.gateway.fleet.prefix_index import BLOCK_ENDS, PrefixIndex, block_keys, prompt_of
from providers.dialect import InboundRequest


class EndpointPool:
    """The endpoints of a target. `weights` says by endpoint how much it can take compared with others; None means all the same."""

    def __init__(self, endpoints: Sequence[Endpoint], weights: Mapping[str, float] | None = None) -> None:
        self.endpoints = tuple(endpoints)
        self.is_lone = len(self.endpoints) == 1
        self.weights = {endpoint: weights.get(endpoint.base_url, 1.0) for endpoint in self.endpoints} if weights else None
        self.slots = sum(1 << slot for slot in {endpoint.slot for endpoint in self.endpoints})


class EndpointChoice:
    """The endpoints of a target for one request, in the order in which to try them: iterating gives each once, chosen when it is needed.

    The score of an endpoint is the number of prompt tokens that are read there before the request's response can begin: those queued there,
    and of its own prompt what is not cached there. Of equal ones the one that has waited longest for a request comes first. Endpoints in
    cooldown, and those without the target's LoRA adapter, come last.

    Requests of the same `session` prefer the same endpoint; where it is None, only their prompts tell.
    """

    def __init__(
        self, pool: EndpointPool, target: Target, request: InboundRequest, team_id: str, index: PrefixIndex, session: str | None = None
    ) -> None:
        self._pool = pool
        self._target = target
        self._prompt_tokens = request.input_tokens
        self._team_id = team_id
        self._index = index
        self._tried: list[Endpoint] = []
        self._again: list[Endpoint] = []
        self._keys: Sequence[int] = ()
        self._uncached: dict[int, int] = {}
        self._session_key: int | None = None
        self._find_prefixes(request, session)

    def _find_prefixes(self, request: InboundRequest, session: str | None) -> None:
        """Notes which of the endpoints hold how much of the prompt."""
        target, tokens = self._target, self._prompt_tokens
        seed = (target.provider, target.model, target.lora)
        prompt = prompt_of(request.body)
        self._keys = block_keys(seed, prompt)
        # An endpoint with the session's last turn holds what came before, whatever the prompt's JSON looks like.
        held = [(slots, BLOCK_ENDS[count - 1]) for slots, count in self._index.find_holders(self._team_id, self._keys, self._pool.slots)]
        if session is not None:
            self._session_key = hash((seed, "session", session))
            held += [(slots, len(prompt)) for slots, _ in self._index.find_holders(self._team_id, (self._session_key,), self._pool.slots)]
        for slots, held_bytes in held:
            uncached = tokens - tokens * held_bytes // max(len(prompt), 1)
            while slots:
                lowest = slots & -slots
                self._uncached[lowest.bit_length() - 1] = uncached
                slots ^= lowest

    def __iter__(self) -> Iterator[Endpoint]:
        endpoints = self._pool.endpoints
        while (endpoint := self.best(time.monotonic())) is not None:
            self._tried.append(endpoint)
            yield endpoint
            yield from self._tried_again()
        # What is left is in cooldown, or lacks the adapter: soonest back first.
        rest = [endpoint for endpoint in endpoints if endpoint not in self._tried]
        for endpoint in sorted(rest, key=lambda each: (self._lacks_adapter(each), each.breaker.open_until, each.load.last_dispatch)):
            yield endpoint
            yield from self._tried_again()

    def _tried_again(self) -> Iterable[Endpoint]:
        while self._again:
            yield self._again.pop()

    def take_another(self) -> Endpoint | None:
        """The next best that is available, which is not offered again; None: there is none."""
        endpoint = self.best(time.monotonic())
        if endpoint is not None:
            self._tried.append(endpoint)
        return endpoint

    def avoid(self, endpoint: Endpoint) -> None:
        """Leaves this endpoint out, unless it is the only one."""
        self._tried.append(endpoint)

    def try_again(self, endpoint: Endpoint) -> None:
        """This endpoint is the next one."""
        self._again.append(endpoint)

    def begin(self, endpoint: Endpoint) -> int:
        """Notes that the request is sent to an endpoint. How many tokens of its prompt are not cached there, as far as is known."""
        if self._keys:
            self._index.add(self._team_id, self._keys, endpoint.slot)
        if self._session_key is not None:
            self._index.add(self._team_id, (self._session_key,), endpoint.slot)
        return self._uncached.get(endpoint.slot, self._prompt_tokens)

    def best(self, now: float) -> Endpoint | None:
        """The best endpoint that was not tried, of those that are available; None: there is none."""
        tried, weights = self._tried, self._pool.weights
        uncached, prompt_tokens = self._uncached, self._prompt_tokens
        passed: list[Endpoint] = []
        while True:
            best: Endpoint | None = None
            best_score, best_turn = math.inf, 0
            for endpoint in self._pool.endpoints:
                if endpoint.breaker.open_until > now or (tried and endpoint in tried) or (passed and endpoint in passed):
                    continue
                # EndpointLoad.tokens(), without a call: a pool may have hundreds of endpoints, of which most have nothing to do.
                load = endpoint.load
                score = prompt_tokens + load.queued_tokens + load.others_tokens
                if uncached and endpoint.slot in uncached:
                    score += uncached[endpoint.slot] - prompt_tokens
                if running := load.in_flight:
                    crowd = running if weights is None else running / weights[endpoint]
                    score += running * (RUNNING_REQUEST_TOKENS + crowd * crowd * CROWDING_TOKENS)
                    if load.waiting:
                        score += (now - load.waiting_since) * STALLED_TOKENS_PER_S
                if weights is not None:
                    score /= weights[endpoint]
                if score < best_score or (score == best_score and load.last_dispatch < best_turn):
                    best, best_score, best_turn = endpoint, score, load.last_dispatch
            if best is None or not (
                best.credential_pool.in_cooldown(now, self._target.model)
                or self._lacks_adapter(best)
                or (best.busy_times and best.busy_times.left_s(self._target.model, now, self._team_id))
            ):
                return best
            passed.append(best)

    def _lacks_adapter(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint is known not to have loaded the target's LoRA adapter."""
        loaded, lora = endpoint.provider.lora_adapters, self._target.lora
        return lora is not None and loaded is not None and lora not in loaded

    def explain(self, now: float) -> tuple[Candidate, ...]:
        """All endpoints as they stand, the best first."""
        candidates = [self._explain(number, endpoint, now) for number, endpoint in enumerate(self._pool.endpoints)]
        return tuple(sorted(candidates, key=lambda each: (bool(each.unavailable), each.score)))

    def _explain(self, number: int, endpoint: Endpoint, now: float) -> Candidate:
        weight = 1.0 if self._pool.weights is None else self._pool.weights[endpoint]
        uncached, load_tokens = self._uncached.get(endpoint.slot, self._prompt_tokens), round(endpoint.load.tokens(now, weight))
        unavailable = None
        if endpoint in self._tried:
            unavailable = "tried before"
        elif endpoint.breaker.open_until > now:
            unavailable = "breaker open"
        elif endpoint.credential_pool.in_cooldown(now, self._target.model):
            unavailable = "credentials in cooldown"
        elif endpoint.busy_times.left_s(self._target.model, now, self._team_id):
            unavailable = "busy"
        elif self._lacks_adapter(endpoint):
            unavailable = "without the LoRA adapter"
        score = round((uncached + load_tokens) / weight)
        return Candidate(number, endpoint.base_url, score, self._prompt_tokens - uncached, load_tokens, unavailable)


class LoneEndpoint(EndpointChoice):
    """The choice where there is nothing to choose, as mostly."""

    def __init__(self, pool: EndpointPool, target: Target, request: InboundRequest, team_id: str) -> None:
        self._pool = pool
        self._target = target
        self._team_id = team_id
        self._prompt_tokens = request.input_tokens
        self._order = [*pool.endpoints]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._order)  # which sees what try_again() appends

    def try_again(self, endpoint: Endpoint) -> None:
        self._order.append(endpoint)

    def begin(self, endpoint: Endpoint) -> int:
        return self._prompt_tokens

    def avoid(self, endpoint: Endpoint) -> None:
        pass

    def take_another(self) -> Endpoint | None:
        return None

    def best(self, now: float) -> Endpoint | None:
        (endpoint,) = self._pool.endpoints
        return None if endpoint.in_cooldown(now, self._target.model, self._team_id) else endpoint

    def explain(self, now: float) -> tuple[Candidate, ...]:
        self._tried, self._uncached = [], {}
        return super().explain(now)
