"""Datasets: /admin/v1/datasets, with what is within one: its versions, their rows, and what was skipped."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.admin.experiments.dataset_lookup import DATASET_PATH, NO_DATASET, TAG, find_dataset
from app.api.admin.experiments.dataset_rows import row_operations
from app.api.admin.experiments.dataset_versions import (
    SELECTION_EXAMPLE,
    SELECTION_OPTIONS,
    VERSION_JSON,
    add_version,
    version_operations,
    wait_for_version,
)
from app.api.admin.records.inferences import TIMEOUT_S
from app.api.rest.command import Column, Command, Option
from app.api.rest.etags import etag_of
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.settings import Settings
from app.store.datasets import datasets as store
from app.store.datasets.datasets import Dataset, DatasetExists
from app.store.datasets.selection import Selection
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import Conflict, InvalidRequest


class NewDataset(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dataset to create, with a first version if there is a `selection`."""

    name: Annotated[str, Meta(description="Whoever has a role within a team only names it TEAM/NAME.")]
    team: Annotated[str | None, Meta(description="Whose inferences alone it may have; null: of all teams.")] = None
    description: Annotated[str, Meta(max_length=store.MAX_DESCRIPTION_CHARACTERS)] | None = None
    selection: Annotated[Selection | None, Meta(description="Of version 1; null: there is no version yet.")] = None


class DeletedDataset(Struct, frozen=True):
    """A dataset that was deleted, with its versions. The writers delete the rows."""

    name: str
    deleted: Literal[True] = True


class DatasetQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at"] = "name"


async def _page(call: Call[DatasetQuery, NoBody]) -> Answer:
    return Answer(await store.page_datasets(call.connection, call.query, call.visible_teams()))


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    dataset = await find_dataset(call)
    return Answer(dataset, etag=_etag(dataset))


async def _delete(call: Call[NoQuery, NoBody]) -> Answer:
    dataset = await find_dataset(call, lock=True)
    call.check_match(_etag(dataset))
    await store.delete_dataset(call.connection, call.author, dataset)
    return Answer(DeletedDataset(dataset.name))


def _etag(dataset: Dataset) -> str:
    return etag_of([dataset.id, dataset.versions])


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
                await add_version(call, created, body.selection, settings)
        except DatasetExists as fault:
            raise Conflict(f"{fault} POST /admin/v1/datasets/NAME/versions adds a version to it.") from None
        found = await store.find_dataset(call.connection, body.name)
        assert found is not None, "it was stored in this transaction"
        return Answer(found, etag=_etag(found), status=201)

    return [
        Operation(
            method="GET",
            path="/datasets",
            id="list_datasets",
            tag=TAG,
            summary="List datasets",
            permission="records:read",
            scope="team",
            query=DatasetQuery,
            response=Page[Dataset],
            commands=(
                Command(
                    columns=[
                        *(Column("name", "DATASET"), Column("team"), Column("versions"), Column("created_at", "CREATED", "time")),
                        *(Column("created_by", "BY"), Column("description")),
                    ],
                    nothing="There are no datasets; `narthex datasets create -h` shows how to make one.",
                    data="datasets",
                    options={"limit": Option(default="1000")},
                ),
            ),
            handler=_page,
        ),
        Operation(
            method="POST",
            path="/datasets",
            id="create_dataset",
            tag=TAG,
            summary="Create a dataset, with a first version if there is a selection",
            permission="datasets:write",
            scope="team",
            access="write",
            body=NewDataset,
            response=Dataset,
            status=201,
            errors={409: "There is such a dataset already, too much is being built, or there are as many versions as there may be."},
            example={"name": "helpful", "selection": SELECTION_EXAMPLE},
            timeout_s=TIMEOUT_S,
            commands=(
                Command(
                    summary="Create dataset NAME with version 1.",
                    help="The writers build it.",
                    examples=(
                        "datasets create helpful --function answer --since 30d --feedback helpful=true",
                        "datasets create corrected --output demonstration --outcome any --validation 0.1",
                        "datasets create sample --model gpt-5 --sample 0.01 --seed 7 --max-rows 5000",
                    ),
                    options={
                        **SELECTION_OPTIONS,
                        "team": Option(metavar="TEAM", help="Only of this team's inferences; its roles see it then."),
                        "description": Option(help="For people."),
                    },
                    inline=("selection",),
                    fixed={"selection": {}},
                    wait=wait_for_version(name="name", number="versions"),
                    render="datasets.version",
                    json=VERSION_JSON,
                ),
            ),
            handler=create,
        ),
        Operation(
            method="GET",
            path=DATASET_PATH,
            id="get_dataset",
            tag=TAG,
            summary="Show a dataset",
            permission="records:read",
            scope="team",
            response=Dataset,
            errors=NO_DATASET,
            commands=(Command(name="datasets show-dataset"),),
            handler=_show,
        ),
        Operation(
            method="DELETE",
            path=DATASET_PATH,
            id="delete_dataset",
            tag=TAG,
            summary="Delete a dataset with all its versions",
            description="Its name is free at once; the rows are deleted by the writers.",
            permission="datasets:write",
            scope="team",
            access="write",
            response=DeletedDataset,
            conditional=True,
            errors=NO_DATASET,
            commands=(
                Command(
                    summary="Delete dataset NAME with all its versions, or one version.",
                    help="The name is free at once; the rows are deleted by the writers.",
                    examples=("datasets delete helpful --version 1 --yes", "datasets delete helpful --yes"),
                    confirm="Delete the dataset {name} for good?",
                    done="Deleted the dataset {name}; the writers delete its rows.",
                ),
            ),
            handler=_delete,
        ),
        # Commands look for these operations here: commands.json names this module for them.
        *version_operations(settings),
        *row_operations(),
    ]
