"""Limits on cost, which refuse models without a price."""

from msgspec.structs import replace

from app.domain.limits import Limit, Period
from app.imports.draft import Draft
from app.imports.durations import find_period
from app.store.postgres.calendar_periods import CALENDAR_UNITS


def add_budget(draft: Draft, limit: Limit, duration: str, path: str) -> None:
    """A limit on cost for a duration as other gateways write it."""
    period = find_period(duration)
    if period is None:
        draft.report.leave_out(path, "The periods are second, minute, hour, day, week and month: no limit lasts this long.")
    else:
        add_cost_limit(draft, limit, period, path)


def add_cost_limit(draft: Draft, limit: Limit, period: Period, path: str) -> None:
    """It is a dry run as long as a model that it counts has no price."""
    if period in CALENDAR_UNITS:
        draft.report.changed(path, "Days, weeks (from Monday) and months are those of the calendar, in UTC or the limit's `time_zone`.")
    named = limit.scope.get("model", "each")
    counted = [named] if named != "each" else list(draft.models)
    priced = all(draft.has_prices(each) for each in counted)
    draft.add_limit(replace(limit, per=period, dry_run=limit.dry_run or not priced), path)
    if not priced:
        draft.report.to_do(
            path,
            "A limit on cost refuses models without a price, so it is a `dry_run`: apply the file, add prices (`narthex prices suggest`),"
            " and remove `dry_run`.",
        )
