"""How long records are kept: GET /admin/v1/retention."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.recording.writes import retention
from app.recording.writes.retention import TableRetention
from app.settings import Settings


class Retention(Struct, frozen=True):
    """Every table that grows, the largest kinds of records first."""

    data: Sequence[TableRetention]


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def show(call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(Retention(await retention.list_retention(call.connection, settings)))

    return [
        Operation(
            method="GET",
            path="/retention",
            id="list_retention",
            tag="Configuration",
            summary="How long each table that grows is kept, and why",
            description="By the settings of the responding process. The writers delete what has expired, by theirs, once an hour.",
            permission="config:read",
            response=Retention,
            timeout_s=30.0,
            commands=(
                Command(
                    name="retention",
                    summary="Show how long each table that grows is kept, why, and what of it is stored.",
                    help="By the settings of this command's environment: give it the writers'. What has expired is deleted by the writers,"
                    ' once an hour. "keep_days" is null for ever, and "rows" is about how many there are.',
                    data="tables",
                    render="records.retention",
                ),
            ),
            handler=show,
        )
    ]
