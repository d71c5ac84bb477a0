"""Snapshots of the configuration, and who serves them: /admin/v1/snapshots, /admin/v1/snapshots/{hash} and /admin/v1/workers."""

from typing import Any, Literal

from msgspec import Struct

from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.store.configuration import snapshot_queries
from app.store.configuration.snapshot_queries import SnapshotDocument, StoredSnapshot, Worker
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import UnknownRecord


class WorkerQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["id", "-id", "version", "-version", "seen_at", "-seen_at"] = "id"


class SnapshotQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"


async def _list_workers(call: Call[WorkerQuery, NoBody]) -> Answer:
    return Answer(await snapshot_queries.page_workers(call.connection, call.query))


async def _list_snapshots(call: Call[SnapshotQuery, NoBody]) -> Answer:
    return Answer(await snapshot_queries.page_snapshots(call.connection, call.query))


async def _show_snapshot(call: Call[NoQuery, NoBody]) -> Answer:
    found = await snapshot_queries.find_snapshot(call.connection, call.path["hash"])
    if found is None:
        raise UnknownRecord(f"There is no snapshot {call.path['hash']!r:.60}. Records have the hash in `snapshot`; it may have expired.")
    return Answer(found)


def operations() -> list[Operation[Any, Any]]:
    tag = "Configuration"
    return [
        Operation(
            method="GET",
            path="/workers",
            id="list_workers",
            tag=tag,
            summary="List gateway processes, with the version that each serves",
            description="Of all machines, those that reported in the last minute. Versions are also of nodes and credentials.",
            permission="config:read",
            query=WorkerQuery,
            response=Page[Worker],
            handler=_list_workers,
        ),
        Operation(
            method="GET",
            path="/snapshots",
            id="list_snapshots",
            tag=tag,
            summary="List configurations that were in force, newest first",
            permission="config:read",
            query=SnapshotQuery,
            response=Page[StoredSnapshot],
            handler=_list_snapshots,
        ),
        Operation(
            method="GET",
            path="/snapshots/{hash}",
            id="get_snapshot",
            tag=tag,
            summary="Show the configuration that served a request, by the `snapshot` of its record",
            permission="config:read",
            response=SnapshotDocument,
            errors={404: "There is no such snapshot."},
            handler=_show_snapshot,
        ),
    ]
