"""Webhooks, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.api.rest.command import Column
from app.cli.operations.show import format_value
from app.cli.output import printable


def created(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    percents = format_value(document["thresholds"], Column("thresholds", form="percents"))
    click.echo(f"{printable(document['name'])} is notified at {percents}.")
    if document["secret"] is not None:
        click.echo(f"Its secret, which is not shown again: {document['secret']}")
