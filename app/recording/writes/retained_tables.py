"""Every table: how long the rows of those that grow are kept, and why the others do not grow. A test compares this with the database.

To keep a table for a limited time, add it to TABLES with a setting of its own, or with one that there is.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from app.settings import Settings
from app.store.experiment_units.counted_experiments import KEEP_UNITS_DAYS

MIN_USAGE_DAYS = 62  # a budget of a calendar month, in any time zone, and the one before it
_NEEDED_BY_BUDGETS = ("usage", "webhook_events", "webhook_deliveries")  # these say which thresholds were reached

Method = Literal["partitions", "rows", "versions", "experiments", "with_another", "when_done", "never"]


class RetainedTable(Struct, frozen=True):
    """A table that grows. What has another method than partitions, rows and versions is deleted elsewhere."""

    name: str
    setting: str | None  # the field of Settings with its days, 0 for ever; None: it has `days`
    method: Method
    time_column: str | None = None  # None if it has none
    batch_rows: int | None = None  # how many are deleted at once; None: as many as of most tables
    days: int = 0
    note: str | None = None  # what else there is to say, such as why it is kept

    def keep_days(self, settings: Settings) -> int:
        """Returns the days for which rows are kept, or 0 for ever."""
        days = self.days if self.setting is None else int(getattr(settings, self.setting))
        return max(days, MIN_USAGE_DAYS) if days and self.name in _NEEDED_BY_BUDGETS else days


_OF_VERSION = "with a version of the configuration, after another has taken its place; the newest 100 stay"
_OF_DATASET = "deleted by hand, with the version of the dataset"

# The largest kinds of records first.
TABLES = (
    RetainedTable("inferences", "keep_inferences_days", "partitions"),
    RetainedTable("inference_content", "keep_content_days", "partitions"),
    RetainedTable("refusals", "keep_refusals_days", "partitions"),
    RetainedTable("inference_texts", "keep_content_days", "partitions"),  # its words are of the content
    RetainedTable("feedback", "keep_feedback_days", "partitions"),
    RetainedTable("feedback_pending", "keep_feedback_days", "rows", "received_at", note="until its inference or episode is found"),
    RetainedTable("rollups_by_minute", "keep_minutes_days", "partitions"),
    RetainedTable("rollups_by_hour", "keep_hours_days", "partitions"),
    RetainedTable("rollups_by_hour_and_outcome", "keep_hours_days", "partitions"),
    RetainedTable("rollups_by_hour_and_team", "keep_hours_days", "partitions"),
    RetainedTable("rollups_by_hour_and_target", "keep_hours_days", "partitions"),
    RetainedTable("rollups_by_hour_and_key", "keep_hours_days", "partitions"),
    RetainedTable("rollups_by_day", None, "partitions"),
    RetainedTable("rollups_by_day_and_outcome", None, "partitions"),
    RetainedTable("rollups_by_day_and_team", None, "partitions"),
    RetainedTable("rollups_by_day_and_target", None, "partitions"),
    RetainedTable("rollups_by_day_and_key", None, "partitions"),
    RetainedTable("rollup_groups", None, "never", note="what sums are of: a row for each combination of key, model, target and outcome"),
    # What names end users is kept no longer than their inferences.
    RetainedTable("subject_rollups_by_hour", "keep_inferences_days", "partitions"),
    RetainedTable("subject_rollups_by_day", "keep_inferences_days", "partitions"),
    RetainedTable("subject_rollups_by_day_and_team", "keep_inferences_days", "partitions"),
    RetainedTable("usage", "keep_usage_days", "rows", "hour"),
    # It marks inferences, and is of no use without them.
    RetainedTable("deleted_responses", "keep_inferences_days", "rows", "deleted_at"),
    RetainedTable("webhook_events", "keep_webhook_events_days", "rows", "created_at"),
    RetainedTable("webhook_deliveries", "keep_webhook_events_days", "with_another", note="with its event"),
    RetainedTable("replays", "keep_inferences_days", "rows", "created_at", batch_rows=5),  # and their items, up to 100,000 of each
    RetainedTable("replay_items", "keep_inferences_days", "with_another", note="with its replay"),
    RetainedTable("configuration_versions", "keep_configuration_days", "versions", "at", note=_OF_VERSION),
    RetainedTable("configuration_changes", "keep_configuration_days", "with_another", note=_OF_VERSION),
    RetainedTable("snapshots", "keep_configuration_days", "with_another", "created_at", note=_OF_VERSION),
    RetainedTable("experiments", None, "never", "created_at", note="what was tried, and how it ended"),
    RetainedTable("experiment_versions", None, "never", "created_at", note="by which weights units were assigned"),
    RetainedTable("experiment_units", None, "experiments", days=KEEP_UNITS_DAYS),
    RetainedTable("pre_period_feedback", None, "experiments", days=KEEP_UNITS_DAYS),
    RetainedTable("pre_period_scans", None, "never", note="a row for each experiment"),
    RetainedTable("experiment_sums", None, "never", note="results; those by values of tags are deleted with the units"),
    RetainedTable("experiment_counts", None, "never", note="results"),
    RetainedTable("experiment_acts", None, "never", "at", note="a trace: a trigger refuses to delete"),
    RetainedTable("touched_units", None, "when_done", note="until it is counted, within seconds"),
    RetainedTable("datasets", None, "never", "created_at", note="deleted ones keep their numbers"),
    RetainedTable("dataset_versions", None, "never", "created_at", note="numbers of deleted ones are not given again"),
    RetainedTable("dataset_rows", None, "never", note=_OF_DATASET),
    RetainedTable("dataset_sources", None, "never", note=_OF_DATASET),
    RetainedTable("dataset_skips", None, "never", note=_OF_DATASET),
    RetainedTable("cost_changes", None, "never", "at", note="a trace of money"),
    RetainedTable("erasures", None, "never", "requested_at", note="the proof, and by which late records are known"),
    RetainedTable("erased_episodes", "keep_inferences_days", "rows", "erased_at"),
    RetainedTable("erasure_arrivals", None, "when_done", "at", note="until copies of the record are erased, within minutes"),
    RetainedTable("audit_log", None, "never", "at", note="a trace: a trigger refuses to delete"),
    RetainedTable("keys", None, "never", "created_at", note="revoked and expired ones, too, which records name"),
    RetainedTable("limit_overrides", None, "never", "created_at", note="ended ones, too, until their limit is removed"),
    RetainedTable("limit_epochs", None, "never", "began_at", note="a row for each time that Redis began without its memory"),
    RetainedTable("admin_tokens", None, "when_done", "created_at", note="some weeks after it ended, at the next sign-in or token"),
    RetainedTable("admin_idempotency", None, "when_done", "created_at", note="a day, until the next request with an Idempotency-Key"),
    RetainedTable("spool_positions", None, "when_done", "moved_at", note="until its segment is stored and removed"),
    RetainedTable("spools", None, "never", "renewed_at", note="a row for each home that had a writer"),
    RetainedTable("workers", None, "rows", "seen_at", days=7, note="gateway processes that ended without a word"),
)

_CONFIGURED = "what is configured"
_ONE_ROW = "one row"

# Why the other tables do not grow by themselves.
BOUNDED_TABLES: Mapping[str, str] = {
    **dict.fromkeys(("teams", "providers", "models", "functions", "metrics", "limits", "prices", "credentials", "webhooks"), _CONFIGURED),
    **dict.fromkeys(("principals", "role_grants"), "who may use the admin API"),
    **dict.fromkeys(
        ("keys_version", "snapshot_version", "rollups_since", "limit_matches_since", "erasure_keys", "alembic_version"), _ONE_ROW
    ),
    "limit_matches": "a row for each limit",
    "nodes": "engines that are registered now",
    "drained_endpoints": "endpoints that are drained now",
    "uncounted_spools": "machines of an upgrade, until what they had is counted",
}
