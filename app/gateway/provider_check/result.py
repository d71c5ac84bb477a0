"""The result of a provider check: an outcome for programs, a sentence and advice for people."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Outcome = Literal[
    "works",
    "no_address",
    "no_model",
    "refused_address",
    "name_not_resolved",
    "connection_refused",
    "timed_out",
    "tls",
    "proxy",
    "connection_broken",
    "credential_unreadable",
    "credential_missing",
    "credential_refused",
    "credential_expired",
    "caller_credential_missing",
    "model_missing",
    "rate_limited",
    "quota_exhausted",
    "wrong_region",
    "refused",
    "failed",
    "invalid_response",
]


class RemainingRateLimit(Struct, frozen=True):
    """A rate limit and what remains of it, as the host reports them; None: not reported."""

    resource: str
    limit: float | None
    remaining: float | None


class Explanation(Struct, frozen=True):
    """An outcome in words."""

    outcome: Outcome
    message: str
    advice: str | None = None  # what to do about it


class CheckResult(Struct, frozen=True):
    """The result at one address with one credential. `credential`: a reference to it; None: there is none. `requested`: in words.

    `models`: those that it lists; None: the list was not requested, or there is none.
    """

    address: str
    credential: str | None
    requested: str
    outcome: Outcome
    message: str
    advice: str | None = None
    status: int | None = None
    latency_ms: int | None = None
    models: Sequence[str] | None = None
    rate_limits: Sequence[RemainingRateLimit] = ()
    request_id: str | None = None
