"""The usage of the whole company: GET /admin/v1/analytics."""

from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.settings import Settings
from app.store.usage.analytics import Analytics, read_analytics
from app.store.usage.analytics_query import DIMENSIONS, MAX_GROUPS, Interval, Order, make_query
from providers.canonical.errors import InvalidRequest

_TIMEOUT_S = 20.0

Text = Annotated[str, Meta(max_length=1024)]


class AnalyticsFilters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    since: TimeText | None = None
    until: TimeText | None = None
    interval: Annotated[Interval, Meta(description="A row for each of these; left out: one for the whole time.")] | None = None
    group_by: Annotated[str, Meta(max_length=2048, description=f"Of {', '.join(DIMENSIONS)} and tag:NAME, separated by commas.")] = ""
    order_by: Annotated[Order, Meta(description="Which groups come first: those with most of it.")] = "requests"
    limit: Annotated[int, Meta(ge=1, le=MAX_GROUPS, description="Most groups.")] = 20
    time_zone: Annotated[str, Meta(max_length=100, description="Of days, weeks and months, such as Europe/Berlin.")] = "UTC"
    quantiles: Annotated[bool, Meta(description="Also quantiles of latency and time to first token.")] = False
    team: Text | None = None
    key: Annotated[Text, Meta(description="The public part of a key.")] | None = None
    end_user: Text | None = None
    tag: Annotated[Text, Meta(description="NAME=VALUE.")] | None = None
    model: Text | None = None
    provider: Text | None = None
    target: Annotated[Text, Meta(description="PROVIDER/MODEL.")] | None = None
    function: Text | None = None
    variant: Text | None = None
    route: Text | None = None
    status: Annotated[str, Meta(pattern="^([1-5][0-9]{2}|[1-5]xx)$", description="Such as 200, or 5xx.")] | None = None
    outcome: Text | None = None
    error: Text | None = None
    rule: Annotated[Text, Meta(description="The limit that refused.")] | None = None


def parse_filters(query: AnalyticsFilters) -> dict[str, str]:
    """A value by dimension. Raises InvalidRequest."""
    filters = {name: value for name in DIMENSIONS if (value := getattr(query, name)) is not None}
    if query.tag is not None:
        name, separator, value = query.tag.partition("=")
        if not name or not separator:
            raise InvalidRequest("`tag` must be NAME=VALUE.", param="tag")
        filters[f"tag:{name}"] = value
    return filters


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def show(call: Call[AnalyticsFilters, NoBody]) -> Answer:
        query = call.query
        wanted = make_query(
            since=None if query.since is None else parse_time(query.since, "since"),
            until=None if query.until is None else parse_time(query.until, "until"),
            now=datetime.now(UTC),
            keep_minutes_days=settings.keep_minutes_days,
            keep_hours_days=settings.keep_hours_days,
            interval=query.interval,
            time_zone=query.time_zone,
            group_by=query.group_by,
            filters=parse_filters(query),
            order_by=query.order_by,
            limit=query.limit,
            quantiles=query.quantiles,
        )
        return Answer(await read_analytics(call.connection, wanted, only_teams=call.visible_teams()))

    return [
        Operation(
            method="GET",
            path="/analytics",
            id="get_analytics",
            tag="Records",
            summary="Requests, tokens, cost and latency by time and group",
            description="From sums that are kept as inferences are stored. Without `interval`, groups come with most of `order_by` first;"
            " with it, the rows of these groups come by time. Intervals without requests have no row.",
            permission="records:read",
            scope="team",
            query=AnalyticsFilters,
            response=Analytics,
            timeout_s=_TIMEOUT_S,
            commands=(Command(name="analytics"),),
            handler=show,
        )
    ]
