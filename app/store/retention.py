"""Retention: how long the rows of each recorded table are kept, what of it is stored, and the deletion of what has expired.

Tables with a partition for each day or month lose whole partitions; the small others lose rows, in batches. To keep a table for a
limited time, add it to TABLES.
"""

import datetime
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.settings import Settings
from app.store import partitions
from app.store.experiment_units import KEEP_UNITS_DAYS
from app.store.partitions import Connection, drop_expired

MIN_USAGE_DAYS = 62  # a budget of a calendar month, in any time zone, and the one before it
_NEEDED_BY_BUDGETS = ("usage", "webhook_events")  # the latter say which thresholds were reached
_BATCH_ROWS = 5_000
_MAX_BATCHES = 20  # in an hour, as nothing is stored meanwhile

Method = Literal["partitions", "rows", "experiments", "at_once", "never"]


class RecordedTable(Struct, frozen=True):
    """`setting`: the field of Settings with its days, 0 for ever; None: `days`. `time_column`: of `rows`; None: it has none.

    `batch_rows`: how many are deleted at once; None: as of most. What is kept by other methods than partitions and rows is deleted
    elsewhere.
    """

    name: str
    setting: str | None
    method: Method
    time_column: str | None = None
    batch_rows: int | None = None
    days: int = 0

    def keep_days(self, settings: Settings) -> int:
        """0: for ever."""
        days = self.days if self.setting is None else int(getattr(settings, self.setting))
        return max(days, MIN_USAGE_DAYS) if days and self.name in _NEEDED_BY_BUDGETS else days


# deleted_responses marks inferences, and is of no use without them. A trigger keeps the audit log as it is.
TABLES = (
    RecordedTable("inferences", "keep_inferences_days", "partitions"),
    RecordedTable("inference_content", "keep_content_days", "partitions"),
    RecordedTable("refusals", "keep_refusals_days", "partitions"),
    RecordedTable("inference_texts", "keep_content_days", "partitions"),  # its words are of the content
    RecordedTable("feedback", "keep_feedback_days", "partitions"),
    RecordedTable("feedback_pending", "keep_feedback_days", "rows", "received_at"),
    RecordedTable("rollups_by_minute", "keep_minutes_days", "partitions"),
    RecordedTable("rollups_by_hour", "keep_hours_days", "partitions"),
    RecordedTable("rollups_by_hour_and_team", "keep_hours_days", "partitions"),
    RecordedTable("rollups_by_hour_and_target", "keep_hours_days", "partitions"),
    RecordedTable("rollups_by_day", None, "partitions"),
    RecordedTable("rollups_by_day_and_team", None, "partitions"),
    RecordedTable("rollups_by_day_and_target", None, "partitions"),
    # What names end users is kept no longer than their inferences.
    RecordedTable("subject_rollups_by_hour", "keep_inferences_days", "partitions"),
    RecordedTable("subject_rollups_by_day", "keep_inferences_days", "partitions"),
    RecordedTable("subject_rollups_by_day_and_team", "keep_inferences_days", "partitions"),
    RecordedTable("usage", "keep_usage_days", "rows", "hour"),
    RecordedTable("deleted_responses", "keep_inferences_days", "rows", "deleted_at"),
    RecordedTable("webhook_events", "keep_webhook_events_days", "rows", "created_at"),  # and their deliveries
    RecordedTable("replays", "keep_inferences_days", "rows", "created_at", batch_rows=5),  # and their items, up to 100,000 of each
    RecordedTable("experiment_units", None, "experiments", days=KEEP_UNITS_DAYS),
    RecordedTable("pre_period_feedback", None, "experiments", days=KEEP_UNITS_DAYS),
    RecordedTable("experiment_sums", None, "never"),  # but those by values of tags, which go with the units
    RecordedTable("experiment_counts", None, "never"),
    RecordedTable("experiment_acts", None, "never", "at"),
    RecordedTable("touched_units", None, "at_once"),
    RecordedTable("dataset_rows", None, "never"),  # deleted by hand, with their version
    RecordedTable("cost_changes", None, "never", "at"),
    RecordedTable("erasures", None, "never", "requested_at"),
    RecordedTable("erased_episodes", "keep_inferences_days", "rows", "erased_at"),
    RecordedTable("audit_log", None, "never", "at"),
)


class TableRetention(Struct, frozen=True):
    """How long a table's rows are kept, by the settings of the responding process; the writers' decide.

    `setting`: its environment variable; null: there is none. `keep_days` null: for ever. `method`: what expires at once: `partitions` of a
    day or month, or `rows`; `experiments`: the rows of those that ended so many days ago; `at_once`: a row is deleted as soon as it has
    been counted, within seconds. `oldest`: the day (UTC) of the oldest rows; null: there are none. `partitions`: how many
    there are.
    """

    table: str
    setting: str | None
    keep_days: int | None
    method: Method
    oldest: str | None
    partitions: int
    size_bytes: int


async def list_retention(connection: AsyncConnection, settings: Settings) -> Sequence[TableRetention]:
    return [await _describe(connection, settings, each) for each in TABLES]


async def _describe(connection: AsyncConnection, settings: Settings, table: RecordedTable) -> TableRetention:
    if table.method == "partitions":
        sizes = text(
            "SELECT inhrelid::regclass::text AS name, pg_total_relation_size(inhrelid) AS size FROM pg_inherits"
            " WHERE inhparent = CAST(:name AS regclass)"
        )
        rows = (await connection.execute(sizes, {"name": table.name})).all()
        days = [found[0] for row in rows if (found := partitions.partition_days(row.name)) is not None]
        oldest, size, count = min(days, default=None), sum(row.size for row in rows), len(rows)
        first = None if oldest is None else datetime.date(1970, 1, 1) + datetime.timedelta(days=oldest)
    else:
        size = await connection.scalar(text("SELECT pg_total_relation_size(CAST(:name AS regclass))"), {"name": table.name}) or 0
        # Names of this module, and no table is large: an index has the first, or there are few rows.
        query = None if table.time_column is None else text(f"SELECT min({table.time_column}) FROM {table.name}")  # noqa: S608
        at = None if query is None else await connection.scalar(query)
        first, count = None if at is None else at.astimezone(datetime.UTC).date(), 0
    variable = None if table.setting is None else f"NARTHEX_{table.setting.upper()}"
    return TableRetention(
        table.name, variable, table.keep_days(settings) or None, table.method, None if first is None else first.isoformat(), count, size
    )


async def delete_expired(connection: Connection, settings: Settings) -> None:
    """Delete what has expired from every table: each partition, or batch of rows, in a transaction of its own."""
    today = partitions.today()
    for table in TABLES:
        keep_days = table.keep_days(settings)
        if table.method == "partitions":
            await drop_expired(connection, table.name, keep_days, today)
        elif table.method == "rows" and keep_days:
            await _delete_rows(connection, table, datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=keep_days))


async def _delete_rows(connection: Connection, table: RecordedTable, before: datetime.datetime) -> None:
    # The lock keeps the writers of several machines from waiting for each other's rows.
    delete = (
        f"DELETE FROM {table.name} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table.name} WHERE {table.time_column} < $1"  # noqa: S608
        f" LIMIT {table.batch_rows or _BATCH_ROWS} FOR UPDATE SKIP LOCKED))"
    )
    for _ in range(_MAX_BATCHES):
        if await connection.execute(delete, before) == "DELETE 0":
            return
