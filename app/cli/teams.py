"""narthex teams: list teams, and set what is kept of their requests, what may be dropped from them, and their priority."""

from collections.abc import Mapping, Sequence
from typing import cast, get_args

import click
import msgspec
from msgspec import UNSET, UnsetType

from app.cli.errors import OrderedGroup
from app.cli.options import drop_option, parse_drop, priority_option
from app.cli.output import format_drop, json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import format_time
from app.domain import ALL_DETECTORS, ContentPolicy, Detector, MaskConfig, TeamConfig
from app.store import teams as store
from app.store.audit_log import command_author
from app.store.database import transaction


@click.group(cls=OrderedGroup)
def teams() -> None:
    """List teams, and set their options.

    A team is created with its first key (`narthex keys create --team NAME`), by `narthex teams set`, or by [teams.NAME] in a file.
    """


@teams.command("list")
@json_option
def list_teams(as_json: bool) -> None:
    """List teams.

    \b
    Example:
      narthex teams list

    With --json: {"teams": [{"name", "content", "drop", "priority", "created_at", "keys", "mask", "search", "models", "routes",
    "networks", "limits", "fallbacks"}]}; "keys" is the number of its valid keys.
    """
    rows = query_store(store.list_teams)
    if as_json:
        print_json({"teams": rows})
    elif not rows:
        click.echo("There are no teams yet; `narthex keys create --team NAME` creates one with its first key.")
    else:
        cells = [
            (
                *(row.name, row.content, str(row.keys), format_time(row.created_at), str(row.priority), format_drop(row.drop)),
                "yes" if row.search else "",
            )
            for row in rows
        ]
        print_table(("TEAM", "CONTENT", "KEYS", "CREATED", "PRIORITY", "MAY DROP", "SEARCH"), cells)


@teams.command("set")
@click.argument("name")
@click.option(
    "--content",
    type=click.Choice(get_args(ContentPolicy)),
    help="What is kept of its requests and responses: everything, everything but what --mask and --mask-pattern find, only structure and"
    " numbers, or nothing.",
)
@click.option(
    "--mask",
    "detectors",
    type=click.Choice([*ALL_DETECTORS, "all"]),
    multiple=True,
    help="What --content masked finds by itself (default: all). Can be repeated.",
)
@click.option(
    "--mask-pattern",
    "patterns",
    metavar="NAME=REGEX",
    multiple=True,
    help="What else it finds, as a regular expression of RE2, by the name that takes its place; NAME= removes it. Can be repeated.",
)
@click.option("--search/--no-search", default=None, help="Whether the text of what is recorded from now on can be searched.")
@drop_option
@priority_option
@json_option
def set_team(
    name: str,
    content: str | None,
    detectors: Sequence[str],
    patterns: Sequence[str],
    search: bool | None,
    drop: Sequence[str],
    priority: int | None,
    as_json: bool,
) -> None:
    """Set the options of team NAME; a new NAME creates a team.

    It takes effect for all its keys within two seconds; what is not given stays. What its keys are held to (models, limits, ...) is set
    in a file or over the admin API. docs/recording.md describes what each choice of
    --content keeps.

    \b
    Examples:
      narthex teams set legal --content none
      narthex teams set sales --content masked --mask-pattern 'employee_number=E[0-9]{6}'
      narthex teams set support --search
      narthex teams set search --drop logit_bias --drop seed
      narthex teams set batch --priority -50

    With --json: {"name", "content", "drop", "priority", "mask": {"detectors", "patterns"}, "search", "models", "routes", "networks",
    "limits", "fallbacks"}.
    """
    if not name.strip():
        raise click.BadParameter("a team needs a name", param_hint="NAME")
    droppable_fields = parse_drop(drop)
    if content is None and droppable_fields is UNSET and priority is None and search is None and not detectors and not patterns:
        raise click.UsageError("Nothing to set: give --content, --mask, --mask-pattern, --search, --drop or --priority.")
    policy = UNSET if content is None else cast(ContentPolicy, content)
    new_priority, new_search = UNSET if priority is None else priority, UNSET if search is None else search
    changed_patterns = _parse_patterns(patterns)

    async def store_team(database_url: str) -> TeamConfig:
        async with transaction(database_url) as connection:
            mask: MaskConfig | UnsetType = UNSET
            if detectors or patterns:
                before = await store.find_team(connection, name.strip(), lock=True)
                mask = _change_mask(MaskConfig() if before is None else before.mask, detectors, changed_patterns)
            return await store.set_team(
                connection, name.strip(), policy, droppable_fields, new_priority, mask, new_search, author=command_author()
            )

    team = query_store(store_team)
    if as_json:
        print_json({"name": name.strip(), **msgspec.structs.asdict(team)})
    else:
        may_drop = format_drop(team.drop) or "nothing"
        search_state = "on" if team.search else "off"
        click.echo(f"Team {name.strip()}: content {team.content}, may drop {may_drop}, priority {team.priority}, search {search_state}.")


def _parse_patterns(options: Sequence[str]) -> dict[str, str]:
    """By name; an empty pattern removes the one of that name."""
    patterns: dict[str, str] = {}
    for option in options:
        name, separator, pattern = option.partition("=")
        if not separator or not name:
            raise click.BadParameter("it must be NAME=REGEX, such as employee_number=E[0-9]{6}", param_hint="--mask-pattern")
        patterns[name] = pattern
    return patterns


def _change_mask(before: MaskConfig, detectors: Sequence[str], patterns: Mapping[str, str]) -> MaskConfig:
    chosen = ALL_DETECTORS if "all" in detectors else tuple(cast(Sequence[Detector], [each for each in ALL_DETECTORS if each in detectors]))
    changed = {name: pattern for name, pattern in {**before.patterns, **patterns}.items() if pattern}
    return MaskConfig(chosen if detectors else before.detectors, changed)
