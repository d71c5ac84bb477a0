"""narthex teams: list teams, and set what is kept of their requests, what may be dropped, their priority, and what keys are held to."""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import click
import msgspec
from msgspec import UNSET, UnsetType

from app.cli.errors import OrderedGroup
from app.cli.nouns.options import drop_option, parse_drop, priority_option
from app.cli.output import format_drop, json_option, print_json, print_table, printable
from app.cli.restriction_options import read_change, read_restrictions, restriction_options, unrestricting_options
from app.cli.store_query import change_store, query_store
from app.cli.times import format_time
from app.domain.callers import ALL_DETECTORS, ContentPolicy, Detector, Fallbacks, MaskConfig, TeamConfig, TeamLimit, TeamRestrictions
from app.domain.limits import Period, Resource
from app.process.plain_numbers import plain_number
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import transaction
from app.store.teams import teams as store


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
@restriction_options("each of its keys")
@unrestricting_options
@click.option(
    "--limit",
    "limits",
    metavar="RESOURCE=AMOUNT[/PERIOD]",
    multiple=True,
    help="The most that each of its keys may use: requests=100/minute, cost_usd=5/day, concurrency=4; with ,model=NAME only of requests"
    " for that model, and with ,time_zone=ZONE by the days there. These take the place of all that it has. Can be repeated.",
)
@click.option("--no-limits", is_flag=True, help="Remove the limits of its keys.")
@click.option(
    "--fallbacks", type=click.Choice(get_args(Fallbacks)), help="Whether models fall back to any model, or to those that the key may use."
)
@json_option
def set_team(
    name: str,
    content: str | None,
    detectors: Sequence[str],
    patterns: Sequence[str],
    search: bool | None,
    drop: Sequence[str],
    priority: int | None,
    models: Sequence[str],
    routes: Sequence[str],
    networks: Sequence[str],
    any_model: bool,
    any_route: bool,
    any_network: bool,
    limits: Sequence[str],
    no_limits: bool,
    fallbacks: str | None,
    as_json: bool,
) -> None:
    """Set the options of team NAME; a new NAME creates a team.

    Returns once every gateway process goes by it; what is not given stays. What its keys are held to (--model to --fallbacks) they narrow
    and cannot widen. docs/recording.md describes what each choice of --content keeps.

    \b
    Examples:
      narthex teams set legal --content none
      narthex teams set sales --content masked --mask-pattern 'employee_number=E[0-9]{6}'
      narthex teams set support --search
      narthex teams set search --drop logit_bias --drop seed
      narthex teams set batch --priority -50
      narthex teams set interns --model "small-*" --limit requests=100/minute --limit cost_usd=5/day --fallbacks allowed
      narthex teams set interns --any-model --no-limits

    With --json: {"name", "content", "drop", "priority", "mask": {"detectors", "patterns"}, "search", "models", "routes", "networks",
    "limits", "fallbacks"}.
    """
    if not name.strip():
        raise click.BadParameter("a team needs a name", param_hint="NAME")
    droppable_fields = parse_drop(drop)
    parsed_limits = read_change("--limit", tuple(_parse_limit(each) for each in limits), "--no-limits", no_limits)
    changes = {
        **read_restrictions(models, routes, networks, any_model=any_model, any_route=any_route, any_network=any_network),
        "limits": () if parsed_limits is None else parsed_limits,
        "fallbacks": UNSET if fallbacks is None else fallbacks,
    }
    restrictions = {field: value for field, value in changes.items() if value is not UNSET}
    is_given = [content is not None, droppable_fields is not UNSET, priority is not None, search is not None, detectors, patterns]
    if not any(is_given) and not restrictions:
        raise click.UsageError("Nothing to set: give at least one of the options that `narthex teams set -h` lists.")
    policy = UNSET if content is None else cast(ContentPolicy, content)
    new_priority, new_search = UNSET if priority is None else priority, UNSET if search is None else search
    changed_patterns = _parse_patterns(patterns)

    async def store_team(database_url: str) -> TeamConfig:
        async with transaction(database_url) as connection:
            mask: MaskConfig | UnsetType = UNSET
            if detectors or patterns:
                before = await store.find_team(connection, name.strip(), lock=True)
                mask = _change_mask(MaskConfig() if before is None else before.mask, detectors, changed_patterns)
            settings = (policy, droppable_fields, new_priority, mask, new_search)
            return await store.set_team(connection, name.strip(), *settings, restrictions=restrictions, author=command_author())

    team = change_store(store_team)
    if as_json:
        print_json({"name": name.strip(), **msgspec.structs.asdict(team)})
    else:
        may_drop = format_drop(team.drop) or "nothing"
        search_state = "on" if team.search else "off"
        click.echo(f"Team {name.strip()}: content {team.content}, may drop {may_drop}, priority {team.priority}, search {search_state}.")
        held_to = _describe_restrictions(team)
        if held_to:
            click.echo(f"Its keys are held to {held_to}.")


def _describe_restrictions(team: TeamRestrictions) -> str:
    lists = {"models": team.models, "routes": team.routes, "networks": team.networks}
    parts = [f"{name} {', '.join(values)}" for name, values in lists.items() if values is not None]
    limits = [
        " ".join(
            filter(None, [plain_number(each.amount), each.resource, each.per and f"per {each.per}", each.model and f"of {each.model}"])
        )
        for each in team.limits
    ]
    parts += [f"limits {', '.join(limits)}"] if limits else []
    parts += ["fallbacks that they may use"] if team.fallbacks == "allowed" else []
    return printable("; ".join(parts))


def _parse_limit(option: str) -> TeamLimit:
    """RESOURCE=AMOUNT[/PERIOD][,model=NAME][,time_zone=ZONE]. What its values may be together is checked when it is stored."""
    counted, *more = option.split(",")
    resource, _, rest = counted.partition("=")
    amount, separator, period = rest.partition("/")
    fields: dict[str, Any] = {"resource": resource, "amount": amount, **({"per": period} if separator else {})}
    for each in more:
        name, _, value = each.partition("=")
        if name not in ("model", "time_zone") or not value or name in fields:
            raise click.BadParameter(f"{each!r:.100} is not model=NAME or time_zone=ZONE, each once", param_hint="--limit")
        fields[name] = value
    try:
        return msgspec.convert(fields, TeamLimit, strict=False)
    except msgspec.ValidationError:
        raise click.BadParameter(
            f"{option!r:.100} is not RESOURCE=AMOUNT/PERIOD, such as requests=100/minute; RESOURCE is one of"
            f" {', '.join(get_args(Resource))}, PERIOD one of {', '.join(get_args(Period))}",
            param_hint="--limit",
        ) from None


def _parse_patterns(options: Sequence[str]) -> dict[str, str]:
    """Returns the patterns by name. An empty pattern removes the one of that name."""
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
