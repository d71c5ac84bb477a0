"""The usage of the whole company: GET /admin/v1/analytics."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.rest.command import Command
from app.api.rest.exclusions import PREFIX, excludable, with_exclusions
from app.api.rest.fields import SEVERAL, Statuses
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.domain.errors import InvalidKeyField
from app.settings import Settings
from app.store.postgres import spools
from app.store.postgres.conditions import AnyOf
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import DIMENSIONS, MAX_GROUPS, AnalyticsQuery, Interval, Order, make_query
from app.store.usage.analytics_rows import Analytics, with_encoded_rows
from providers.canonical.errors import InvalidRequest

_TIMEOUT_S = 20.0
_MAX_QUESTIONS = 12
MAX_BATCH_ROWS = 30_000

_Text = Annotated[str, Meta(max_length=1024)]
_Texts = _Text | Annotated[tuple[_Text, ...], SEVERAL]


class ChosenSums(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The requests that are counted, of those that were received in a time. A filter given several times takes any of its values."""

    since: TimeText | None = None
    until: TimeText | None = None
    team: Annotated[_Texts, Meta(description="Only of the team with this name.")] | None = None
    key: Annotated[_Texts, Meta(description="Only of the key with this public part.")] | None = None
    end_user: Annotated[_Texts, Meta(description="Only of this end user.")] | None = None
    tag: Annotated[_Text, Meta(description="NAME=VALUE: only with this tag.")] | None = None
    model: Annotated[_Texts, Meta(description="Only of requests for this model.")] | None = None
    provider: Annotated[_Texts, Meta(description="Only served by this provider.")] | None = None
    target: Annotated[_Texts, Meta(description="Only served by this target: PROVIDER/MODEL.")] | None = None
    function: Annotated[_Texts, Meta(description="Only of requests for this function.")] | None = None
    variant: Annotated[_Texts, Meta(description="Only assigned to this variant or arm.")] | None = None
    route: Annotated[_Texts, Meta(description="Only of this route, such as openai_chat.")] | None = None
    status: Annotated[Statuses, Meta(description="Only with this status, such as 200, or 5xx.")] | None = None
    outcome: Annotated[_Texts, Meta(description="Only with this outcome; `refused` are those that the gateway refused.")] | None = None
    error: Annotated[_Texts, Meta(description="Only with this error.")] | None = None
    rule: Annotated[_Texts, Meta(description="Only refused by this limit.")] | None = None


class SumFilters(with_exclusions(ChosenSums), frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The requests that are counted, of those that were received in a time. A filter given several times takes any of its values.

    What has a value of a `not_` filter is left out; what has none there stays.
    """


GroupBy = Annotated[str, Meta(max_length=2048, description=f"Of {', '.join(DIMENSIONS)} and tag:NAME, separated by commas.")]


class AnalyticsFilters(SumFilters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    interval: Annotated[Interval, Meta(description="A row for each of these; left out: one for the whole time.")] | None = None
    group_by: GroupBy | None = None
    order_by: Annotated[Order, Meta(description="Which groups come first: those with most of it.")] = "requests"
    limit: Annotated[int, Meta(ge=1, le=MAX_GROUPS, description="Most groups.")] = 20
    time_zone: Annotated[str, Meta(max_length=100, description="Of days, weeks and months, such as Europe/Berlin.")] = "UTC"
    quantiles: Annotated[bool, Meta(description="Also quantiles of latency and time to first token.")] = False
    fill: Annotated[bool, Meta(description="With `interval`: rows of zeros for the intervals in which a group has no requests.")] = False


class Questions(Struct, frozen=True, forbid_unknown_fields=True):
    """Several questions of one moment."""

    questions: Annotated[
        dict[Annotated[str, Meta(min_length=1, max_length=100)], AnalyticsFilters],
        Meta(min_length=1, max_length=_MAX_QUESTIONS, description="By a name of your choice: the parameters of GET /admin/v1/analytics."),
    ]


class QuestionFault(Struct, frozen=True):
    """Why a question cannot be answered."""

    message: Annotated[str, Meta(description="What is wrong with it, and what would be right.")]
    param: Annotated[str | None, Meta(description="The parameter at fault.")]


class QuestionAnswer(Struct, frozen=True):
    """The answer to a question, or what is wrong with it."""

    analytics: Annotated[Analytics | None, Meta(description="As GET /admin/v1/analytics answers; null: see `error`.")]
    error: Annotated[QuestionFault | None, Meta(description="Null: it was answered.")]


class Answers(Struct, frozen=True):
    """The answers to several questions, all of what was stored at one moment."""

    complete_until: Annotated[str | None, Meta(description="Requests that had ended by then are counted; null: no writer has run yet.")]
    answers: Annotated[dict[str, QuestionAnswer], Meta(description="By the names of the questions.")]


def parse_exclusions(query: SumFilters) -> dict[str, AnyOf]:
    """The values by dimension, of what is left out."""
    return {name: value for name in excludable(ChosenSums) if (value := getattr(query, PREFIX + name)) is not None}


def parse_filters(query: SumFilters) -> dict[str, AnyOf]:
    """The values by dimension. Raises InvalidRequest."""
    filters: dict[str, AnyOf] = {name: value for name in DIMENSIONS if (value := getattr(query, name)) is not None}
    if query.tag is not None:
        name, separator, value = query.tag.partition("=")
        if not name or not separator:
            raise InvalidRequest("`tag` must be NAME=VALUE.", param="tag")
        filters[f"tag:{name}"] = value
    return filters


def _make(
    make: Callable[[AnalyticsFilters, datetime], AnalyticsQuery], question: AnalyticsFilters, now: datetime
) -> AnalyticsQuery | QuestionFault:
    try:
        return make(question, now)
    except InvalidKeyField as fault:
        return QuestionFault(str(fault), fault.field)
    except InvalidRequest as fault:
        return QuestionFault(fault.message, fault.param)


def _check_rows(questions: Mapping[str, AnalyticsQuery | QuestionFault]) -> None:
    """Raises InvalidRequest for questions that together may have more rows than one answer should."""
    rows = {name: query.most_rows for name, query in questions.items() if isinstance(query, AnalyticsQuery)}
    if sum(rows.values()) > MAX_BATCH_ROWS:
        largest = max(rows, key=lambda name: rows[name])
        raise InvalidRequest(
            f"Together these questions may have {sum(rows.values()):,} rows, of {MAX_BATCH_ROWS:,} at most; {largest!r:.100} may have"
            f" {rows[largest]:,}. Choose longer intervals or a smaller `limit`, or send several requests.",
            param="questions",
        )


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    def make(query: AnalyticsFilters, now: datetime) -> AnalyticsQuery:
        return make_query(
            since=None if query.since is None else parse_time(query.since, "since"),
            until=None if query.until is None else parse_time(query.until, "until"),
            now=now,
            keep_minutes_days=settings.keep_minutes_days,
            keep_hours_days=settings.keep_hours_days,
            interval=query.interval,
            time_zone=query.time_zone,
            group_by=query.group_by or "",
            filters=parse_filters(query),
            excluded=parse_exclusions(query),
            order_by=query.order_by,
            limit=query.limit,
            quantiles=query.quantiles,
            fill=query.fill,
        )

    async def show(call: Call[AnalyticsFilters, NoBody]) -> Answer:
        wanted = make(call.query, datetime.now(UTC))
        return Answer(await with_encoded_rows(await read_analytics(call.connection, wanted, only_teams=call.visible_teams())))

    async def answer(call: Call[NoQuery, Questions]) -> Answer:
        teams, now = call.visible_teams(), datetime.now(UTC)
        queries = {name: _make(make, question, now) for name, question in call.body.questions.items()}
        _check_rows(queries)
        stored_until = await spools.stored_until(call.connection)
        answers: dict[str, QuestionAnswer] = {}
        for name, query in queries.items():
            try:
                if isinstance(query, AnalyticsQuery):
                    found = await with_encoded_rows(await read_analytics(call.connection, query, only_teams=teams))
                    answers[name] = QuestionAnswer(found, None)
                else:
                    answers[name] = QuestionAnswer(None, query)
            except InvalidKeyField as fault:
                answers[name] = QuestionAnswer(None, QuestionFault(str(fault), fault.field))
        return Answer(Answers(stored_until and stored_until.astimezone(UTC).isoformat(timespec="seconds"), answers))

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
        ),
        Operation(
            method="POST",
            path="/analytics/batch",
            id="answer_analytics",
            tag="Records",
            summary="Answer several questions of analytics at once, so that their numbers agree",
            description=f"Up to {_MAX_QUESTIONS} questions of one moment, with {MAX_BATCH_ROWS:,} rows at most. One that cannot be answered"
            " has its `error`.",
            permission="records:read",
            scope="team",
            body=Questions,
            response=Answers,
            example={"questions": {"today": {"since": "2026-11-29"}, "by_day": {"interval": "day", "fill": True}}},
            timeout_s=_TIMEOUT_S,
            one_moment=True,
            commands=(Command(name="analytics batch"),),
            handler=answer,
        ),
    ]
