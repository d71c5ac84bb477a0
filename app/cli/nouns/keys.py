"""narthex keys: create, list, rotate, change and revoke keys."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, cast, get_args

import click
from msgspec import UNSET

from app.cli.confirmation import confirm, yes_option
from app.cli.errors import OrderedGroup
from app.cli.nouns.key_format import key_document, public_prefix, table_row
from app.cli.nouns.options import drop_option, parse_drop, priority_option
from app.cli.output import json_option, print_json, print_table
from app.cli.restriction_options import read_change, read_restrictions, restriction_options, unrestricting_options
from app.cli.store_query import change_store, query_store
from app.cli.times import DurationParam, MomentParam, format_duration
from app.domain.callers import ContentPolicy
from app.store.keys.key_format import parse_prefix
from app.store.postgres.audit_log import command_author
from app.store.teams import keys as store
from app.store.teams import shown_keys
from app.store.teams.keys import KeyChanges
from app.supervisor.machine.errors import OperatorError

_EXPIRES_HELP = "When it expires: 30d, 12h, 2026-12-31 (still valid on that day, UTC) or 2026-12-31T18:00Z."


@click.group(cls=OrderedGroup)
def keys() -> None:
    """Create, list, rotate, change and revoke keys.

    A key stands for a team. It is shown once, when it is created, and stored as a hash; after that, commands name it by its public part,
    such as nx-0123456789ab. A change returns once every gateway process goes by it, and says which do not after NARTHEX_APPLY_WAIT_S.
    """


@keys.command("create")
@click.option("--team", required=True, help="The team that it stands for; created if it is new.")
@click.option("--name", default="", help="A description for people.")
@click.option("--admin", is_flag=True, help="Create a key for the admin API.")
@click.option("--content", type=click.Choice(get_args(ContentPolicy)), help="Also set what is kept of the team's requests and responses.")
@restriction_options("it")
@drop_option
@priority_option
@click.option("--expires", type=MomentParam(), help=_EXPIRES_HELP)
@click.option("--quiet", is_flag=True, help="Print the key and nothing else.")
@json_option
def create(
    team: str,
    name: str,
    admin: bool,
    content: str | None,
    models: Sequence[str],
    routes: Sequence[str],
    networks: Sequence[str],
    drop: Sequence[str],
    priority: int | None,
    expires: datetime | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Create a key. It is shown once and not stored.

    Without --model, --route or --network it is valid for every model, on every route, from everywhere.

    \b
    Examples:
      narthex keys create --team search
      narthex keys create --team search --name nightly --model "small-*" --expires 30d
      KEY=$(narthex keys create --team search --quiet)

    With --json: {"key", "prefix", "team", "name", "admin", "models", "routes", "networks", "drop", "priority", "expires_at"}.
    """
    droppable_fields = parse_drop(drop)
    team = team.strip()
    if not team:
        raise click.BadParameter("a team needs a name", param_hint="--team")
    key = change_store(
        lambda url: store.create_key(
            url,
            team,
            name=name,
            admin=admin,
            content=cast(ContentPolicy | None, content),
            models=_none_if_empty(models),
            routes=_none_if_empty(routes),
            networks=_none_if_empty(networks),
            expires_at=expires,
            drop=droppable_fields or (),
            priority=priority,
            author=command_author(),
        )
    )
    if as_json:
        print_json(
            {
                "key": key,
                "prefix": public_prefix(key),
                "team": team,
                "name": name,
                "admin": admin,
                "models": _none_if_empty(models),
                "routes": _none_if_empty(routes),
                "networks": _none_if_empty(networks),
                "drop": droppable_fields or (),
                "priority": priority,
                "expires_at": expires,
            }
        )
        return
    if not quiet:
        click.echo(f"A key for {team}, shown only once:", err=True)
    click.echo(key)


@keys.command("list")
@click.option("--team", help="Only keys of this team.")
@click.option("--all", "include_inactive", is_flag=True, help="Also revoked and expired keys.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Maximum number of keys, the oldest first.")
@click.option("--after", help="Only keys after the one with this public part: the last one shown before.")
@json_option
def list_keys(team: str | None, include_inactive: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List keys by their public part.

    \b
    Examples:
      narthex keys list
      narthex keys list --team search --all
      narthex keys list --after nx-0123456789ab

    With --json: {"keys": [{"prefix", "team", "name", "admin", "created_at", "revoked_at", "expires_at", "models", "routes", "networks",
    "drop", "priority", "replaced_by", "id"}], "next"}; null where there is no restriction, or the value is not set. "next" is the value of
    --after for the keys that follow, null if there are none.
    """
    if after is not None and parse_prefix(after) is None:
        raise click.BadParameter("it is not the public part of a key, such as nx-0123456789ab", param_hint="--after")
    now = datetime.now(UTC)
    fetched = query_store(lambda url: shown_keys.list_keys(url, team=team, after=after, limit=limit + 1, valid_only=not include_inactive))
    rows, next_cursor = fetched[:limit], public_prefix(fetched[limit - 1].prefix) if len(fetched) > limit else None
    if as_json:
        print_json({"keys": [key_document(row) for row in rows], "next": next_cursor})
    elif not rows:
        of_team = f" of team {team}" if team else ""
        kind, hint = ("", "") if include_inactive else ("valid ", " (--all shows the others)")
        click.echo(f"There is no {kind}key{of_team}{hint}.")
    else:
        titles = ("KEY", "TEAM", "NAME", "CREATED", "STATE", "PERMISSIONS", "PRIORITY", "MAY DROP")
        print_table(titles, [table_row(row, now) for row in rows])
        if next_cursor:
            click.echo(f"There are more: --after {next_cursor} shows the next ones.", err=True)


@keys.command("revoke")
@click.argument("prefix")
@yes_option
@json_option
def revoke(prefix: str, yes: bool, as_json: bool) -> None:
    """Revoke the key whose public part is PREFIX.

    PREFIX may also be the complete key. Returns once every gateway process refuses it, or says which do not yet. A revoked key cannot be
    restored.

    \b
    Example:
      narthex keys revoke nx-0123456789ab

    With --json (which needs --yes): {"revoked": prefix}.
    """
    confirm(f"Revoke {public_prefix(prefix)} for good?", yes=yes, as_json=as_json)
    if not change_store(lambda url: store.revoke_key(url, prefix, author=command_author())):
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"revoked": public_prefix(prefix)})
    else:
        click.echo("Revoked.")


@keys.command("rotate")
@click.argument("prefix")
@click.option("--overlap", type=DurationParam(), default="1h", show_default=True, help="How long the old key stays valid: 0s, 15m, 1h, 7d.")
@click.option("--quiet", is_flag=True, help="Print the new key and nothing else.")
@json_option
def rotate(prefix: str, overlap: float, quiet: bool, as_json: bool) -> None:
    """Replace the key whose public part is PREFIX with a new one.

    The new key has the same permissions, and limits count both as one key. Both are valid during the overlap; then the old one expires.

    \b
    Examples:
      narthex keys rotate nx-0123456789ab
      narthex keys rotate nx-0123456789ab --overlap 7d --quiet > new-key

    With --json: {"key", "prefix", "replaces", "overlap_s"}.
    """
    try:
        key = change_store(lambda url: store.rotate_key(url, prefix, overlap_s=overlap, author=command_author()))
    except store.KeyReplaced as fault:
        raise OperatorError(str(fault)) from None
    if key is None:
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"key": key, "prefix": public_prefix(key), "replaces": public_prefix(prefix), "overlap_s": overlap})
        return
    if not quiet:
        overlap_text = f"stays valid for {format_duration(overlap)}" if overlap else "is no longer valid"
        click.echo(f"The new key, shown only once; {public_prefix(prefix)} {overlap_text}:", err=True)
    click.echo(key)


@keys.command("change")
@click.argument("prefix")
@click.option("--name", help="A description for people.")
@restriction_options("it")
@unrestricting_options
@drop_option
@priority_option
@click.option("--team-priority", is_flag=True, help="Give it the priority of its team again.")
@click.option("--expires", type=MomentParam(), help=_EXPIRES_HELP)
@click.option("--never-expires", is_flag=True, help="Remove its expiry.")
@json_option
def change(
    prefix: str,
    name: str | None,
    models: Sequence[str],
    routes: Sequence[str],
    networks: Sequence[str],
    any_model: bool,
    any_route: bool,
    any_network: bool,
    drop: Sequence[str],
    priority: int | None,
    team_priority: bool,
    expires: datetime | None,
    never_expires: bool,
    as_json: bool,
) -> None:
    """Change what the key whose public part is PREFIX may do.

    Each option replaces the previous value; everything else stays.

    \b
    Examples:
      narthex keys change nx-0123456789ab --model small-1 --model "embed-*"
      narthex keys change nx-0123456789ab --any-model --expires 2026-12-31
      narthex keys change nx-0123456789ab --drop logit_bias --drop seed

    With --json: {"changed": prefix, and each of "name", "models", "routes", "networks", "drop", "priority", "expires_at" that was given}.
    """
    changes: dict[str, Any] = {
        "name": UNSET if name is None else name,
        **read_restrictions(models, routes, networks, any_model=any_model, any_route=any_route, any_network=any_network),
        "drop": parse_drop(drop),
        "priority": read_change("--priority", UNSET if priority is None else priority, "--team-priority", team_priority),
        "expires_at": read_change("--expires", expires, "--never-expires", never_expires),
    }
    changed_fields = {field: value for field, value in changes.items() if value is not UNSET}
    if not changed_fields:
        raise click.UsageError("Nothing to change: give at least one of the options that `narthex keys change -h` lists.")
    if not change_store(lambda url: store.change_key(url, prefix, KeyChanges(**changed_fields), author=command_author())):
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"changed": public_prefix(prefix), **changed_fields})
    else:
        click.echo("Changed.")


def _none_if_empty(values: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(values) or None


def _raise_unknown_key(prefix: str) -> NoReturn:
    raise OperatorError(f"No valid key begins with {public_prefix(prefix)!r}; `narthex keys list` lists them.")
