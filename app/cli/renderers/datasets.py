"""Versions of datasets, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.api.rest.command import Column
from app.cli.operations.show import print_columns
from app.cli.output import printable
from app.cli.times import format_time
from app.datasets.reasons import DESCRIPTIONS
from app.store.datasets.counts import LINE_FORMATS

_VERSIONS = (
    *(Column("number", "VERSION"), Column("status"), Column("rows", form="count"), Column("erased", form="count")),
    *(Column("skipped", form="count"), Column("created_at", "CREATED", "time"), Column("created_by", "BY")),
)


def versions(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    print_columns(_VERSIONS, [{**each, "skipped": sum(each["counts"]["skipped"].values())} for each in document["data"]])
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def version(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    name, counts = printable(document["dataset"]), document["counts"]
    click.echo(f"{name} version {document['number']}: {document['status']}, {document['rows']:,} rows, {document['size_bytes']:,} bytes")
    if document["status"] == "building":
        click.echo(f"It is being built; `narthex datasets show {name}` shows how far it is.")
    if document["searched_to"]:
        click.echo(f"searched back to {format_time(document['searched_to'])} UTC, {document['examined']:,} inferences")
    if document["error"]:
        click.echo(f"error: {printable(document['error'])}")
    if document["erased"]:
        click.echo(f"erased: {document['erased']:,} rows")
    for title, parts in (("splits", counts["splits"]), ("outputs", counts["outputs"]), ("without", counts["omitted"])):
        if parts:
            click.echo(f"{title}: " + ", ".join(f"{printable(part)} {count:,}" for part, count in parts.items()))
    for reason, count in counts["skipped"].items():
        click.echo(f"skipped: {count:,} because {DESCRIPTIONS.get(reason, printable(reason))}")
    for format in LINE_FORMATS:
        if counts["formats"].get(format):
            click.echo(f"export --format {format}: {counts['formats'][format]:,} rows")
            for reason, count in counts["left_out"].get(format, {}).items():
                click.echo(f"  left out: {count:,}, as {printable(reason)}")
