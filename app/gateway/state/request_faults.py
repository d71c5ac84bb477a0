"""Tells whose fault a failure is: an endpoint's, or that of a request that makes one after another fail.

A request that an engine answers with a 500, and another endpoint, too, may be at fault itself. Its caller
could otherwise have every breaker opened, with a few requests, for all other callers.
"""

from typing import NamedTuple

from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from providers.canonical.errors import UpstreamFailed


class _Failure(NamedTuple):
    endpoint: Endpoint
    model: str
    error: UpstreamFailed


class RequestFaults:
    """The 500s of one request. They count when it is known what other endpoints made of it: see add() and settle()."""

    __slots__ = ("_failures", "_fleet", "_is_repeated", "_team_id")

    def __init__(self, fleet: Fleet, team_id: str) -> None:
        self._fleet = fleet
        self._team_id = team_id
        self._failures: list[_Failure] = []
        self._is_repeated = False

    def add(self, endpoint: Endpoint, model: str, error: UpstreamFailed) -> None:
        self._failures.append(_Failure(endpoint, model, error))
        self._is_repeated = self._is_repeated or any(each.endpoint is not endpoint for each in self._failures)

    def settle(self, *, was_cancelled: bool = False) -> None:
        """Another endpoint has answered the request, or it has ended.

        `was_cancelled` says that its caller has left, so what another endpoint would have made of it is not known.
        """
        in_doubt_of = self._team_id if self._is_repeated or was_cancelled else None
        for endpoint, model, error in self._failures:
            self._fleet.record_failure(endpoint, model, error, in_doubt_of=in_doubt_of)
        self._failures = []
