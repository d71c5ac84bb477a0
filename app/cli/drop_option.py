"""Option --drop of commands for teams and keys."""

from collections.abc import Sequence

import click
from msgspec import UNSET, UnsetType

from app.domain import DroppableFields

drop_option = click.option(
    "--drop",
    metavar="FIELD",
    multiple=True,
    help="A field that may be left out of its requests where a target cannot honour it; all: every such field, none: no field"
    " (docs/configuration.md). Can be repeated.",
)


def parse_drop(fields: Sequence[str]) -> DroppableFields | UnsetType:
    """The option's value; UNSET if it was not given."""
    if not fields:
        return UNSET
    if tuple(fields) == ("none",):
        return ()
    return "all" if tuple(fields) == ("all",) else tuple(dict.fromkeys(fields))
