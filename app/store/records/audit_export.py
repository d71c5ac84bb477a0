"""Events of the audit log as text to keep: JSON Lines, or CSV that a spreadsheet reads without running what is in it."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from app.store.formats.csv_lines import csv_cell, csv_lines
from app.store.records.audit_queries import RecordedEvent

ExportFormat = Literal["jsonl", "csv"]
EXPORT_MEDIA_TYPES: Mapping[ExportFormat, str] = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}

# fmt: off
_CSV_COLUMNS = (
    "id", "at", "actor_kind", "actor_id", "actor_name", "via", "ip", "user_agent",
    "action", "resource", "name", "team", "before", "after", "request_id", "version",
)
# fmt: on


def export_head(format: ExportFormat) -> bytes:
    """Returns what comes before the first event: nothing in JSON Lines, the names of columns in CSV."""
    return b"" if format == "jsonl" else csv_lines([_CSV_COLUMNS])


def export_events(events: Iterable[RecordedEvent], format: ExportFormat) -> bytes:
    if format == "jsonl":
        return b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    return csv_lines(_csv_row(event) for event in events)


def _csv_row(event: RecordedEvent) -> list[str]:
    fields = {**msgspec.structs.asdict(event), **{f"actor_{name}": value for name, value in msgspec.structs.asdict(event.actor).items()}}
    return [csv_cell(fields[column]) for column in _CSV_COLUMNS]
