"""The dataset, the version and the number that the path of an operation on datasets names, and what the document says if one is missing."""

from collections.abc import Mapping
from typing import Any

from app.api.rest.operation import Call
from app.store.datasets import datasets as store
from app.store.datasets import versions
from app.store.datasets.datasets import Dataset
from app.store.datasets.versions import FoundVersion
from providers.canonical.errors import Conflict, InvalidRequest, UnknownRecord

TAG = "Datasets"
NEWEST = "newest"
DATASET_PATH = "/datasets/{name}"
VERSION_PATH = f"{DATASET_PATH}/versions/{{number}}"
NO_DATASET: Mapping[int, str] = {404: "There is no such dataset, or it is not of one of your teams."}
NO_VERSION: Mapping[int, str] = {404: "There is no such dataset or version, or it is not of one of your teams."}


async def find_dataset(call: Call[Any, Any], *, lock: bool = False, connection: Any = None) -> Dataset:
    """Returns a dataset that the operation's permission covers. Raises UnknownRecord if there is none."""
    dataset = await store.find_dataset(connection or call.connection, call.path["name"], lock=lock)
    if not call.is_visible(None if dataset is None else dataset.team) or dataset is None:
        raise UnknownRecord("There is no such dataset. GET /admin/v1/datasets lists them.")
    return dataset


async def find_version(
    call: Call[Any, Any], dataset: Dataset, *, lock: bool = False, connection: Any = None, is_complete: bool = False
) -> FoundVersion:
    """Returns the version that the path names, by its number or as `newest`, with `is_complete` of those that are. Raises NarthexError."""
    connection, text = connection or call.connection, call.path["number"]
    number = dataset.versions if text == NEWEST else read_number(text, "number")
    if text == NEWEST and is_complete:
        complete = await versions.newest_complete(connection, dataset)
        if complete is None:
            raise Conflict(f"No version of it is complete. GET /admin/v1/datasets/{dataset.name}/versions lists them.")
        number = complete
    version = await versions.find_version(connection, dataset, number, lock=lock)
    if version is None:
        raise UnknownRecord(f"There is no such version. The newest of this dataset is {dataset.versions or 'not there yet'}.")
    return version


def read_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidRequest(f"`{name}` in the path must be a number, not {text!r:.60}.", param=name)
    return int(text)
