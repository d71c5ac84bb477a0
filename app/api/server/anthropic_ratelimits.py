"""Rate-limit headers as Anthropic sends them: `anthropic-ratelimit-*`, with points in time for resets, and how a budget stands.

Sources: https://docs.anthropic.com/en/api/rate-limits, and for budgets the contract that Claude Code 2.1.332 has with gateways (`GET
/protocol` of `claude gateway`), which shows its user "You've used 82 % of your usage credits" by them; both read 2026-11.
"""

import math
import re
import time
from collections.abc import Iterable

from app.api.server.http_call import Header
from app.gateway.limits.budget_standing import BudgetStanding
from app.gateway.limits.reservation import Reservation
from providers.canonical.errors import LimitExceeded

_OPENAI_PREFIX = b"x-ratelimit-"
_UNIFIED = b"anthropic-ratelimit-unified-"
# Claude Code says so once for each.
_WARNING_SHARES = (b"0.95", b"0.75")
_PERIODS = {"day": b"daily", "week": b"weekly", "month": b"monthly"}
_DURATION = re.compile(rb"(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?|(\d+)ms")


def write_limit_headers(reservation: Reservation, *, anthropic: bool) -> bytes:
    """Writes what a response says of the rules that its request took from; `anthropic` says it as Anthropic does, and of budgets, too."""
    headers = reservation.headers
    if anthropic:
        headers = to_anthropic_headers(headers)
        if (budget := reservation.fullest_budget) is not None:
            headers += budget_headers(budget)
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def to_anthropic_headers(headers: Iterable[Header]) -> list[Header]:
    """Translate OpenAI's header names and durations to Anthropic's; other headers stay as they are."""
    return [_to_anthropic_header(name, value) if name.startswith(_OPENAI_PREFIX) else (name, value) for name, value in headers]


def _to_anthropic_header(name: bytes, value: bytes) -> Header:
    aspect, _, resource = name.removeprefix(_OPENAI_PREFIX).partition(b"-")
    return b"anthropic-ratelimit-%b-%b" % (resource, aspect), _reset_time(value) if aspect == b"reset" else value


def _reset_time(duration: bytes) -> bytes:
    match = _DURATION.fullmatch(duration)
    assert match is not None, duration  # the gateway wrote it itself
    hours, minutes, seconds, milliseconds = (float(each or 0) for each in match.groups())
    at = time.time() + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + 1)).encode()  # rounded up to a second: never too early


def budget_headers(standing: BudgetStanding) -> list[Header]:
    """The headers of a response about the fullest budget of its caller. What is used stays below 1 as long as requests are admitted."""
    surpassed = next((share for share in _WARNING_SHARES if standing.utilization > float(share)), None)
    status = b"allowed" if surpassed is None else b"allowed_warning"
    fields = [
        *((b"status", status), (b"representative-claim", b"overage"), (b"overage-status", status)),
        (b"overage-utilization", b"%.2f" % min(standing.utilization, 0.99)),
        *_resets(standing.resets_at_s),
    ]
    if surpassed is not None:
        fields.append((b"overage-surpassed-threshold", surpassed))
    return [(_UNIFIED + name, value) for name, value in fields]


def refused_budget_headers(error: LimitExceeded) -> list[Header]:
    """The headers of the refusal by a budget. Without a claim Claude Code shows the error's message, and it does not try again."""
    if error.budget_period is None:
        return []
    fields = [
        *((b"status", b"rejected"), (b"overage-utilization", b"1"), (b"overage-surpassed-threshold", b"1")),
        *_resets(math.ceil(time.time() + (error.retry_after_s or 0))),
        *((b"overage-period", _PERIODS[error.budget_period]), (b"overage-disabled-reason", b"org_spend_cap_reached")),
    ]
    return [(b"x-should-retry", b"false"), *((_UNIFIED + name, value) for name, value in fields)]


def _resets(at_s: int) -> tuple[Header, Header]:
    return (b"reset", b"%d" % at_s), (b"overage-reset", b"%d" % at_s)
