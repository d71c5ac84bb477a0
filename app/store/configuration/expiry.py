"""The end of the configuration's history: its oldest versions are deleted some time after others took their place."""

import datetime

from app.store.postgres.partitions import Connection

MIN_VERSIONS = 100  # the newest, which stay however old they are
_BATCH_VERSIONS = 200
_BATCH_CHANGES = 5_000  # of a batch with several versions; one may have more
_LOCK = 0x6E617274_68697374  # for pg_try_advisory_xact_lock: the writers of several machines expire the same versions

_EXPIRED = """
    SELECT version, (SELECT count(*) FROM configuration_changes AS changes WHERE changes.version = ended.version) AS changes
    FROM (
        SELECT version, lead(at) OVER (ORDER BY version) AS ended_at, row_number() OVER (ORDER BY version DESC) AS number
        FROM configuration_versions
    ) AS ended
    WHERE ended_at < $1 AND number > $2 ORDER BY version LIMIT $3
"""
# Whole documents say when they first served, and the next one when they no longer did.
_EXPIRED_DOCUMENTS = """
    DELETE FROM snapshots WHERE version IS NULL AND EXISTS (
        SELECT FROM snapshots AS later WHERE later.created_at > snapshots.created_at AND later.created_at < $1
    )
"""


async def delete_expired_versions(connection: Connection, before: datetime.datetime) -> bool:
    """Delete some versions that were in force only before this; returns whether there are more.

    The oldest first, and each with all that it changed and the snapshots of it: what is left is a history without gaps.
    """
    async with connection.transaction():
        if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            return False
        expired = await connection.fetch(_EXPIRED, before, MIN_VERSIONS, _BATCH_VERSIONS)
        last, changes = None, 0
        for row in expired:
            changes += row["changes"]
            if last is not None and changes > _BATCH_CHANGES:
                break
            last = row["version"]
        if last is None:
            await connection.execute(_EXPIRED_DOCUMENTS, before)
            return False
        await connection.execute("DELETE FROM configuration_changes WHERE version <= $1", last)
        await connection.execute("DELETE FROM snapshots WHERE version <= $1", last)
        await connection.execute("DELETE FROM configuration_versions WHERE version <= $1", last)
        return True
