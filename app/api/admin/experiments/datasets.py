"""Datasets: /admin/v1/datasets, their versions with rows and what was skipped, and exports."""

import asyncio
import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from app.api.admin.records.inferences import TIMEOUT_S
from app.api.rest.command import Command
from app.api.rest.etags import etag_of
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import parse_time
from app.datasets.export import ExportFormat, export_rows, unpack_example
from app.settings import Settings
from app.store.datasets import datasets as store
from app.store.datasets import versions
from app.store.datasets.counts import LineFormat
from app.store.datasets.datasets import Dataset, DatasetExists
from app.store.datasets.rows import DatasetRow, DatasetSkip, Split, find_row, list_rows, list_skips
from app.store.datasets.selection import Selection
from app.store.datasets.versions import DatasetVersion, FoundVersion, NotPossible
from app.store.formats.parquet_lines import MISSING, PARQUET_MEDIA_TYPE, can_write
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import Conflict, InvalidRequest, UnknownRecord

_JSONL = "application/jsonl"


class NewDataset(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dataset to create, with a first version if there is a `selection`."""

    name: Annotated[str, Meta(description="Whoever has a role within a team only names it TEAM/NAME.")]
    team: Annotated[str | None, Meta(description="Whose inferences alone it may have; null: of all teams.")] = None
    description: Annotated[str, Meta(max_length=store.MAX_DESCRIPTION_CHARACTERS)] | None = None
    selection: Annotated[Selection | None, Meta(description="Of version 1; null: there is no version yet.")] = None


class NewVersion(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A version to build."""

    selection: Selection = Selection()


class DeletedDataset(Struct, frozen=True):
    """A dataset that was deleted, with its versions. The writers delete the rows."""

    name: str
    deleted: Literal[True] = True


class RowWithContent(DatasetRow, frozen=True, kw_only=True):
    """A row with its content.

    If `content_hidden`, your roles do not show what was written: `request`, `response` and `demonstration`
    are null.
    """

    request: Annotated[dict[str, Any] | None, Meta(description="`messages` of OpenAI's chat with its tools, or a `prompt`.")]
    response: Annotated[dict[str, Any] | None, Meta(description="Null: there was none that is complete.")]
    demonstration: dict[str, Any] | None
    content_hidden: bool


class DatasetQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at"] = "name"


class VersionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None


class RowQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    left_out_of: Annotated[LineFormat, Meta(description="Only rows that cannot be written in this format.")] | None = None
    split: Split | None = None


class ExportQuery(Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[
        ExportFormat,
        Meta(
            description="Lines for supervised fine-tuning of chats, for preference (DPO) or of completions, as OpenAI takes them; or"
            " Parquet with every row, which takes the extra narthex[parquet]."
        ),
    ] = "chat"
    split: Annotated[Split, Meta(description="Only this split.")] | None = None


async def _page(call: Call[DatasetQuery, NoBody]) -> Answer:
    return Answer(await store.page_datasets(call.connection, call.query, call.visible_teams()))


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    dataset = await _find(call)
    return Answer(dataset, etag=_etag(dataset))


async def _delete(call: Call[NoQuery, NoBody]) -> Answer:
    dataset = await _find(call, lock=True)
    call.check_match(_etag(dataset))
    await store.delete_dataset(call.connection, call.author, dataset)
    return Answer(DeletedDataset(dataset.name))


async def _versions(call: Call[VersionQuery, NoBody]) -> Answer:
    return Answer(await versions.list_versions(call.connection, await _find(call), limit=call.query.limit, after=call.query.after))


async def _show_version(call: Call[NoQuery, NoBody]) -> Answer:
    return Answer((await _find_version(call, await _find(call))).shown)


async def _end_version(call: Call[NoQuery, NoBody], status: Literal["cancelled", "deleted"]) -> Answer:
    dataset = await _find(call, lock=True)
    version = await _find_version(call, dataset, lock=True)
    try:
        await versions.end_version(call.connection, call.author, dataset, version, status)
    except NotPossible as fault:
        raise Conflict(str(fault)) from None
    return Answer((await _find_version(call, dataset)).shown)


async def _rows(call: Call[RowQuery, NoBody]) -> Answer:
    version, query = await _find_version(call, await _find(call)), call.query
    if version.shown.status in ("cancelled", "deleted"):
        return Answer(Page[DatasetRow]([], None))
    page = await list_rows(
        call.connection, version.id, left_out_of=query.left_out_of, split=query.split, limit=query.limit, after=query.after
    )
    return Answer(page)


async def _show_row(call: Call[NoQuery, NoBody]) -> Answer:
    dataset = await _find(call)
    version = await _find_version(call, dataset)
    number = _number(call.path["row"], "row")
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
    version = await _find_version(call, await _find(call))
    return Answer(await list_skips(call.connection, version.id, limit=call.query.limit, after=call.query.after))


async def _export(call: Call[ExportQuery, NoBody]) -> Answer:
    format, split = call.query.format, call.query.split
    if format == "parquet" and not can_write():
        raise InvalidRequest(MISSING, param="format")
    async with call.read_transaction() as connection:
        dataset = await _find(call, connection=connection)
        version = await _find_version(call, dataset, connection=connection)
    if version.shown.status != "complete":
        raise Conflict(f"Version {version.shown.number} is {version.shown.status}: only what is complete can be exported.")
    async with call.write_transaction() as connection:
        await store.record_export(connection, call.author, dataset, version.shown.number, format, split)
    extension = "parquet" if format == "parquet" else f"{format}.jsonl"
    filename = f"narthex-dataset-v{version.shown.number}{'' if split is None else f'-{split}'}.{extension}"
    rows = export_rows(call.read_transaction, version.id, format, split)
    return export_answer(call, rows, filename, PARQUET_MEDIA_TYPE if format == "parquet" else _JSONL)


async def _find(call: Call[Any, Any], *, lock: bool = False, connection: Any = None) -> Dataset:
    """Returns a dataset that the operation's permission covers. Raises UnknownRecord if there is none."""
    dataset = await store.find_dataset(connection or call.connection, call.path["name"], lock=lock)
    if not call.is_visible(None if dataset is None else dataset.team) or dataset is None:
        raise UnknownRecord("There is no such dataset. GET /admin/v1/datasets lists them.")
    return dataset


async def _find_version(call: Call[Any, Any], dataset: Dataset, *, lock: bool = False, connection: Any = None) -> FoundVersion:
    number = _number(call.path["number"], "number")
    version = await versions.find_version(connection or call.connection, dataset, number, lock=lock)
    if version is None:
        raise UnknownRecord(f"There is no such version. The newest of this dataset is {dataset.versions or 'not there yet'}.")
    return version


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidRequest(f"`{name}` in the path must be a number, not {text!r:.60}.", param=name)
    return int(text)


def _etag(dataset: Dataset) -> str:
    return etag_of([dataset.id, dataset.versions])


def _with_times(selection: Selection) -> Selection:
    """Returns the selection with its times parsed and given a zone. Raises InvalidRequest."""

    def checked(text: str | None, name: str) -> str | None:
        return None if text is None else parse_time(text, f"selection.{name}").isoformat()

    return replace(selection, since=checked(selection.since, "since"), until=checked(selection.until, "until"))


def _check_scope(call: Call[Any, Any], name: str, team: str | None) -> None:
    """Raises NotAllowed, and InvalidRequest for a name that would say which names others have taken."""
    call.require("datasets:write", team)
    teams = call.visible_teams("datasets:write")
    if teams is not None and name.rpartition("/")[0] not in teams:
        raise InvalidRequest(
            f"Your role is within a team, so name the dataset after it: {team}/{name.rpartition('/')[2]:.100}.", param="name"
        )


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def create(call: Call[NoQuery, NewDataset]) -> Answer:
        body = call.body
        _check_scope(call, body.name, body.team)
        try:
            created = await store.create_dataset(call.connection, call.author, body.name, team=body.team, description=body.description)
            if body.selection is not None:
                await add_version(call, created, body.selection)
        except DatasetExists as fault:
            raise Conflict(f"{fault} POST /admin/v1/datasets/NAME/versions adds a version to it.") from None
        found = await store.find_dataset(call.connection, body.name)
        assert found is not None, "it was stored in this transaction"
        return Answer(found, etag=_etag(found), status=201)

    async def create_version(call: Call[NoQuery, NewVersion]) -> Answer:
        return Answer(await add_version(call, await _find(call, lock=True), call.body.selection), status=201)

    async def add_version(call: Call[Any, Any], dataset: Dataset, selection: Selection) -> DatasetVersion:
        hours = settings.keep_hours_days
        try:
            return await versions.create_version(call.connection, call.author, dataset, _with_times(selection), keep_hours_days=hours)
        except NotPossible as fault:
            raise Conflict(str(fault)) from None

    tag, path = "Datasets", "/datasets/{name}"
    version_path = f"{path}/versions/{{number}}"
    missing: Mapping[int, str] = {404: "There is no such dataset, or it is not of one of your teams."}
    no_version = {404: "There is no such dataset or version, or it is not of one of your teams."}
    selection = {"function": "answer", "since": "2026-11-01", "feedback": [{"metric": "helpful", "value": True}], "validation": 0.1}
    return [
        Operation(
            method="GET",
            path="/datasets",
            id="list_datasets",
            tag=tag,
            summary="List datasets",
            permission="records:read",
            scope="team",
            query=DatasetQuery,
            response=Page[Dataset],
            handler=_page,
        ),
        Operation(
            method="POST",
            path="/datasets",
            id="create_dataset",
            tag=tag,
            summary="Create a dataset, with a first version if there is a selection",
            permission="datasets:write",
            scope="team",
            access="write",
            body=NewDataset,
            response=Dataset,
            status=201,
            errors={409: "There is such a dataset already, or too much is being built."},
            example={"name": "helpful", "selection": selection},
            timeout_s=TIMEOUT_S,
            handler=create,
        ),
        Operation(
            method="GET",
            path=path,
            id="get_dataset",
            tag=tag,
            summary="Show a dataset",
            permission="records:read",
            scope="team",
            response=Dataset,
            errors=missing,
            handler=_show,
        ),
        Operation(
            method="DELETE",
            path=path,
            id="delete_dataset",
            tag=tag,
            summary="Delete a dataset with all its versions",
            description="Its name is free at once; the rows are deleted by the writers.",
            permission="datasets:write",
            scope="team",
            access="write",
            response=DeletedDataset,
            conditional=True,
            errors=missing,
            handler=_delete,
        ),
        Operation(
            method="GET",
            path=f"{path}/versions",
            id="list_dataset_versions",
            tag=tag,
            summary="List the versions of a dataset, the newest first",
            permission="records:read",
            scope="team",
            query=VersionQuery,
            response=Page[DatasetVersion],
            errors=missing,
            commands=(Command(name="datasets versions"),),
            handler=_versions,
        ),
        Operation(
            method="POST",
            path=f"{path}/versions",
            id="create_dataset_version",
            tag=tag,
            summary="Build a version of a dataset from a selection",
            description="A writer builds it beside storing records; `status` becomes `complete`, or `failed` with an `error`. A selection"
            " that certainly has no row is refused at once.",
            permission="datasets:write",
            scope="team",
            access="write",
            body=NewVersion,
            response=DatasetVersion,
            status=201,
            errors={**missing, 409: "Too much is being built."},
            example={"selection": selection},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="datasets select"),),
            handler=create_version,
        ),
        Operation(
            method="GET",
            path=version_path,
            id="get_dataset_version",
            tag=tag,
            summary="Show a version of a dataset, with what became of its selection",
            permission="records:read",
            scope="team",
            response=DatasetVersion,
            errors=no_version,
            commands=(Command(name="datasets show"),),
            handler=_show_version,
        ),
        Operation(
            method="DELETE",
            path=version_path,
            id="delete_dataset_version",
            tag=tag,
            summary="Delete the rows of a version",
            description="Its number stays, and is not given again.",
            permission="datasets:write",
            scope="team",
            access="write",
            response=DatasetVersion,
            errors={**no_version, 409: "It was deleted already."},
            commands=(Command(name="datasets delete"),),
            handler=functools.partial(_end_version, status="deleted"),
        ),
        Operation(
            method="POST",
            path=f"{version_path}/cancel",
            id="cancel_dataset_version",
            tag=tag,
            summary="Cancel a version that is being built",
            permission="datasets:write",
            scope="team",
            access="write",
            response=DatasetVersion,
            errors={**no_version, 409: "It is not being built."},
            commands=(Command(name="datasets cancel"),),
            handler=functools.partial(_end_version, status="cancelled"),
        ),
        Operation(
            method="GET",
            path=f"{version_path}/rows",
            id="list_dataset_rows",
            tag=tag,
            summary="List the rows of a version, without what was written",
            description="`left_out_of` lists those that an export in a format leaves out, each with the reason.",
            permission="records:read",
            scope="team",
            query=RowQuery,
            response=Page[DatasetRow],
            errors=no_version,
            commands=(Command(name="datasets rows"),),
            handler=_rows,
        ),
        Operation(
            method="GET",
            path=f"{version_path}/rows/{{row}}",
            id="get_dataset_row",
            tag=tag,
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
            path=f"{version_path}/skips",
            id="list_dataset_skips",
            tag=tag,
            summary="List inferences that matched the selection and got no row",
            description="Of a version the first thousand, each with the reason; `counts.skipped` of the version has all.",
            permission="records:read",
            scope="team",
            query=VersionQuery,
            response=Page[DatasetSkip],
            errors=no_version,
            commands=(Command(name="datasets skips"),),
            handler=_skips,
        ),
        Operation(
            method="GET",
            path=f"{version_path}/export",
            id="export_dataset_version",
            tag=tag,
            summary="Export a version for training",
            description="A row a line, in OpenAI's fine-tuning formats, or Parquet. What a format cannot say is left out: `counts.left_out`"
            " says how many rows and why. An export that breaks off is not complete: repeat it. It is in the audit log.",
            permission="records:content",
            scope="team",
            access="memory",
            query=ExportQuery,
            response=str,
            response_media_type=_JSONL,
            other_media_types=(PARQUET_MEDIA_TYPE,),
            errors={**no_version, 409: "The version is not complete."},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="datasets export"),),
            handler=_export,
        ),
    ]
