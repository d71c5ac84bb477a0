"""Feedback, and how long records are kept, as people read it."""

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from app.api.rest.command import Column
from app.cli.operations.show import print_columns
from app.cli.output import print_table, printable
from app.cli.times import format_time

_MAX_VALUE_CHARS = 60

_RETENTION = (
    Column("table"),
    Column("kept"),
    Column("setting"),
    Column("oldest"),
    Column("rows", form="count"),
    Column("size_bytes", "SIZE", "size"),
    Column("note"),
)


def retention(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    print_columns(_RETENTION, [{**each, "kept": _kept(each)} for each in document["data"]])


def feedback(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("No feedback matches.")
        return
    print_table(("RECEIVED", "FEEDBACK", "TEAM", "METRIC", "VALUE", "ON", "MODEL"), [_event_cells(each) for each in document["data"]])
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def _event_cells(event: Mapping[str, Any]) -> list[str]:
    value = msgspec.json.encode(event["value"]).decode() if event["value"] is not None else f"({event['content']})"
    target = event["inference_id"] or f"episode {event['episode_id']}"
    return [
        *(format_time(event["received_at"]), event["feedback_id"], event["team"] or ""),
        *(event["metric"] or "(withdrawn)", "" if event["metric"] is None else printable(value[:_MAX_VALUE_CHARS])),
        *("" if event["level"] is None else target, event["model"] or ("" if event["matched_at"] else "not found yet")),
    ]


def _kept(table: Mapping[str, Any]) -> str:
    match table["method"]:
        case "experiments":
            return f"{table['keep_days']} days after its experiment"
        case "when_done":
            return "until it is done"
        case _:
            return "for ever" if table["keep_days"] is None else f"{table['keep_days']} days"


def dropped_shape(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"since": document["since"], "until": document["until"], "dropped": document["data"], "more": document["has_more"]}
