"""narthex keys: made, listed, rotated, changed, revoked."""

import ipaddress
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar, cast

import click
from msgspec import UNSET

from app.cli.errors import OrderedGroup
from app.cli.key_format import key_document, public_prefix, table_row
from app.cli.output import json_option, print_json, print_table
from app.cli.times import DurationParam, MomentParam, format_duration
from app.domain import ContentPolicy
from app.settings import Settings
from app.store import keys as store
from app.store.key_validation import parse_prefix
from app.store.keys import KeyChanges
from app.supervisor import server_addresses
from app.supervisor.database_query import query_database
from app.supervisor.errors import OperatorError

F = TypeVar("F", bound=Callable[..., Any])

_EXPIRES_HELP = "When it ends by itself: 30d, 12h, 2026-12-31 (still good on that day, UTC) or 2026-12-31T18:00Z."
_MODEL_HELP = "A model that it may ask for, * at the end stands for anything; more with more --model."
_ROUTE_HELP = "A route that it may use, such as /v1/chat/completions or /v1/*; more with more --route."
_NETWORK_HELP = "Where it may be used from, such as 10.0.0.0/8; more with more --network."


class _Network(click.ParamType[str]):
    """An address, or a network in CIDR notation."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(ipaddress.ip_network(str(value)))
        except ValueError as fault:
            self.fail(f"{fault}; write it as 10.0.0.0/8 or 2001:db8::/32.", param, ctx)


def _restriction_options(command: F) -> F:
    """The options that say what a key may do."""
    for option in (
        click.option("--network", "networks", multiple=True, type=_Network(), help=_NETWORK_HELP),
        click.option("--route", "routes", multiple=True, help=_ROUTE_HELP),
        click.option("--model", "models", multiple=True, help=_MODEL_HELP),
    ):
        command = option(command)
    return command


@click.group(cls=OrderedGroup)
def keys() -> None:
    """Make, list, rotate, change and revoke keys.

    A key stands for a team. It is shown once, when it is made, and stored as a hash; from then on it goes by its public part, such as
    nx-0123456789ab. Every change reaches all gateway processes within two seconds.
    """


@keys.command("create")
@click.option("--team", required=True, help="Whose key it is; the team is made if it is new.")
@click.option("--name", default="", help="What it is for, for people.")
@click.option("--admin", is_flag=True, help="A key for the admin API.")
@click.option("--content", type=click.Choice(["full", "redacted", "none"]), help="Also set what is kept of the team's asks and replies.")
@_restriction_options
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
    expires: datetime | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make a key. It is shown this once and stored nowhere.

    Without --model, --route or --network it is good for every model, on every route, from everywhere.

    \b
    Examples:
      narthex keys create --team search
      narthex keys create --team search --name nightly --model "small-*" --expires 30d
      KEY=$(narthex keys create --team search --quiet)

    With --json: {"key", "prefix", "team", "name", "admin", "models", "routes", "networks", "expires_at"}.
    """
    team = team.strip()
    if not team:
        raise click.BadParameter("a team needs a name", param_hint="--team")
    key = _query_keys(
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
                "expires_at": expires,
            }
        )
        return
    if not quiet:
        click.echo(f"A key for {team}; it is shown this once:", err=True)
    click.echo(key)


@keys.command("list")
@click.option("--team", help="Only this team's.")
@click.option("--all", "ended_too", is_flag=True, help="Also those that were revoked, or have expired.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="At most so many, the oldest first.")
@click.option("--after", help="Those after the key with this public part, which was the last one shown.")
@json_option
def list_keys(team: str | None, ended_too: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List keys by their public part.

    \b
    Examples:
      narthex keys list
      narthex keys list --team search --all
      narthex keys list --after nx-0123456789ab

    With --json: {"keys": [{"prefix", "team", "name", "admin", "created_at", "revoked_at", "expires_at", "models", "routes", "networks",
    "replaced_by", "id"}], "next"}; null where there is no restriction, or the time has not been set. "next" is what --after takes for
    those that follow, null if none do.
    """
    if after is not None and parse_prefix(after) is None:
        raise click.BadParameter("it is no public part of a key, such as nx-0123456789ab", param_hint="--after")
    now = datetime.now(UTC)
    fetched = _query_keys(lambda url: store.list_keys(url, team=team, after=after, limit=limit + 1, valid_only=not ended_too))
    rows, next_cursor = fetched[:limit], public_prefix(fetched[limit - 1].prefix) if len(fetched) > limit else None
    if as_json:
        print_json({"keys": [key_document(row) for row in rows], "next": next_cursor})
    elif not rows:
        of_team = f" of team {team}" if team else ""
        click.echo(f"There is no key{of_team}{'' if ended_too else ' that works (--all shows the others)'}.")
    else:
        titles = ("KEY", "TEAM", "NAME", "MADE", "STATE", "MAY")
        print_table(titles, [table_row(row, now) for row in rows])
        if next_cursor:
            click.echo(f"There are more: --after {next_cursor} shows those that follow.", err=True)


@keys.command("revoke")
@click.argument("prefix")
@json_option
def revoke(prefix: str, as_json: bool) -> None:
    """Revoke the key whose public part is PREFIX; it stops working within two seconds.

    A whole key will do as well. A revoked key cannot be brought back.

    \b
    Example:
      narthex keys revoke nx-0123456789ab

    With --json: {"revoked": prefix}.
    """
    if not _query_keys(lambda url: store.revoke_key(url, prefix)):
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"revoked": public_prefix(prefix)})
    else:
        click.echo("Revoked.")


@keys.command("rotate")
@click.argument("prefix")
@click.option(
    "--overlap", type=DurationParam(), default="1h", show_default=True, help="How long the old key goes on working: 0s, 15m, 1h, 7d."
)
@click.option("--quiet", is_flag=True, help="Print the new key and nothing else.")
@json_option
def rotate(prefix: str, overlap: float, quiet: bool, as_json: bool) -> None:
    """Make a new key in place of the one whose public part is PREFIX.

    It may do what the old one may. Both work until the overlap is over; then the old one ends by itself.

    \b
    Examples:
      narthex keys rotate nx-0123456789ab
      narthex keys rotate nx-0123456789ab --overlap 7d --quiet > new-key

    With --json: {"key", "prefix", "replaces", "overlap_s"}.
    """
    key = _query_keys(lambda url: store.rotate_key(url, prefix, overlap_s=overlap))
    if key is None:
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"key": key, "prefix": public_prefix(key), "replaces": public_prefix(prefix), "overlap_s": overlap})
        return
    if not quiet:
        overlap_text = f"works for another {format_duration(overlap)}" if overlap else "works no longer"
        click.echo(f"A new key, shown this once; {public_prefix(prefix)} {overlap_text}:", err=True)
    click.echo(key)


@keys.command("change")
@click.argument("prefix")
@click.option("--name", help="What it is for, for people.")
@_restriction_options
@click.option("--any-model", is_flag=True, help="Every model again.")
@click.option("--any-route", is_flag=True, help="Every route again.")
@click.option("--any-network", is_flag=True, help="From everywhere again.")
@click.option("--expires", type=MomentParam(), help=_EXPIRES_HELP)
@click.option("--never-expires", is_flag=True, help="It does not end by itself.")
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
    expires: datetime | None,
    never_expires: bool,
    as_json: bool,
) -> None:
    """Change what the key whose public part is PREFIX may do.

    What is given replaces what was; what is not given stays.

    \b
    Examples:
      narthex keys change nx-0123456789ab --model small-1 --model "embed-*"
      narthex keys change nx-0123456789ab --any-model --expires 2026-12-31

    With --json: {"changed": prefix, and each of "name", "models", "routes", "networks", "expires_at" that was given}.
    """
    changes: dict[str, Any] = {
        "name": UNSET if name is None else name,
        "models": _read_change("--model", models, "--any-model", any_model),
        "routes": _read_change("--route", routes, "--any-route", any_route),
        "networks": _read_change("--network", networks, "--any-network", any_network),
        "expires_at": _read_change("--expires", expires, "--never-expires", never_expires),
    }
    changed_fields = {field: value for field, value in changes.items() if value is not UNSET}
    if not changed_fields:
        raise click.UsageError("Nothing to change: give at least one of the options that `narthex keys change -h` lists.")
    if not _query_keys(lambda url: store.change_key(url, prefix, KeyChanges(**changed_fields))):
        _raise_unknown_key(prefix)
    if as_json:
        print_json({"changed": public_prefix(prefix), **changed_fields})
    else:
        click.echo("Changed.")


def _none_if_empty(values: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(values) or None


def _read_change(option: str, value: Any, reset_option: str, is_reset: bool) -> Any:
    if value and is_reset:
        raise click.UsageError(f"{option} and {reset_option} exclude each other.")
    if is_reset:
        return None
    return value or UNSET


def _raise_unknown_key(prefix: str) -> NoReturn:
    raise OperatorError(f"No valid key begins with {public_prefix(prefix)!r}; `narthex keys list` shows those there are.")


def _query_keys(query: Callable[[str], Any]) -> Any:
    return query_database(server_addresses.resolve(Settings.read()).database_url, query)
