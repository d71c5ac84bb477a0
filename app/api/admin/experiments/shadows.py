"""GET /admin/v1/shadows/{name}/results: how another variant or model would have answered."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.results.shadow_results import ShadowResults, read_shadow_results
from app.store.configuration.snapshots import read_snapshot
from app.store.configuration.validation.shadows import find_shadow
from app.store.replays.shadow_pairs import has_pairs
from providers.canonical.errors import InvalidRequest, UnknownRecord

_TIMEOUT_S = 30.0  # of 200,000 pairs
_DEFAULT_DAYS = 30


class ResultsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The period of the shadows to compare; by default the last 30 days."""

    since: TimeText | None = None
    until: TimeText | None = None


def operations() -> list[Operation[Any, Any]]:
    async def show(call: Call[ResultsQuery, NoBody]) -> Answer:
        name, query = call.path["name"], call.query
        until = datetime.now(UTC) if query.until is None else parse_time(query.until, "until").astimezone(UTC)
        since = until - timedelta(days=_DEFAULT_DAYS) if query.since is None else parse_time(query.since, "since").astimezone(UTC)
        if since >= until:
            raise InvalidRequest("`since` must be before `until`.", param="since")
        if not await has_pairs(call.connection, name) and find_shadow(await read_snapshot(call.connection), name) is None:
            raise UnknownRecord(f"There is no shadow of a function or model {name!r:.200}: docs/shadow.md says what is answered again.")
        return Answer(await read_shadow_results(call.connection, name, since, until))

    return [
        Operation(
            method="GET",
            path="/shadows/{name}/results",
            id="get_shadow_results",
            tag="Experiments",
            summary="Compare shadows with what they repeat",
            description="Differences within pairs of a request's original and its shadow, by what answered, over all teams.",
            permission="config:read",
            query=ResultsQuery,
            response=ShadowResults,
            errors={404: "There is no shadow of a function or model of this name."},
            timeout_s=_TIMEOUT_S,
            commands=(
                Command(
                    name="shadow results",
                    summary="Compare the shadow of the function or model NAME.",
                    help="",
                    examples=("shadow results fast --since 7d",),
                    options={
                        "since": Option(help=f"From then on: 7d (ago), 2026-11-01 or a time; {_DEFAULT_DAYS}d."),
                        "until": Option(help="Until before then."),
                    },
                    render="experiments.shadow_results",
                    json='{"name", "since", "until", "alpha", "comparisons": [{"original", "shadow", "pairs", "episodes", "first_turns",'
                    ' "differences": [{"metric", "episodes", "difference", "low", "high", "verdict", "reason"}], "same"}], "warnings"}',
                ),
            ),
            handler=show,
        )
    ]
