"""What came of trying a provider: an outcome for a program, a sentence and a way out for people."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Outcome = Literal[
    "works",
    "no_address",
    "no_model",
    "name_not_resolved",
    "connection_refused",
    "timed_out",
    "tls",
    "proxy",
    "broke_off",
    "credential_unreadable",
    "credential_missing",
    "credential_refused",
    "credential_expired",
    "not_brought",
    "model_missing",
    "rate_limited",
    "nothing_left",
    "wrong_region",
    "refused",
    "failed",
    "not_understood",
]


class RemainingRateLimit(Struct, frozen=True):
    """How much more of a resource the host says that it lets through; None: not told."""

    resource: str
    limit: float | None
    remaining: float | None


class Explanation(Struct, frozen=True):
    """`advice`: what may be done about it."""

    outcome: Outcome
    message: str
    advice: str | None = None


class CheckResult(Struct, frozen=True):
    """At one address with one credential. `credential`: where it is; None: there is none. `asked`: what for.

    `models`: those that it lists; None: it was not asked, or does not.
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
