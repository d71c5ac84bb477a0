"""Options that commands for teams and keys share: --drop and --priority."""

from collections.abc import Sequence

import click
from msgspec import UNSET, UnsetType

from app.domain.callers import DroppableFields
from app.store.postgres.names import MAX_PRIORITY

drop_option = click.option(
    "--drop",
    metavar="FIELD",
    multiple=True,
    help="A field that may be left out of its requests where a target cannot honour it; all: every such field, none: no field"
    " (docs/configuration.md). Can be repeated.",
)

priority_option = click.option(
    "--priority",
    type=click.IntRange(-MAX_PRIORITY, MAX_PRIORITY),
    help="Where requests wait for a place at a model, those of the highest priority get it first (default: 0, or of a key its team's).",
)


def parse_drop(fields: Sequence[str]) -> DroppableFields | UnsetType:
    """The option's value; UNSET if it was not given."""
    if not fields:
        return UNSET
    if tuple(fields) == ("none",):
        return ()
    return "all" if tuple(fields) == ("all",) else tuple(dict.fromkeys(fields))
