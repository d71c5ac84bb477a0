"""Rows of a dataset's version, with what was written, and the inferences that got none: /rows and /skips of a version."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.admin.experiments.dataset_lookup import NO_VERSION, TAG, VERSION_PATH, find_dataset, find_version, read_number
from app.api.admin.experiments.dataset_versions import VersionQuery
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.datasets.export import unpack_example
from app.store.datasets.counts import LineFormat
from app.store.datasets.rows import DatasetRow, DatasetSkip, Split, find_row, list_rows, list_skips
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import UnknownRecord


class RowWithContent(DatasetRow, frozen=True, kw_only=True):
    """A row with its content.

    If `content_hidden`, your roles do not show what was written: `request`, `response` and `demonstration`
    are null.
    """

    request: Annotated[dict[str, Any] | None, Meta(description="`messages` of OpenAI's chat with its tools, or a `prompt`.")]
    response: Annotated[dict[str, Any] | None, Meta(description="Null: there was none that is complete.")]
    demonstration: dict[str, Any] | None
    content_hidden: bool


class RowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    left_out_of: Annotated[LineFormat, Meta(description="Only rows that cannot be written in this format.")] | None = None
    split: Split | None = None


async def _rows(call: Call[RowQuery, NoBody]) -> Answer:
    version, query = await find_version(call, await find_dataset(call)), call.query
    if version.shown.status in ("cancelled", "deleted"):
        return Answer(Page[DatasetRow]([], None))
    page = await list_rows(
        call.connection, version.id, left_out_of=query.left_out_of, split=query.split, limit=query.limit, after=query.after
    )
    return Answer(page)


async def _show_row(call: Call[NoQuery, NoBody]) -> Answer:
    dataset = await find_dataset(call)
    version = await find_version(call, dataset)
    number = read_number(call.path["row"], "row")
    row = None if version.shown.status in ("cancelled", "deleted") else await find_row(call.connection, version.id, number)
    if row is None:
        raise UnknownRecord("There is no such row; rows that were erased are gone.")
    facts: dict[str, Any] = {name: getattr(row.facts, name) for name in DatasetRow.__struct_fields__}
    if not call.is_visible(dataset.team, "records:content"):
        return Answer(RowWithContent(**facts, request=None, response=None, demonstration=None, content_hidden=True))
    example = await asyncio.to_thread(unpack_example, row)
    written: dict[str, Any] = {"request": example.request, "response": example.response, "demonstration": example.demonstration}
    return Answer(RowWithContent(**facts, **written, content_hidden=False))


async def _skips(call: Call[VersionQuery, NoBody]) -> Answer:
    version = await find_version(call, await find_dataset(call))
    return Answer(await list_skips(call.connection, version.id, limit=call.query.limit, after=call.query.after))


def row_operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path=f"{VERSION_PATH}/rows",
            id="list_dataset_rows",
            tag=TAG,
            summary="List the rows of a version, without what was written",
            description="`left_out_of` lists those that an export in a format leaves out, each with the reason.",
            permission="records:read",
            scope="team",
            query=RowQuery,
            response=Page[DatasetRow],
            errors=NO_VERSION,
            commands=(Command(name="datasets rows"),),
            handler=_rows,
        ),
        Operation(
            method="GET",
            path=f"{VERSION_PATH}/rows/{{row}}",
            id="get_dataset_row",
            tag=TAG,
            summary="Show a row, with what was written if your roles include it",
            permission="records:read",
            scope="team",
            response=RowWithContent,
            errors={404: "There is no such dataset, version or row, or it is not of one of your teams."},
            commands=(Command(name="datasets show-row"),),
            handler=_show_row,
        ),
        Operation(
            method="GET",
            path=f"{VERSION_PATH}/skips",
            id="list_dataset_skips",
            tag=TAG,
            summary="List inferences that matched the selection and got no row",
            description="Of a version the first thousand, each with the reason; `counts.skipped` of the version has all.",
            permission="records:read",
            scope="team",
            query=VersionQuery,
            response=Page[DatasetSkip],
            errors=NO_VERSION,
            commands=(Command(name="datasets skips"),),
            handler=_skips,
        ),
    ]
