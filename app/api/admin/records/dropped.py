"""The fields that are dropped from requests, and the callers that lose them: GET /admin/v1/dropped."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.rest.command import Column, Command, Option
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText, parse_time
from app.store.keys.key_format import parse_prefix
from app.store.records import drop_summary
from app.store.records.drop_summary import DropRow
from providers.canonical.errors import InvalidRequest

_TIMEOUT_S = 30.0
_MAX_DAYS = drop_summary.MAX_DAYS


class DropQuery(Struct, frozen=True, forbid_unknown_fields=True):
    since: TimeText | None = None
    until: TimeText | None = None
    team: Annotated[str, Meta(description="Only of this team.")] | None = None
    key: Annotated[str, Meta(description="Only of the key with this public part.")] | None = None
    model: Annotated[str, Meta(description="Only of requests for this model.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=drop_summary.MAX_ROWS, description="Most rows.")] = 100

    def __post_init__(self) -> None:
        """Raises InvalidRequest for a period that it cannot be about, before anything is read."""
        _parse_period(self)


class DropSummary(Struct, frozen=True):
    """The fields that were lost by most requests first. `has_more`: there are more rows than `limit`."""

    since: str
    until: str
    data: Sequence[DropRow]
    has_more: bool


async def _summarize(call: Call[DropQuery, NoBody]) -> Answer:
    query = call.query
    begin, end = _parse_period(query)
    rows = await drop_summary.summarize_drops(
        call.connection, begin, end, _parse_scope(query), query.limit + 1, only_teams=call.visible_teams()
    )
    return Answer(DropSummary(begin.isoformat(), end.isoformat(), rows[: query.limit], len(rows) > query.limit))


def _parse_period(query: DropQuery) -> tuple[datetime, datetime]:
    end = datetime.now(UTC) if query.until is None else parse_time(query.until, "until")
    begin = end - timedelta(days=drop_summary.DEFAULT_DAYS) if query.since is None else parse_time(query.since, "since")
    # A moment more: `31d` on a command line is as long ago as it was typed.
    if not timedelta() < end - begin < timedelta(days=_MAX_DAYS, minutes=1):
        raise InvalidRequest(f"`since` must be before `until`, {_MAX_DAYS} days at most ({_MAX_DAYS}d).", param="since")
    return begin, end


def _parse_scope(query: DropQuery) -> dict[str, str]:
    key = query.key and parse_prefix(query.key)
    if query.key is not None and key is None:
        raise InvalidRequest("`key` must be the public part of a key, such as nx-0123456789ab.", param="key")
    return {name: value for name, value in (("team", query.team), ("key", key), ("model", query.model)) if value is not None}


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/dropped",
            id="summarize_dropped_fields",
            tag="Records",
            summary="Which callers lose which fields",
            description="A row for each team, key, model and field that was dropped from requests, those of most requests first."
            f" `since` and `until` are {drop_summary.MAX_DAYS} days apart at most, and {drop_summary.DEFAULT_DAYS} if `since` is left out.",
            permission="records:read",
            scope="team",
            query=DropQuery,
            response=DropSummary,
            timeout_s=_TIMEOUT_S,
            commands=(
                Command(
                    name="dropped",
                    summary="Show which callers lose which fields: what was dropped from requests, by team, key and model.",
                    help="A field is dropped where a target cannot honour it and the caller or the option `drop` lets it go, or because it"
                    " is a hint. `narthex models show MODEL` shows whose option that may be. It reads the records of the time, at most"
                    f" {drop_summary.MAX_DAYS} days: about a second for each million.",
                    examples=("dropped", "dropped --team search --last 24h"),
                    options={
                        "since": Option(
                            flag="--since",
                            aliases=("--last",),
                            help=f"From then on: 24h (ago), 2026-11-01 or a time.  [default: {drop_summary.DEFAULT_DAYS}d before --until]",
                        ),
                    },
                    columns=(
                        *(Column("team"), Column("key"), Column("model"), Column("field"), Column("requests", form="count")),
                        *(Column("first_at", "FIRST", "time"), Column("last_at", "LAST", "time")),
                    ),
                    nothing="No field was dropped from a request in that time.",
                    shape="records.dropped_shape",
                    json='{"since", "until", "dropped": [{"team", "key", "model", "field", "requests", "first_at", "last_at"}], "more":'
                    ' whether there are more rows}; "team" and "key" are null once they are removed from the database',
                ),
            ),
            handler=_summarize,
        )
    ]
