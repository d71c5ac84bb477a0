"""Versions of a dataset: /admin/v1/datasets/{name}/versions, each built from a selection of recorded inferences."""

import functools
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from app.api.admin.experiments.dataset_lookup import (
    DATASET_PATH,
    NEWEST,
    NO_DATASET,
    NO_VERSION,
    TAG,
    VERSION_PATH,
    find_dataset,
    find_version,
)
from app.api.admin.records.inferences import TIMEOUT_S
from app.api.rest.command import Command, Option, Wait
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.request_parsing import parse_time
from app.settings import Settings
from app.store.datasets import versions
from app.store.datasets.datasets import Dataset
from app.store.datasets.selection import Selection
from app.store.datasets.versions import DatasetVersion
from app.store.postgres.paging import After, Limit, Page

SELECTION_EXAMPLE = {"function": "answer", "since": "2026-11-01", "feedback": [{"metric": "helpful", "value": True}], "validation": 0.1}


# How commands take a selection.
SELECTION_OPTIONS = {
    "selection.since": Option(help="Received from then on: 7d (ago), 2026-11-01 or a time."),
    "selection.until": Option(help="Received before then; without it, until now."),
    "selection.team": Option(flag="--of-team", metavar="TEAM", help="Of this team."),
    "selection.tags": Option(flag="--tag", help="With this tag. Can be repeated: with all of them."),
    "selection.outcome": Option(null="any", help="How the request ended."),
    "selection.feedback": Option(
        kind="conditions",
        metavar="CONDITION",
        help="helpful=true, score>=0.8, score<=0.2, or comment: there is one. Can be repeated: all must hold.",
    ),
    "selection.sample": Option(metavar="SHARE"),
    "selection.validation": Option(metavar="SHARE"),
}
VERSION_JSON = "the version, as `narthex datasets show` has it"


def wait_for_version(*, name: str, number: str) -> Wait:
    """Waits for a version. `name`, `number`: the fields of a response that have its dataset and its number."""
    return Wait(id="get_dataset_version", path={"name": name, "number": number}, until_not="building", failure="failed")


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
    await versions.end_version(call.connection, call.author, dataset, version, status)
    return Answer((await find_version(call, dataset)).shown)


async def add_version(call: Call[Any, Any], dataset: Dataset, selection: Selection, settings: Settings) -> DatasetVersion:
    hours = settings.keep_hours_days
    return await versions.create_version(call.connection, call.author, dataset, _with_times(selection), keep_hours_days=hours)


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
            commands=(
                Command(
                    name="datasets versions",
                    data="versions",
                    options={"limit": Option(default="1000")},
                    render="datasets.versions",
                ),
            ),
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
            commands=(
                Command(
                    name="datasets select",
                    summary="Add a version to dataset NAME.",
                    help="The writers build it.",
                    examples=("datasets select helpful --function answer --since 7d --feedback helpful=true",),
                    options=SELECTION_OPTIONS,
                    inline=("selection",),
                    fixed={"selection": {}},
                    wait=wait_for_version(name="dataset", number="number"),
                    render="datasets.version",
                    json=VERSION_JSON,
                ),
            ),
            handler=create_version,
        ),
        Operation(
            method="GET",
            path=VERSION_PATH,
            id="get_dataset_version",
            tag=TAG,
            summary="Show a version of a dataset, with what became of its selection",
            description="By its number, or as `newest`.",
            permission="records:read",
            scope="team",
            response=DatasetVersion,
            errors=NO_VERSION,
            commands=(
                Command(
                    name="datasets show",
                    summary="Show a version of dataset NAME: its selection, and what became of it.",
                    help="",
                    examples=("datasets show helpful", "datasets show helpful --version 2"),
                    options={
                        "{number}": Option(
                            flag="--version", kind="integer", metavar="NUMBER", default=NEWEST, help="Without it, the newest one."
                        )
                    },
                    render="datasets.version",
                ),
            ),
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
            commands=(
                Command(
                    name="datasets delete",
                    options={
                        "{number}": Option(
                            flag="--version",
                            kind="integer",
                            metavar="NUMBER",
                            help="Only the rows of this version; its number stays.",
                        )
                    },
                    confirm="Delete version {number} of {name} for good?",
                    done="Deleted version {number} of {dataset}; the writers delete its rows.",
                ),
            ),
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
            commands=(
                Command(
                    name="datasets cancel",
                    asks=True,
                    options={"{number}": Option(kind="integer")},
                    confirm="Cancel version {number} of {name}? What was built of it is deleted.",
                    done="Version {number} is cancelled.",
                ),
            ),
            handler=functools.partial(_end_version, status="cancelled"),
        ),
    ]
