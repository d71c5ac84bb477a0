"""Events of the audit log as text to keep: JSON Lines, or CSV that a spreadsheet reads without running what is in it."""

import csv
import io
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from app.store.audit_queries import RecordedEvent

ExportFormat = Literal["jsonl", "csv"]

# fmt: off
_CSV_COLUMNS = (
    "id", "at", "actor_kind", "actor_id", "actor_name", "via", "ip", "user_agent",
    "action", "resource", "name", "team", "before", "after", "request_id", "version",
)
# fmt: on
# A cell that begins so is a formula to spreadsheets: https://owasp.org/www-community/attacks/CSV_Injection, read 2026-11.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def export_head(format: ExportFormat) -> bytes:
    """What comes before the first event."""
    return b"" if format == "jsonl" else _csv_lines([_CSV_COLUMNS])


def export_events(events: Iterable[RecordedEvent], format: ExportFormat) -> bytes:
    if format == "jsonl":
        return b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    return _csv_lines(_csv_row(event) for event in events)


def _csv_row(event: RecordedEvent) -> list[str]:
    fields = {**msgspec.structs.asdict(event), **{f"actor_{name}": value for name, value in msgspec.structs.asdict(event.actor).items()}}
    return [_cell(fields[column]) for column in _CSV_COLUMNS]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)
    return "'" + text if text.startswith(_FORMULA_STARTS) else text


def _csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)  # lines end with CR LF, as RFC 4180 has them
    return lines.getvalue().encode()
