"""narthex keys: create, list, rotate, change and revoke keys."""

import ipaddress
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar, cast, get_args

import click
from msgspec import UNSET

from app.cli.errors import OrderedGroup
from app.cli.key_format import key_document, public_prefix, table_row
from app.cli.options import drop_option, parse_drop, priority_option
from app.cli.output import json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import DurationParam, MomentParam, format_duration
from app.domain import ContentPolicy
from app.store import keys as store
from app.store.audit_log import command_author
from app.store.key_validation import parse_prefix
from app.store.keys import KeyChanges
from app.supervisor.errors import OperatorError

F = TypeVar("F", bound=Callable[..., Any])

_EXPIRES_HELP = "When it expires: 30d, 12h, 2026-12-31 (still valid on that day, UTC) or 2026-12-31T18:00Z."
_MODEL_HELP = "A model that it may use; * at the end stands for anything. Can be repeated."
_ROUTE_HELP = "A route that it may use, such as /v1/chat/completions or /v1/*. Can be repeated."
_NETWORK_HELP = "A network that it may be used from, such as 10.0.0.0/8. Can be repeated."


class _Network(click.ParamType[str]):
    """An address, or a network in CIDR notation."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(ipaddress.ip_network(str(value)))
        except ValueError as fault:
            self.fail(f"{fault}; write it as 10.0.0.0/8 or 2001:db8::/32.", param, ctx)


def _restriction_options(command: F) -> F:
    """Adds the options that restrict what a key may do."""
    for option in (
        click.option("--network", "networks", multiple=True, type=_Network(), help=_NETWORK_HELP),
        click.option("--route", "routes", multiple=True, help=_ROUTE_HELP),
        click.option("--model", "models", multiple=True, help=_MODEL_HELP),
    ):
        command = option(command)
    return command


@click.group(cls=OrderedGroup)
def keys() -> None:
    """Create, list, rotate, change and revoke keys.

    A key stands for a team. It is shown once, when it is created, and stored as a hash; after that, commands name it by its public part,
    such as nx-0123456789ab. Every change reaches all gateway processes within two seconds.
    """


@keys.command("create")
@click.option("--team", required=True, help="The team that it stands for; created if it is new.")
@click.option("--name", default="", help="A description for people.")
@click.option("--admin", is_flag=True, help="Create a key for the admin API.")
@click.option("--content", type=click.Choice(get_args(ContentPolicy)), help="Also set what is kept of the team's requests and responses.")
@_restriction_options
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
    key = query_store(
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
    fetched = query_store(lambda url: store.list_keys(url, team=team, after=after, limit=limit + 1, valid_only=not include_inactive))
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
@json_option
def revoke(prefix: str, as_json: bool) -> None:
    """Revoke the key whose public part is PREFIX; it stops working within two seconds.

    PREFIX may also be the complete key. A revoked key cannot be restored.

    \b
    Example:
      narthex keys revoke nx-0123456789ab

    With --json: {"revoked": prefix}.
    """
    if not query_store(lambda url: store.revoke_key(url, prefix, author=command_author())):
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
        key = query_store(lambda url: store.rotate_key(url, prefix, overlap_s=overlap, author=command_author()))
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
@_restriction_options
@click.option("--any-model", is_flag=True, help="Allow every model.")
@click.option("--any-route", is_flag=True, help="Allow every route.")
@click.option("--any-network", is_flag=True, help="Allow every network.")
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
        "models": _read_change("--model", models, "--any-model", any_model),
        "routes": _read_change("--route", routes, "--any-route", any_route),
        "networks": _read_change("--network", networks, "--any-network", any_network),
        "drop": parse_drop(drop),
        "priority": _read_change("--priority", UNSET if priority is None else priority, "--team-priority", team_priority),
        "expires_at": _read_change("--expires", expires, "--never-expires", never_expires),
    }
    changed_fields = {field: value for field, value in changes.items() if value is not UNSET}
    if not changed_fields:
        raise click.UsageError("Nothing to change: give at least one of the options that `narthex keys change -h` lists.")
    if not query_store(lambda url: store.change_key(url, prefix, KeyChanges(**changed_fields), author=command_author())):
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"changed": public_prefix(prefix), **changed_fields})
    else:
        click.echo("Changed.")


def _none_if_empty(values: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(values) or None


def _read_change(option: str, value: Any, reset_option: str, is_reset: bool) -> Any:
    is_given = value is not UNSET and value not in ((), None)
    if is_given and is_reset:
        raise click.UsageError(f"{option} and {reset_option} exclude each other.")
    if is_reset:
        return None
    return value if is_given else UNSET


def _raise_unknown_key(prefix: str) -> NoReturn:
    raise OperatorError(f"No valid key begins with {public_prefix(prefix)!r}; `narthex keys list` lists them.")
