"""Results of a replay: for each metric the difference between the replayed responses and the originals, with an interval that holds at
every look; how many say the same; and what the judge prefers.

All of them are paired: a request that is long, or late at night, is so in both. A unit is an episode, whose value is the mean of its
pairs, as responses of one conversation depend on each other.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.results.statistics.bounded import betting, empirical_bernstein
from app.results.statistics.compare import Verdict, verdict_on
from app.results.statistics.confidence_sequence import Interval
from app.results.statistics.paired import compare_outcomes, compare_pairs
from app.results.statistics.plan import Plan
from app.results.statistics.sums import UnitSums
from app.store.replays.replays import Replay
from app.store.replays.sums import Judgements, PairedOutcomes, PairedSums, ReplaySums, read_sums

ALPHA = 0.05
# The tighter method searches, over all values again and again.
_MAX_BETTING_UNITS = 1_000


class ShownInterval(Struct, frozen=True):
    """The true value is between `low` and `high`, at all looks together, with the confidence of the results."""

    low: float
    high: float


class MetricResult(Struct, frozen=True):
    """A metric of both, in its own unit: seconds, US dollars, tokens, or a share.

    `difference` is replayed less original; below 0 is better. `interval` is null if it is too early for one,
    for the `reason`.
    """

    metric: str
    units: int
    original: float
    replayed: float
    difference: float | None
    interval: ShownInterval | None
    verdict: Verdict
    reason: str | None


class MatchResult(Struct, frozen=True):
    """Pairs whose responses say the same: their text, and the tools that they call with which arguments.

    `share` is the share of units.
    """

    compared: int
    same: int
    share: float | None
    interval: ShownInterval | None


class JudgeResult(Struct, frozen=True):
    """The preference of the judge.

    `score` is the mean over units; above 0.5 the replayed responses are better. `wins`, `losses` and `ties`
    count the pairs that the replayed response won, lost, or neither. `flip_rate` is, of the pairs that were
    judged in both orders, the share in which the orders disagreed, which count as ties. `failed` counts pairs
    that have no judgement.
    """

    pairs: int
    score: float | None
    interval: ShownInterval | None
    verdict: Verdict
    wins: int
    losses: int
    ties: int
    flip_rate: float | None
    failed: int


class ReplayResults(Struct, frozen=True):
    """The comparison of the replayed responses with the originals.

    `pairs` counts those that count, up to the first item that is still open, and `units` the episodes that
    they are of. `confidence` is that of each interval, so that all of them hold together with 95 %. `judge`
    is null if there is none. `summary` says in a sentence or two what may be concluded.
    """

    id: str
    status: str
    pairs: int
    units: int
    confidence: float
    metrics: Sequence[MetricResult]
    match: MatchResult
    judge: JudgeResult | None
    summary: str


async def read_results(connection: AsyncConnection, replay: Replay) -> ReplayResults:
    sums = await read_sums(connection, replay.id)
    return await asyncio.to_thread(compare_replay, replay, sums)


def compare_replay(replay: Replay, sums: ReplaySums) -> ReplayResults:
    has_judge = replay.definition.judge is not None
    alpha = ALPHA / (len(sums.floats) + len(sums.booleans) + 1 + has_judge)
    planned = max(2, min(replay.definition.max_items, sum(replay.items.values())))
    floats = [_compare_floats(name, each, Plan("heavy_tailed", "min", alpha, planned)) for name, each in sums.floats.items()]
    plan = Plan("boolean", "min", alpha, planned)
    booleans = [_compare_booleans(name, each, sums, plan) for name, each in sums.booleans.items()]
    metrics = [*booleans, *floats]
    match = MatchResult(sums.compared, sums.same, _mean(sums.matches), _bounded(sums.matches, alpha))
    judged = _compare_judged(sums.judgements, Plan("float", "max", alpha, planned)) if has_judge else None
    summary = _summarise(replay.status, sums, metrics, judged)
    return ReplayResults(replay.id, replay.status, sums.pairs, sums.units, 1 - alpha, metrics, match, judged, summary)


def _compare_floats(name: str, sums: PairedSums, plan: Plan) -> MetricResult:
    found = compare_pairs(UnitSums(sums.units, sums.difference, sums.squares, sums.zeros), plan)
    return MetricResult(
        name, sums.units, sums.original, sums.replayed, found.difference, _shown(found.interval), found.verdict, found.reason
    )


def _compare_booleans(name: str, outcomes: PairedOutcomes, sums: ReplaySums, plan: Plan) -> MetricResult:
    """Compares exactly: by pairs that differ if each unit is one pair, else by the bounded values of units."""
    if sums.pairs_of_unit <= 1:
        found = compare_outcomes(outcomes.only_original, outcomes.only_replayed, sums.units, plan)
        difference, interval, verdict, reason = found.difference, found.interval, found.verdict, found.reason
    else:
        difference = _mean(outcomes.differences)
        halved = _interval([(each + 1) / 2 for each in outcomes.differences], plan.alpha)
        interval, reason = Interval(2 * halved.low - 1, 2 * halved.high - 1), None
        verdict = verdict_on(interval, plan)
    shown = None if difference is None else _shown(interval)
    return MetricResult(name, sums.units, outcomes.original, outcomes.replayed, difference, shown, verdict, reason)


def _compare_judged(judgements: Judgements, plan: Plan) -> JudgeResult:
    interval = _interval(judgements.scores, plan.alpha)
    verdict = verdict_on(Interval(interval.low - 0.5, interval.high - 0.5), plan)
    return JudgeResult(
        judgements.pairs,
        _mean(judgements.scores),
        _shown(interval) if judgements.scores else None,
        verdict if judgements.scores else "too early",
        judgements.wins,
        judgements.losses,
        judgements.ties,
        judgements.flipped / judgements.pairs if judgements.pairs else None,
        judgements.failed,
    )


def _bounded(values: Sequence[float], alpha: float) -> ShownInterval | None:
    return _shown(_interval(values, alpha)) if values else None


def _interval(values: Sequence[float], alpha: float) -> Interval:
    """Returns the interval of the mean of values from 0 to 1, exact at any number of them."""
    return betting(values, alpha) if len(values) <= _MAX_BETTING_UNITS else empirical_bernstein(values, alpha)


def _shown(interval: Interval | None) -> ShownInterval | None:
    return None if interval is None else ShownInterval(interval.low, interval.high)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _summarise(status: str, sums: ReplaySums, metrics: Sequence[MetricResult], judged: JudgeResult | None) -> str:
    if not sums.pairs:
        if status == "running":
            return "No pair is complete yet."
        of_each = "GET /admin/v1/replays/{id}/items, or `narthex replay items`"
        return f"There is no pair to compare: see the status and reason of each item ({of_each})."
    of_verdict = {verdict: [each.metric for each in metrics if each.verdict == verdict] for verdict in ("better", "worse")}
    shown = [f"{verdict} in {_listed(names)}" for verdict, names in of_verdict.items() if names]
    sentences = [f"The replayed responses are {', and '.join(shown)}"] if shown else []
    open_ = [each.metric for each in metrics if each.verdict not in ("better", "worse")]
    if open_:
        sentences.append(f"No difference has been shown in {_listed(open_)}; that does not mean that there is none")
    if judged is not None and judged.score is not None:
        preferences = {"better": "prefers the replayed responses", "worse": "prefers the originals"}
        sentences.append(f"The judge {preferences.get(judged.verdict, 'has not been shown to prefer either')}")
    return ". ".join(sentences) + "."


def _listed(names: Sequence[str]) -> str:
    words = [name.replace("_", " ") for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
