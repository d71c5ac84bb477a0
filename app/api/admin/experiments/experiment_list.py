"""GET /admin/v1/experiments: the list of experiments, with what their results come to on request."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from app.api.admin.experiments import experiment_commands
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.domain.experiments import ExperimentStatus
from app.results.experiments.standing import ExperimentStanding
from app.results.experiments.standings import Standings
from app.store.experiments.queries import ExperimentRow, page_experiments
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import InvalidRequest

_MAX_WITH_VERDICTS = 100


class ExperimentQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"
    status: ExperimentStatus | None = None
    verdicts: Annotated[
        bool,
        Meta(description=f"Also what the results of each come to, a minute old at most; pages have at most {_MAX_WITH_VERDICTS}."),
    ] = False


class ListedExperiment(ExperimentRow, frozen=True, kw_only=True):
    """An experiment, with what its results come to if that was requested."""

    result: Annotated[
        ExperimentStanding | None,
        Meta(
            description="Null: not requested by `verdicts`, of a draft, or your roles do not include `records:read`; or reading"
            " all of them takes longer than one answer may: the next one has more."
        ),
    ]


def list_operation() -> Operation[Any, Any]:
    standings = Standings()

    async def list_experiments(call: Call[ExperimentQuery, NoBody]) -> Answer:
        query = call.query
        if query.verdicts and query.limit > _MAX_WITH_VERDICTS:
            raise InvalidRequest(f"With `verdicts`, `limit` may be {_MAX_WITH_VERDICTS} at most.", param="limit")
        page = await page_experiments(call.connection, query, query.status)
        with_results = query.verdicts and call.principal.may("records:read")
        found = await standings.read_all(call.connection, page.data) if with_results else {}
        return Answer(Page([ListedExperiment(**asdict(row), result=found.get(row.id)) for row in page.data], page.next))

    return Operation(
        method="GET",
        path="/experiments",
        id="list_experiments",
        tag="Experiments",
        summary="List experiments",
        permission="config:read",
        query=ExperimentQuery,
        response=Page[ListedExperiment],
        commands=(experiment_commands.LIST,),
        handler=list_experiments,
    )
