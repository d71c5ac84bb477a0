"""Results of shadows: how another variant or model answered the same requests, by differences within pairs."""

import datetime
from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.experiments import BOOLEAN_OUTCOMES
from app.results.statistics.compare import Verdict
from app.results.statistics.paired import compare_pairs
from app.results.statistics.plan import Plan
from app.results.statistics.rate import rate_interval
from app.results.statistics.sums import UnitSums
from app.store.replays.shadow_pairs import METRICS, PairSums, read_pair_sums

ALPHA = 0.05
# Episodes for which intervals are narrowest.
_PLANNED = 2_000
_LATENCY = (
    "Latency and time to first token are not comparable where both run on one engine: the shadow comes second, and finds the prompt in the"
    " prefix cache that the original has filled."
)
_TRUNCATED = "Only the newest 200,000 pairs are counted: choose a shorter time."


class ShadowDifference(Struct, frozen=True):
    """The shadow less the original, of a mean episode, in the metric's own unit: seconds, US dollars, tokens,
    or from -1 to 1.

    `low` and `high` are a confidence sequence, which holds however often it is looked at. They are null if it
    is too early, and `reason` says for what. `verdict` is about the shadow.
    """

    metric: str
    episodes: int
    difference: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str | None


class SameResponses(Struct, frozen=True):
    """The part of the first turns of episodes in which both responses have the same text and calls of tools."""

    episodes: int
    share: float
    low: float
    high: float


class ShadowComparison(Struct, frozen=True):
    """The comparison of a shadow with its original, each a variant or a model.

    `pairs` counts requests that both answered, or failed to. `same` is null if no responses can be compared.
    """

    original: str
    shadow: str
    pairs: int
    episodes: int
    first_turns: int
    differences: Sequence[ShadowDifference]
    same: SameResponses | None


class ShadowResults(Struct, frozen=True):
    """The results of the shadows between `since` and `until`.

    `alpha` is the chance that any interval of a comparison is ever wrong. `warnings` are sentences.
    """

    name: str
    since: str
    until: str
    alpha: float
    comparisons: Sequence[ShadowComparison]
    warnings: Sequence[str]


async def read_shadow_results(connection: AsyncConnection, name: str, since: datetime.datetime, until: datetime.datetime) -> ShadowResults:
    """Returns the results of the function or model with this name. Requests of one episode are one unit."""
    found, is_truncated = await read_pair_sums(connection, name, since, until)
    warnings = [*([_LATENCY] if found else []), *([_TRUNCATED] if is_truncated else [])]
    return ShadowResults(name, since.isoformat(), until.isoformat(), ALPHA, [compare(sums) for sums in found], warnings)


def compare(sums: PairSums) -> ShadowComparison:
    # Together with the share of equal responses.
    alpha = ALPHA / (len(METRICS) + 1)
    differences = [_difference(metric, sums.differences, alpha) for metric in METRICS]
    compared = sums.same + sums.different
    same: SameResponses | None = None
    if compared:
        interval = rate_interval(sums.same, sums.different, alpha)
        same = SameResponses(compared, sums.same / compared, interval.low, interval.high)
    return ShadowComparison(sums.original, sums.shadow, sums.pairs, sums.episodes, sums.first_turns, differences, same)


def _difference(metric: str, differences: Mapping[str, tuple[int, float, float, int]], alpha: float) -> ShadowDifference:
    n, y, yy, zeros = differences[metric]
    plan = Plan("boolean" if metric in BOOLEAN_OUTCOMES else "heavy_tailed", "min", alpha, _PLANNED)
    compared = compare_pairs(UnitSums(n, y, yy, zeros), plan)
    low, high = (None, None) if compared.interval is None else (compared.interval.low, compared.interval.high)
    return ShadowDifference(metric, n, compared.difference, low, high, compared.verdict, compared.reason)
