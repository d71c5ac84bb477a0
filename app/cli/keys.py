"""narthex keys: made, listed, rotated, changed, revoked."""

import ipaddress
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar, cast

import click
from msgspec import UNSET

from app.cli.key_words import document, line, public
from app.cli.sentences import Ordered
from app.cli.telling import json_option, tell_json, tell_table
from app.cli.times import Duration, Moment, span
from app.domain import ContentPolicy
from app.local import servers
from app.local.asking import ask
from app.local.trouble import Trouble
from app.settings import Settings
from app.store import keys as store
from app.store.key_terms import public_part
from app.store.keys import KeyChanges

F = TypeVar("F", bound=Callable[..., Any])

_EXPIRES = "When it ends by itself: 30d, 12h, 2026-12-31 (still good on that day, UTC) or 2026-12-31T18:00Z."
_MODEL = "A model that it may ask for, * at the end stands for anything; more with more --model."
_ROUTE = "A route that it may use, such as /v1/chat/completions or /v1/*; more with more --route."
_NETWORK = "Where it may be used from, such as 10.0.0.0/8; more with more --network."


class _Network(click.ParamType[str]):
    """An address, or a network in CIDR notation."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(ipaddress.ip_network(str(value)))
        except ValueError as fault:
            self.fail(f"{fault}; write it as 10.0.0.0/8 or 2001:db8::/32.", param, ctx)


def _restrictions(command: F) -> F:
    """The options that say what a key may do."""
    for option in (
        click.option("--network", "networks", multiple=True, type=_Network(), help=_NETWORK),
        click.option("--route", "routes", multiple=True, help=_ROUTE),
        click.option("--model", "models", multiple=True, help=_MODEL),
    ):
        command = option(command)
    return command


@click.group(cls=Ordered)
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
@_restrictions
@click.option("--expires", type=Moment(), help=_EXPIRES)
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
    key = _ask(
        lambda url: store.create_key(
            url,
            team,
            name=name,
            admin=admin,
            content=cast(ContentPolicy | None, content),
            models=_all_or(models),
            routes=_all_or(routes),
            networks=_all_or(networks),
            expires_at=expires,
        )
    )
    if as_json:
        tell_json(
            {
                "key": key,
                "prefix": public(key),
                "team": team,
                "name": name,
                "admin": admin,
                "models": _all_or(models),
                "routes": _all_or(routes),
                "networks": _all_or(networks),
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
    if after is not None and public_part(after) is None:
        raise click.BadParameter("it is no public part of a key, such as nx-0123456789ab", param_hint="--after")
    now = datetime.now(UTC)
    found = _ask(lambda url: store.list_keys(url, team=team, after=after, limit=limit + 1, good=not ended_too))
    rows, follows = found[:limit], public(found[limit - 1].prefix) if len(found) > limit else None
    if as_json:
        tell_json({"keys": [document(row) for row in rows], "next": follows})
    elif not rows:
        whose = f" of team {team}" if team else ""
        click.echo(f"There is no key{whose}{'' if ended_too else ' that works (--all shows the others)'}.")
    else:
        titles = ("KEY", "TEAM", "NAME", "MADE", "STATE", "MAY")
        tell_table(titles, [line(row, now) for row in rows])
        if follows:
            click.echo(f"There are more: --after {follows} shows those that follow.", err=True)


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
    if not _ask(lambda url: store.revoke_key(url, prefix)):
        _unknown(prefix)
    if as_json:
        tell_json({"revoked": public(prefix)})
    else:
        click.echo("Revoked.")


@keys.command("rotate")
@click.argument("prefix")
@click.option("--overlap", type=Duration(), default="1h", show_default=True, help="How long the old key goes on working: 0s, 15m, 1h, 7d.")
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
    key = _ask(lambda url: store.rotate_key(url, prefix, overlap_s=overlap))
    if key is None:
        _unknown(prefix)
    if as_json:
        tell_json({"key": key, "prefix": public(key), "replaces": public(prefix), "overlap_s": overlap})
        return
    if not quiet:
        works = f"works for another {span(overlap)}" if overlap else "works no longer"
        click.echo(f"A new key, shown this once; {public(prefix)} {works}:", err=True)
    click.echo(key)


@keys.command("change")
@click.argument("prefix")
@click.option("--name", help="What it is for, for people.")
@_restrictions
@click.option("--any-model", is_flag=True, help="Every model again.")
@click.option("--any-route", is_flag=True, help="Every route again.")
@click.option("--any-network", is_flag=True, help="From everywhere again.")
@click.option("--expires", type=Moment(), help=_EXPIRES)
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
        "models": _changed("--model", models, "--any-model", any_model),
        "routes": _changed("--route", routes, "--any-route", any_route),
        "networks": _changed("--network", networks, "--any-network", any_network),
        "expires_at": _changed("--expires", expires, "--never-expires", never_expires),
    }
    given = {field: value for field, value in changes.items() if value is not UNSET}
    if not given:
        raise click.UsageError("Nothing to change: give at least one of the options that `narthex keys change -h` lists.")
    if not _ask(lambda url: store.change_key(url, prefix, KeyChanges(**given))):
        _unknown(prefix)
    if as_json:
        tell_json({"changed": public(prefix), **given})
    else:
        click.echo("Changed.")


def _all_or(given: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(given) or None


def _changed(option: str, given: Any, lift: str, lifted: bool) -> Any:
    if given and lifted:
        raise click.UsageError(f"{option} and {lift} exclude each other.")
    if lifted:
        return None
    return given or UNSET


def _unknown(prefix: str) -> NoReturn:
    raise Trouble(f"No valid key begins with {public(prefix)!r}; `narthex keys list` shows those there are.")


def _ask(question: Callable[[str], Any]) -> Any:
    return ask(servers.found(Settings.read()).database_url, question)
