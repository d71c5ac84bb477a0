"""Neighbours of an inference in a list: GET /admin/v1/inferences/{id}/neighbours."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.admin.records.inference_detail import find_shown
from app.api.admin.records.inference_filters import InferenceFilters, read_filters
from app.api.admin.records.inferences import TIMEOUT_S
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.settings import Settings
from app.store.records.inference_neighbours import find_neighbours


class InferenceNeighbours(Struct, frozen=True):
    """The inferences that a list with the same filters has beside an inference."""

    newer: Annotated[str | None, Meta(description="The id of the one before it; null: it is the newest.")]
    older: Annotated[str | None, Meta(description="The id of the one after it; null: it is the oldest.")]


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def neighbours(call: Call[InferenceFilters, NoBody]) -> Answer:
        row = await find_shown(call, call.connection)
        found = await find_neighbours(call.connection, read_filters(call), row["id"], keep_hours_days=settings.keep_hours_days)
        return Answer(InferenceNeighbours(found.newer, found.older))

    return [
        Operation(
            method="GET",
            path="/inferences/{id}/neighbours",
            id="get_inference_neighbours",
            tag="Records",
            summary="Find what is next to an inference in a list",
            description="With the filters of the list, but `text`. The inference itself need not match them.",
            permission="records:read",
            scope="team",
            query=InferenceFilters,
            response=InferenceNeighbours,
            errors={404: "There is no such inference, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="records neighbours"),),
            handler=neighbours,
        )
    ]
