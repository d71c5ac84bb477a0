"""Versions of a dataset: /admin/v1/datasets/{name}/versions, each built from a selection of recorded inferences."""

import functools
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from app.api.admin.experiments.dataset_lookup import DATASET_PATH, NO_DATASET, NO_VERSION, TAG, VERSION_PATH, find_dataset, find_version
from app.api.admin.records.inferences import TIMEOUT_S
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import parse_time
from app.settings import Settings
from app.store.datasets import versions
from app.store.datasets.datasets import Dataset
from app.store.datasets.selection import Selection
from app.store.datasets.versions import DatasetVersion, NotPossible
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import Conflict

SELECTION_EXAMPLE = {"function": "answer", "since": "2026-11-01", "feedback": [{"metric": "helpful", "value": True}], "validation": 0.1}


class NewVersion(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A version to build."""

    selection: Selection = Selection()


class VersionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None


async def _versions(call: Call[VersionQuery, NoBody]) -> Answer:
    return Answer(await versions.list_versions(call.connection, await find_dataset(call), limit=call.query.limit, after=call.query.after))


async def _show_version(call: Call[NoQuery, NoBody]) -> Answer:
    return Answer((await find_version(call, await find_dataset(call))).shown)


async def _end_version(call: Call[NoQuery, NoBody], status: Literal["cancelled", "deleted"]) -> Answer:
    dataset = await find_dataset(call, lock=True)
    version = await find_version(call, dataset, lock=True)
    try:
        await versions.end_version(call.connection, call.author, dataset, version, status)
    except NotPossible as fault:
        raise Conflict(str(fault)) from None
    return Answer((await find_version(call, dataset)).shown)


async def add_version(call: Call[Any, Any], dataset: Dataset, selection: Selection, settings: Settings) -> DatasetVersion:
    hours = settings.keep_hours_days
    try:
        return await versions.create_version(call.connection, call.author, dataset, _with_times(selection), keep_hours_days=hours)
    except NotPossible as fault:
        raise Conflict(str(fault)) from None


def _with_times(selection: Selection) -> Selection:
    """Returns the selection with its times parsed and given a zone. Raises InvalidRequest."""

    def checked(text: str | None, name: str) -> str | None:
        return None if text is None else parse_time(text, f"selection.{name}").isoformat()

    return replace(selection, since=checked(selection.since, "since"), until=checked(selection.until, "until"))


def version_operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def create_version(call: Call[NoQuery, NewVersion]) -> Answer:
        return Answer(await add_version(call, await find_dataset(call, lock=True), call.body.selection, settings), status=201)

    return [
        Operation(
            method="GET",
            path=f"{DATASET_PATH}/versions",
            id="list_dataset_versions",
            tag=TAG,
            summary="List the versions of a dataset, the newest first",
            permission="records:read",
            scope="team",
            query=VersionQuery,
            response=Page[DatasetVersion],
            errors=NO_DATASET,
            commands=(Command(name="datasets versions"),),
            handler=_versions,
        ),
        Operation(
            method="POST",
            path=f"{DATASET_PATH}/versions",
            id="create_dataset_version",
            tag=TAG,
            summary="Build a version of a dataset from a selection",
            description="A writer builds it beside storing records; `status` becomes `complete`, or `failed` with an `error`. A selection"
            " that certainly has no row is refused at once.",
            permission="datasets:write",
            scope="team",
            access="write",
            body=NewVersion,
            response=DatasetVersion,
            status=201,
            errors={**NO_DATASET, 409: "Too much is being built, or there are as many versions as there may be."},
            example={"selection": SELECTION_EXAMPLE},
            timeout_s=TIMEOUT_S,
            commands=(Command(name="datasets select"),),
            handler=create_version,
        ),
        Operation(
            method="GET",
            path=VERSION_PATH,
            id="get_dataset_version",
            tag=TAG,
            summary="Show a version of a dataset, with what became of its selection",
            permission="records:read",
            scope="team",
            response=DatasetVersion,
            errors=NO_VERSION,
            commands=(Command(name="datasets show"),),
            handler=_show_version,
        ),
        Operation(
            method="DELETE",
            path=VERSION_PATH,
            id="delete_dataset_version",
            tag=TAG,
            summary="Delete the rows of a version",
            description="Its number stays, and is not given again.",
            permission="datasets:write",
            scope="team",
            access="write",
            response=DatasetVersion,
            errors={**NO_VERSION, 409: "It was deleted already."},
            commands=(Command(name="datasets delete"),),
            handler=functools.partial(_end_version, status="deleted"),
        ),
        Operation(
            method="POST",
            path=f"{VERSION_PATH}/cancel",
            id="cancel_dataset_version",
            tag=TAG,
            summary="Cancel a version that is being built",
            permission="datasets:write",
            scope="team",
            access="write",
            response=DatasetVersion,
            errors={**NO_VERSION, 409: "It is not being built."},
            commands=(Command(name="datasets cancel"),),
            handler=functools.partial(_end_version, status="cancelled"),
        ),
    ]
