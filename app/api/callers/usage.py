"""GET /v1/usage: what a key or its team has used and what it cost, from the recorded sums."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from litestar import Request, Response, Router, get
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.callers.authentication import Authenticate
from app.api.callers.caller_route import OBJECT, TEXT, CallerRoute, list_of
from app.api.server.query_parameters import read_parameters
from app.api.server.response_headers import new_request_headers
from app.domain.callers import Caller
from app.store.postgres.time_zones import UnknownTimeZone, find_time_zone, has_full_hours
from app.store.records.inference_queries import timed_connection
from app.store.usage import usage
from providers.canonical.errors import InvalidRequest

PATH = "/v1/usage"
_PARAMETER_NAMES = ("scope", "from", "to", "group_by", "time_zone")
_TIME_GROUPS = ("hour", "day", "month")
_HOUR = datetime.timedelta(hours=1)
_DAY = datetime.timedelta(days=1)
_MAX_DAYS = 400
_MAX_DAYS_BY_HOUR = 31
_MAX_ROWS = 10_000
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
_UTC = datetime.UTC


def routes(database: AsyncEngine, authenticate: Authenticate, path: str = PATH) -> Router:
    @get(path)
    async def show_usage(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
        caller = await authenticate(request)
        parameters = _parse_parameters(read_parameters(request.scope["query_string"], _PARAMETER_NAMES), datetime.datetime.now(_UTC))
        usage_query = usage.UsageQuery(
            key_id=None if parameters.is_team else caller.key_id,
            team_id=caller.team_id if parameters.is_team else None,
            begin=parameters.begin,
            end=parameters.end,
            group_by=parameters.group_by,
            time_zone=parameters.time_zone,
        )
        async with timed_connection(database) as connection:
            rows = await usage.list_usage(connection, usage_query, _MAX_ROWS + 1)
        if len(rows) > _MAX_ROWS:
            raise InvalidRequest(f"The result has more than {_MAX_ROWS} rows: choose a shorter time, or group by less.", param="group_by")
        return Response(_to_json(parameters, caller, rows), headers=new_request_headers())

    return Router("/", route_handlers=[show_usage])


DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/v1/usage",
        id="show_usage",
        tag="Callers",
        summary="Show what a key or its team has used, and what it cost",
        parameters={
            "scope": {
                "type": "string",
                "enum": ["key", "team"],
                "default": "key",
                "description": "Of the key, or of its whole team.",
            },
            "from": {"type": "string", "description": "A day, or a full hour, in ISO 8601; the beginning of this month if left out."},
            "to": {"type": "string", "description": "The first moment that is not included."},
            "group_by": {"type": "string", "description": "hour, day or month, model, key: separated by commas."},
            "time_zone": {"type": "string", "default": "UTC", "description": "The zone of days and months, and of times without one."},
        },
        response=list_of(OBJECT, object=TEXT, scope=OBJECT, total=OBJECT, time_zone=TEXT),
    ),
)


class _Parameters(Struct, frozen=True):
    is_team: bool
    begin: datetime.datetime
    end: datetime.datetime
    group_by: tuple[usage.Group, ...]
    time_zone: str
    zone: datetime.tzinfo


def _parse_parameters(parameters: Mapping[str, str], now: datetime.datetime) -> _Parameters:
    """Raises InvalidRequest."""
    scope = parameters.get("scope", "key")
    if scope not in ("key", "team"):
        raise InvalidRequest("`scope` may be key or team.", param="scope")
    time_zone = parameters.get("time_zone", "UTC")
    zone = _parse_time_zone(time_zone)
    group_by = _parse_group_by(parameters.get("group_by", ""))
    this_month = now.astimezone(zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begin = _parse_time(parameters["from"], "from", zone) if "from" in parameters else this_month.astimezone(_UTC)
    end = (
        _parse_time(parameters["to"], "to", zone)
        if "to" in parameters
        else max(begin, now.replace(minute=0, second=0, microsecond=0)) + _HOUR
    )
    if begin >= end:
        raise InvalidRequest("`from` must be before `to`, the first moment that is not included.", param="to")
    max_days = _MAX_DAYS_BY_HOUR if "hour" in group_by else _MAX_DAYS
    if end - begin > max_days * _DAY + _HOUR:  # a day on which clocks are put back has an hour more
        raise InvalidRequest(f"The time may span at most {max_days} days{' by the hour' if 'hour' in group_by else ''}.", param="from")
    if not has_full_hours(zone, begin, end):
        raise InvalidRequest(f"Days in {time_zone} do not begin on a full hour of UTC, by which usage is summed up.", param="time_zone")
    return _Parameters(scope == "team", begin, end, group_by, time_zone, zone)


def _parse_group_by(text: str) -> tuple[usage.Group, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    for name in names:
        if name not in get_args(usage.Group):
            raise InvalidRequest(
                f"`group_by` may be {', '.join(get_args(usage.Group))}, separated by commas, not {name!r:.60}.", param="group_by"
            )
    if len(set(names)) < len(names) or len([name for name in names if name in _TIME_GROUPS]) > 1:
        raise InvalidRequest(f"`group_by` takes each name once, and only one of {', '.join(_TIME_GROUPS)}.", param="group_by")
    return cast("tuple[usage.Group, ...]", names)


def _parse_time_zone(name: str) -> datetime.tzinfo:
    try:
        return find_time_zone(name)
    except UnknownTimeZone as fault:
        raise InvalidRequest(f"`time_zone`: {fault}", param="time_zone") from None


def _parse_time(text: str, name: str, zone: datetime.tzinfo) -> datetime.datetime:
    """The moment, in UTC. A day, or a time without an offset, is one of `zone`."""
    if "T" in text:
        text = text.replace(" ", "+")  # a + in a query string is decoded as a space
    try:
        moment = datetime.datetime.fromisoformat(text)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(_UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"`{name}` must be a day or a time in ISO 8601, such as 2026-11-01 or 2026-11-01T08:00:00Z.", param=name
        ) from None
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:  # near the ends of the calendar, arithmetic and conversion to zones overflow
        raise InvalidRequest(f"`{name}` must be in the years {_FIRST_YEAR} to {_LAST_YEAR}.", param=name)
    if moment.minute or moment.second or moment.microsecond:
        raise InvalidRequest(f"`{name}` must be a full hour: usage is summed up by the hour of UTC.", param=name)
    return moment


def _to_json(parameters: _Parameters, caller: Caller, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "object": "usage",
        "scope": {"team": caller.team} if parameters.is_team else {"key": caller.prefix},
        "from": parameters.begin.astimezone(parameters.zone).isoformat(),
        "to": parameters.end.astimezone(parameters.zone).isoformat(),
        "time_zone": parameters.time_zone,
        "group_by": list(parameters.group_by),
        "data": [_row_to_json(row, parameters) for row in rows],
        "total": _sums_to_json({name: sum(row[name] for row in rows) for name in usage.SUMS}),
    }


def _row_to_json(row: dict[str, Any], parameters: _Parameters) -> dict[str, Any]:
    groups = {
        name: row[name].astimezone(parameters.zone).isoformat(timespec="seconds") if name in _TIME_GROUPS else row[name]
        for name in parameters.group_by
    }
    return {**groups, **_sums_to_json(row)}


def _sums_to_json(row: dict[str, Any]) -> dict[str, Any]:
    """The sums without the groups. The cost is in dollars, to the millionth, of the requests whose cost is known."""
    sums = {name: row[name] for name in usage.SUMS if name not in ("cost_microusd", "unpriced")}
    return {**sums, "cost_usd": row["cost_microusd"] / 1_000_000, "unpriced": row["unpriced"]}
