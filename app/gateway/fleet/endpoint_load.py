"""EndpointLoad: how much work an endpoint still has, as one worker knows it. Pure: the caller says what time it is."""

import itertools

from providers.adapters.engine_load import EngineLoad

# What a request costs an engine that writes its response, in tokens of prompts that it could read meanwhile. Tried in the simulation of
# bench/routing_simulation.py: anything from 64 to 128 does as well.
RUNNING_REQUEST_TOKENS = 96
# What a request costs besides, times the square of the number in flight there. An engine writes only so many responses at once, and how
# many is not known: before it may be full, another endpoint reads the prefix that many requests have in common, once. With 2 that is after
# 8 requests for a prefix of 1,800 tokens, 16 for 9,700 and 24 for 30,000. Twice as much costs the simulation a sixth of its p90 under load.
CROWDING_TOKENS = 2
# A node may say any speed; what is shown of its load stays a number.
_MAX_CROWD = 1e6
# While streams wait for their first token and none gets one, each second counts as this many tokens: about what an engine reads in it.
STALLED_TOKENS_PER_S = 8_000
# What other callers have waiting there is known by number only.
WAITING_REQUEST_TOKENS = 1_000
# Engines whose KV cache is nearly full interrupt requests, and read their prompts again.
_FULL_CACHE = 0.9
_FULL_CACHE_TOKENS = 4_000

# An endpoint that has just started answers slowly at first. It is cold until it has answered so many requests, and until each of them is
# answered it counts as so many more tokens.
_COLD_REQUESTS = 8
_COLD_TOKENS = 4_000

_dispatches = itertools.count(1)


class EndpointLoad:
    """The load of one endpoint as one worker knows it: other workers have their own.

    It is in tokens of prompts, so that it can be compared with what a cached prefix saves.
    """

    __slots__ = ("cold_requests", "in_flight", "last_dispatch", "others_tokens", "queued_tokens", "waiting", "waiting_since")

    def __init__(self) -> None:
        # Requests that have not ended.
        self.in_flight = 0
        # Of prompts that were sent and not answered with anything yet, but for what is cached there.
        self.queued_tokens = 0
        # Streams without a first block, and since when none of them got one, by the monotonic clock.
        self.waiting = 0
        self.waiting_since = 0.0
        # An estimate for requests that this worker did not send, by the engine's own metrics; 0 if there are none, or
        # it is not known.
        self.others_tokens = 0
        # How many it has to answer until it counts as warm; 0 if it does.
        self.cold_requests = 0
        # A number that grows with each request that is sent to any endpoint; 0 if none was sent here.
        self.last_dispatch = 0

    def cool_down(self) -> None:
        """The endpoint has come, or come back, and has to warm up."""
        self.cold_requests = _COLD_REQUESTS

    def begin_request(self, prompt_tokens: int, now: float, *, awaits_first_block: bool) -> "RequestLoad":
        """Whoever calls this ends it. `prompt_tokens` are those that the endpoint does not have cached."""
        self.last_dispatch = next(_dispatches)
        self.in_flight += 1
        if self.cold_requests:
            prompt_tokens += _COLD_TOKENS
        self.queued_tokens += prompt_tokens
        if awaits_first_block:
            if not self.waiting:
                self.waiting_since = now
            self.waiting += 1
        return RequestLoad(self, prompt_tokens, awaits_first_block)

    def note_engine_load(self, reported: EngineLoad | None) -> None:
        """Notes the load that the engine reports for all its callers, of whom this worker is one.

        `reported` is None if nothing can be read, or not any more.
        """
        if reported is None:
            self.others_tokens = 0
            return
        of_others = max(0, reported.running + reported.waiting - self.in_flight)
        waiting = min(reported.waiting, of_others)
        self.others_tokens = waiting * WAITING_REQUEST_TOKENS + (of_others - waiting) * RUNNING_REQUEST_TOKENS
        if reported.cache_usage is not None and reported.cache_usage > _FULL_CACHE:
            self.others_tokens += round((min(reported.cache_usage, 1.0) - _FULL_CACHE) / (1 - _FULL_CACHE) * _FULL_CACHE_TOKENS)

    def tokens(self, now: float, weight: float = 1.0) -> float:
        """All work that is ahead of a request that would be sent now. `weight` is what the endpoint can take, compared with others."""
        tokens = self.queued_tokens + self.others_tokens
        crowd = min(self.in_flight / weight, _MAX_CROWD)
        tokens += self.in_flight * (RUNNING_REQUEST_TOKENS + crowd * crowd * CROWDING_TOKENS)
        return tokens + (now - self.waiting_since) * STALLED_TOKENS_PER_S if self.waiting else tokens


class RequestLoad:
    """The part of one request in the load of an endpoint."""

    __slots__ = ("_has_ended", "_is_waiting", "_load", "_queued_tokens")

    def __init__(self, load: EndpointLoad, queued_tokens: int, is_waiting: bool) -> None:
        self._load = load
        self._queued_tokens = queued_tokens
        self._is_waiting = is_waiting
        self._has_ended = False

    def mark_answered(self, now: float) -> None:
        """The response has begun, so the prompt is read."""
        if self._is_waiting:
            self._load.waiting_since = now
        self._leave_queue()

    def end(self) -> None:
        """Takes the request off the load. A second call does nothing."""
        if not self._has_ended:
            self._has_ended = True
            self._load.in_flight -= 1
            if self._queued_tokens or self._is_waiting:
                self._leave_queue()

    def _leave_queue(self) -> None:
        if self._load.cold_requests:
            self._load.cold_requests -= 1
        self._load.queued_tokens -= self._queued_tokens
        self._queued_tokens = 0
        if self._is_waiting:
            self._is_waiting = False
            self._load.waiting -= 1
