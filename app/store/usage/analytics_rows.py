"""Rows of analytics as they are shown: sums of a group in an interval, with quantiles."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from app.process.thread_steps import in_steps, run_in_steps


class Quantiles(Struct, frozen=True):
    """Quantiles in microseconds, each within 2 %. Null means that nothing was measured."""

    p50: int | None
    p90: int | None
    p95: int | None
    p99: int | None


class AnalyticsRow(Struct, frozen=True, kw_only=True):
    """Sums of a group in an interval. `time`: when it begins; null: they are of the whole period. `group`: a value by dimension; null: it
    has none.

    `requests`: recorded ones. `refused`: those that the gateway refused itself; they are recorded only if they had a plan before.
    `failed`: requests whose caller got an error. `cost_microusd`: of the requests whose cost is known; `unpriced`: how many others there
    are; `estimated_microusd`: the part of the cost that was charged by an estimate. `duration`, `first_token`: null unless requested.
    """

    time: str | None
    group: Mapping[str, str | None]
    requests: int
    refused: int
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost_microusd: int
    estimated_microusd: int
    unpriced: int
    mean_duration_us: int
    max_duration_us: int
    duration: Quantiles | None = None
    first_token: Quantiles | None = None


class Analytics(Struct, frozen=True):
    """Sums of recorded requests by group and interval. `since`, `until`: the period, widened to what sums are kept by. `has_more`: there
    are more groups than `limit`.

    `complete_until`: requests that had ended by then are counted; what ended later may still be on its way into the database. Null: no
    writer has run yet. `uncounted`: requests of these days, of all groups, that an earlier version recorded and that are in no sum;
    `narthex analytics backfill` counts them.
    """

    since: str
    until: str
    complete_until: str | None
    uncounted: int
    interval: str | None
    time_zone: str
    group_by: Sequence[str]
    data: Sequence[AnalyticsRow]
    has_more: bool


_AT_ONCE = 500  # so many rows are encoded within two milliseconds


async def with_encoded_rows(analytics: Analytics) -> Analytics:
    """Returns the same with rows that are encoded already, if they are too many to be encoded at one turn of the event loop."""
    if len(analytics.data) <= _AT_ONCE:
        return analytics
    encoded = await run_in_steps(lambda: [Raw(msgspec.json.encode(row)) for row in in_steps(analytics.data)])
    return replace(analytics, data=cast("Sequence[Any]", encoded))
