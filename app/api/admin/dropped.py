"""Which callers lose which fields, for admin keys: GET /admin/v1/dropped."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.params import Parameter
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.rest.request_parsing import reject_unknown_parameters
from app.store import drop_summary
from app.store.inference_queries import timed_connection
from app.store.key_validation import parse_prefix
from providers.canonical.errors import InvalidRequest, Unavailable

_PARAMETERS = ("since", "until", "team", "key", "model", "limit")
_FIRST_YEAR, _LAST_YEAR = 1970, 9000


def routes(database: AsyncEngine) -> Router:
    @get("/dropped")
    async def summarize_drops(
        request: Request[Any, Any, Any],
        since: datetime | None = None,
        until: datetime | None = None,
        team: str | None = None,
        key: str | None = None,
        model: str | None = None,
        limit: Annotated[int, Parameter(ge=1, le=drop_summary.MAX_ROWS)] = 100,
    ) -> dict[str, Any]:
        reject_unknown_parameters(request, _PARAMETERS)
        begin, end = _parse_period(since, until)
        scope = _parse_scope(team, key, model)
        try:
            async with timed_connection(database) as connection:
                rows = await drop_summary.summarize_drops(connection, begin, end, scope, limit + 1)
        except TimeoutError:
            raise Unavailable(
                "The records were not summed up in time. If the period has many, choose a shorter one.", retry_after_s=2
            ) from None
        return {
            "since": begin.isoformat(),
            "until": end.isoformat(),
            "data": [msgspec.structs.asdict(row) for row in rows[:limit]],
            "has_more": len(rows) > limit,
        }

    return Router("/", route_handlers=[summarize_drops])


def _parse_period(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    end = datetime.now(UTC) if until is None else _parse_time(until, "until")
    begin = end - timedelta(days=drop_summary.DEFAULT_DAYS) if since is None else _parse_time(since, "since")
    if begin >= end:
        raise InvalidRequest("`since` must be before `until`.", param="since")
    if end - begin > timedelta(days=drop_summary.MAX_DAYS):
        raise InvalidRequest(f"The time between `since` and `until` may be {drop_summary.MAX_DAYS} days at most.", param="since")
    return begin, end


def _parse_time(moment: datetime, name: str) -> datetime:
    """A time without a zone is UTC."""
    if not _FIRST_YEAR < moment.year < _LAST_YEAR:  # beyond, zones and the default period would leave the calendar
        raise InvalidRequest(f"`{name}` must be after {_FIRST_YEAR} and before {_LAST_YEAR}.", param=name)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_scope(team: str | None, key: str | None, model: str | None) -> dict[str, str]:
    scope = {name: value for name, value in (("team", team), ("key", key and parse_prefix(key)), ("model", model)) if value is not None}
    if key is not None and "key" not in scope:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    for name, value in scope.items():
        if "\0" in value:
            raise InvalidRequest(f"`{name}` must not contain a NUL character.", param=name)
    return scope
