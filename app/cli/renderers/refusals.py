"""Refused requests, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.api.rest.command import Column
from app.cli.operations.show import print_columns
from app.cli.output import print_table
from app.cli.times import format_time

_COUNTS = (Column("team"), Column("key"), Column("error"), Column("rule"), Column("refused", form="count"))


def shown(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    counts: Mapping[str, Any] = document["counts"] or {"data": [], "has_more": False}
    sample, has_counts = document["data"], bool(counts["data"])
    if has_counts:
        print_columns(_COUNTS, [{**row["group"], "refused": row["refused"]} for row in counts["data"]])
        if counts["has_more"]:
            click.echo("There are more groups: --limit shows more.", err=True)
    if not sample:
        click.echo("No sample of them is kept any more." if has_counts else "No refused request matches.")
    else:
        click.echo("\nThe newest of a sample:" if has_counts else "A sample of those that match:")
        print_table(("RECEIVED", "ID", "TEAM", "KEY", "MODEL", "STATUS", "WHY"), [_cells(each) for each in sample])


def _cells(refusal: Mapping[str, Any]) -> tuple[str, ...]:
    why = refusal["message"] or f"{refusal['error']} {refusal['param'] or ''}".strip()
    key = refusal["key"] or refusal["unknown_key"] or ""
    return format_time(refusal["received_at"]), refusal["id"], refusal["team"] or "", key, refusal["model"], str(refusal["status"]), why
