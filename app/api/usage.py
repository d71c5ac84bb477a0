"""GET /v1/usage: what a key, or its team, has used and what it cost, from the sums of what was recorded."""

import datetime
from collections.abc import Mapping
from typing import Any, cast, get_args

from litestar import Request, Response, Router, get
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app import uuid7
from app.api.auth import whose_scope
from app.api.replies import request_headers
from app.domain import Caller
from app.store import usage
from app.store.live import Live
from app.store.records import asking
from app.store.zones import NoZone, find_zone
from providers.errors import Malformed

_KNOWN = ("scope", "from", "to", "group_by", "time_zone")
_TIMES = ("hour", "day", "month")
_HOUR = datetime.timedelta(hours=1)
_DAY = datetime.timedelta(days=1)
_MOST_DAYS = 400
_MOST_DAYS_BY_HOUR = 31
_MOST_ROWS = 10_000
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
_UTC = datetime.UTC


def routes(live: Live, database: AsyncEngine) -> Router:
    @get("/v1/usage")
    async def show_usage(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        caller = await whose_scope(live, request.scope)
        wanted = _read(request.query_params.dict(), datetime.datetime.now(_UTC))
        asked = usage.Asked(
            key_id=None if wanted.of_team else caller.key_id,
            team_id=caller.team_id if wanted.of_team else None,
            begin=wanted.begin,
            end=wanted.end,
            group_by=wanted.group_by,
            time_zone=wanted.time_zone,
        )
        async with asking(database) as connection:
            rows = await usage.list_usage(connection, asked, _MOST_ROWS + 1)
        if len(rows) > _MOST_ROWS:
            raise Malformed(f"That would be more than {_MOST_ROWS} rows: ask for a shorter time, or group by less.", param="group_by")
        headers = {name.decode(): value.decode() for name, value in request_headers(uuid7.mint())}
        return Response(_answer(wanted, caller, rows), headers=headers)

    return Router("/", route_handlers=[show_usage])


class _Wanted(Struct, frozen=True):
    of_team: bool
    begin: datetime.datetime
    end: datetime.datetime
    group_by: tuple[usage.Group, ...]
    time_zone: str
    zone: datetime.tzinfo


def _read(said: Mapping[str, list[str]], now: datetime.datetime) -> _Wanted:
    """Raises Malformed."""
    for name, values in said.items():
        if name not in _KNOWN:  # a slip in a name must not show everything
            raise Malformed(f"There is no parameter {name!r:.60}: {', '.join(_KNOWN)} are known.", param=name[:60])
        if len(values) > 1:
            raise Malformed(f"`{name}` is there twice.", param=name)
    one = {name: values[0] for name, values in said.items()}
    scope = one.get("scope", "key")
    if scope not in ("key", "team"):
        raise Malformed("`scope` may be key or team.", param="scope")
    time_zone = one.get("time_zone", "UTC")
    zone = _zone(time_zone)
    group_by = _groups(one.get("group_by", ""))
    this_month = now.astimezone(zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begin = _moment(one["from"], "from", zone) if "from" in one else this_month.astimezone(_UTC)
    end = _moment(one["to"], "to", zone) if "to" in one else max(begin, now.replace(minute=0, second=0, microsecond=0)) + _HOUR
    if begin >= end:
        raise Malformed("`from` must be before `to`, which is the first moment that is not meant any more.", param="to")
    most = _MOST_DAYS_BY_HOUR if "hour" in group_by else _MOST_DAYS
    if end - begin > most * _DAY + _HOUR:  # where the clocks are put back, a day has an hour more
        raise Malformed(f"At most {most} days can be asked for{' by the hour' if 'hour' in group_by else ''}.", param="from")
    if not _has_full_hours(zone, begin, end):
        raise Malformed(f"Days in {time_zone} do not begin with an hour of UTC, by which usage is summed up.", param="time_zone")
    return _Wanted(scope == "team", begin, end, group_by, time_zone, zone)


def _groups(said: str) -> tuple[usage.Group, ...]:
    names = tuple(name.strip() for name in said.split(",")) if said.strip() else ()
    for name in names:
        if name not in get_args(usage.Group):
            raise Malformed(
                f"`group_by` may be {', '.join(get_args(usage.Group))}, with commas between them; {name!r:.60} is none.", param="group_by"
            )
    if len(set(names)) < len(names) or len([name for name in names if name in _TIMES]) > 1:
        raise Malformed(f"`group_by` takes each name once, and of {', '.join(_TIMES)} one.", param="group_by")
    return cast("tuple[usage.Group, ...]", names)


def _zone(said: str) -> datetime.tzinfo:
    try:
        return find_zone(said)
    except NoZone as fault:
        raise Malformed(f"`time_zone`: {fault}", param="time_zone") from None


def _moment(said: str, name: str, zone: datetime.tzinfo) -> datetime.datetime:
    """A day begins in `zone`; so does a time without an offset of its own. In UTC, which is what can be subtracted and compared."""
    if "T" in said:
        said = said.replace(" ", "+")  # what a URL's + reads as
    try:
        moment = datetime.datetime.fromisoformat(said)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(_UTC)
    except (ValueError, OverflowError):
        raise Malformed(f"`{name}` must be a day or a time in ISO 8601, such as 2026-11-01 or 2026-11-01T08:00:00Z.", param=name) from None
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:  # near the ends of the calendar nothing can be added, and in no other zone be told
        raise Malformed(f"`{name}` must be in the years {_FIRST_YEAR} to {_LAST_YEAR}.", param=name)
    if moment.minute or moment.second or moment.microsecond:
        raise Malformed(f"`{name}` must be a full hour: usage is summed up by the hour (of UTC).", param=name)
    return moment


def _has_full_hours(zone: datetime.tzinfo, begin: datetime.datetime, end: datetime.datetime) -> bool:
    days = (begin + at * _DAY for at in range((end - begin) // _DAY + 1))
    return not any((day.astimezone(zone).utcoffset() or _HOUR) % _HOUR for day in days)


def _answer(wanted: _Wanted, caller: Caller, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "object": "usage",
        "scope": {"team": caller.team} if wanted.of_team else {"key": caller.prefix},
        "from": wanted.begin.astimezone(wanted.zone).isoformat(),
        "to": wanted.end.astimezone(wanted.zone).isoformat(),
        "time_zone": wanted.time_zone,
        "group_by": list(wanted.group_by),
        "data": [_row(row, wanted) for row in rows],
        "total": _sums({name: sum(row[name] for row in rows) for name in usage.SUMS}),
    }


def _row(row: dict[str, Any], wanted: _Wanted) -> dict[str, Any]:
    groups = {
        name: row[name].astimezone(wanted.zone).isoformat(timespec="seconds") if name in _TIMES else row[name] for name in wanted.group_by
    }
    return {**groups, **_sums(row)}


def _sums(row: dict[str, Any]) -> dict[str, Any]:
    """Without the groups. The cost in dollars: what is known of it, to the millionth."""
    sums = {name: row[name] for name in usage.SUMS if name not in ("cost_microusd", "unpriced")}
    return {**sums, "cost_usd": row["cost_microusd"] / 1_000_000, "unpriced": row["unpriced"]}
