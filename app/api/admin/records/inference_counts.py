"""How many inferences match, and of what: /admin/v1/inferences/count and /admin/v1/inferences/facets."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.admin.records.inference_filters import InferenceFilters, read_filters
from app.api.admin.records.inferences import TIMEOUT_S
from app.api.admin.usage.analytics import SumFilters, parse_exclusions, parse_filters
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import parse_time
from app.settings import Settings
from app.store.records.inference_counts import COUNTED_ROWS, count_inferences
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import DIMENSIONS, make_query
from providers.canonical.errors import InvalidRequest

_FACETS = tuple(name for name in DIMENSIONS if name != "rule")  # which is of refused requests alone
_MAX_FACETS = 8


class Count(Struct, frozen=True):
    """How many inferences match."""

    count: Annotated[int, Meta(description="The number; with `capped`, there are at least so many.")]
    capped: Annotated[bool, Meta(description="Counting stopped before the end: say `count` with a plus.")]


class FacetQuery(SumFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    of: Annotated[str, Meta(max_length=200, description=f"What to count by: {', '.join(_FACETS)}, up to {_MAX_FACETS}, with commas.")]
    limit: Annotated[int, Meta(ge=1, le=200, description="Most values of each; those with most requests.")] = 50


class FacetValue(Struct, frozen=True):
    """A value, and how many inferences have it."""

    value: Annotated[str | None, Meta(description="As the filter of this name takes it; null: they have none.")]
    requests: Annotated[int, Meta(description="How many inferences.")]


class Facets(Struct, frozen=True):
    """The values that inferences of a time have, with most requests first."""

    since: Annotated[str, Meta(description="The beginning, as sums are kept: of an hour.")]
    until: Annotated[str, Meta(description="The end, as sums are kept: of an hour.")]
    complete_until: Annotated[str | None, Meta(description="Until when everything is counted; null: no writer has run yet.")]
    data: Annotated[Mapping[str, Sequence[FacetValue]], Meta(description="The values by what was asked for in `of`.")]
    has_more: Annotated[Mapping[str, bool], Meta(description="Whether there are more values than `limit`.")]


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def count(call: Call[InferenceFilters, NoBody]) -> Answer:
        found = await count_inferences(call.connection, read_filters(call), keep_hours_days=settings.keep_hours_days)
        return Answer(Count(found.count, found.capped))

    async def facets(call: Call[FacetQuery, NoBody]) -> Answer:
        query, now = call.query, datetime.now(UTC)
        filters, excluded = parse_filters(query), parse_exclusions(query)
        answers = {
            name: await read_analytics(
                call.connection,
                make_query(
                    since=None if query.since is None else parse_time(query.since, "since"),
                    until=None if query.until is None else parse_time(query.until, "until"),
                    now=now,
                    keep_minutes_days=settings.keep_minutes_days,
                    keep_hours_days=settings.keep_hours_days,
                    group_by=name,
                    # What else could be chosen in its place: a filter does not count for its own values.
                    filters={other: wanted for other, wanted in filters.items() if other != name},
                    excluded={other: unwanted for other, unwanted in excluded.items() if other != name},
                    limit=query.limit,
                ),
                only_teams=call.visible_teams(),
            )
            for name in _parse_facets(query.of)
        }
        first = next(iter(answers.values()))
        values = {name: [FacetValue(row.group[name], row.requests) for row in each.data if row.requests] for name, each in answers.items()}
        return Answer(
            Facets(first.since, first.until, first.complete_until, values, {name: each.has_more for name, each in answers.items()})
        )

    return [
        Operation(
            method="GET",
            path="/inferences/count",
            id="count_inferences",
            tag="Records",
            summary="Count recorded inferences",
            description=f"With the filters of the list, but `text`. More than {COUNTED_ROWS:,} are counted by sums, where these know the"
            " filters and you see all teams; otherwise the count is `capped`.",
            permission="records:read",
            scope="team",
            query=InferenceFilters,
            response=Count,
            timeout_s=TIMEOUT_S,
            commands=(Command(name="records count"),),
            handler=count,
        ),
        Operation(
            method="GET",
            path="/inferences/facets",
            id="list_inference_facets",
            tag="Records",
            summary="List the values that filters of inferences may have, with their counts",
            description="From sums, by full hours. A filter is not applied to the values of its own name, so that these are what could be"
            " chosen in its place.",
            permission="records:read",
            scope="team",
            query=FacetQuery,
            response=Facets,
            timeout_s=TIMEOUT_S,
            commands=(Command(name="records facets"),),
            handler=facets,
        ),
    ]


def _parse_facets(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in _FACETS:
            raise InvalidRequest(f"`of` may be {', '.join(_FACETS)}, separated by commas, not {name!r:.60}.", param="of")
    if len(names) > _MAX_FACETS:
        raise InvalidRequest(f"`of` takes at most {_MAX_FACETS} names.", param="of")
    return names
