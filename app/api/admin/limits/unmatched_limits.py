"""Limits that no request has matched: GET /admin/v1/unmatched-limits."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.store.limits.limit_matches import UnmatchedLimit, known_since, page_unmatched
from app.store.postgres.paging import After, Limit

_DEFAULT = timedelta(days=30)


class UnmatchedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name"] = "name"
    since: TimeText | None = None


class UnmatchedLimits(Struct, frozen=True):
    """A page. `known_since`: since when matches are stored; what came before is not known. `next`: as `after` for the next page."""

    data: Sequence[UnmatchedLimit]
    known_since: str
    next: str | None


async def _list(call: Call[UnmatchedQuery, NoBody]) -> Answer:
    since = datetime.now(UTC) - _DEFAULT if call.query.since is None else parse_time(call.query.since, "since")
    page = await page_unmatched(call.connection, call.query, since)
    return Answer(UnmatchedLimits(page.data, (await known_since(call.connection)).isoformat(), page.next))


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/unmatched-limits",
            id="list_unmatched_limits",
            tag="Limits",
            summary="List limits and budgets that no request has matched",
            description="Since `since`; 30 days. Such a limit may name what does not exist any more, or a tag that nobody sends. Requests"
            " that it let pass and those that it refused count; workers report them within seconds, to the minute.",
            permission="config:read",
            query=UnmatchedQuery,
            response=UnmatchedLimits,
            commands=(
                Command(
                    name="limits unmatched",
                    help="Such a limit may name what does not exist any more, or a tag that nobody sends.",
                    examples=("limits unmatched --since 7d",),
                    options={"since": Option(help="Since then: 7d (ago), 2026-11-01 or 2026-11-01T08:00Z. Default: 30d.")},
                    data="limits",
                    render="limits.unmatched",
                ),
            ),
            handler=_list,
        )
    ]
