"""narthex erase: erase what was recorded of somebody, and prove it."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.confirmation import confirm, refuse_unconfirmed, yes_option
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_in_transaction, query_store
from app.cli.times import format_time
from app.domain import uuid7
from app.recording.erasure import erasures as store
from app.recording.erasure.check import Checked, check_erasure
from app.recording.erasure.copies import CopiesUnavailable
from app.recording.erasure.erasures import Erasure, NewErasure, parse_selector
from app.recording.erasure.hashes import Selector
from app.settings import Settings
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import create_database_engine
from app.store.postgres.paging import MAX_PAGE_ROWS, Page
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_STATEMENT_TIMEOUT_S = 300.0

T = TypeVar("T")

user_option = click.option("--user", "end_user", metavar="USER", help="This end user.")
tag_option = click.option("--tag", metavar="NAME=VALUE", help="Everything with this tag.")
episode_option = click.option(
    "--episode", "episode_id", metavar="ID", help="This episode: its UUID, or with its team the text its caller named it."
)


@click.group(cls=OrderedGroup)
def erase() -> None:
    """Erase what was recorded of somebody, and prove it.

    docs/privacy.md says what is erased and what remains.
    """


@erase.command("start")
@user_option
@tag_option
@episode_option
@click.option("--team", metavar="TEAM", help="Only of this team; without it, of all teams.")
@click.option("--keep-tag", "keep_tags", multiple=True, metavar="NAME", help="A tag that says nothing of a person, and stays; repeatable.")
@click.option("--reference", metavar="TEXT", help="Your own, such as the number of a ticket. It stays: no name.")
@yes_option
@json_option
def start(
    end_user: str | None,
    tag: str | None,
    episode_id: str | None,
    team: str | None,
    keep_tags: tuple[str, ...],
    reference: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Erase what was recorded until now.

    It cannot be undone. The writers carry it out; `narthex erase show` says how far they are.

    \b
    Examples:
      narthex erase start --user ann@example.com --keep-tag tenant
      narthex erase start --tag customer=4711 --team search --reference DSR-118
      narthex erase start --episode 019aa3f4-7492-7b70-8347-9564aeb44a24

    With --json (which needs --yes): the erasure as POST /admin/v1/erasures answers it.
    """
    selector = parse_selector(end_user, tag, episode_id)
    if selector is None:
        raise click.UsageError("Say whose records are to be erased: --user, --tag or --episode.")
    refuse_unconfirmed(yes=yes, as_json=as_json)
    if not yes:
        expected = query_in_transaction(lambda connection: store.count_expected_of(connection, selector, team))
        whose = printable(_described(selector)) + (f" in team {printable(team)}" if team else "")
        click.echo(f"There are about {expected:,} records of {whose}. What was written in them is erased for good.", err=True)
        confirm("Erase?", yes=yes)

    async def give(connection: AsyncConnection) -> Erasure:
        id = await store.give_order(connection, command_author(), NewErasure(selector, team, keep_tags, reference))
        return await _find(connection, id)

    given = query_in_transaction(give)
    if as_json:
        print_json(given)
    else:
        click.echo(f"The erasure {given.id} has begun. `narthex erase show {given.id}` shows how far it is.")


@erase.command("list")
@click.option("--limit", type=click.IntRange(1, MAX_PAGE_ROWS), default=50, show_default=True, help="Most erasures to list.")
@click.option("--after", metavar="CURSOR", help="Those that follow: `next` of --json.")
@json_option
def list_erasures(limit: int, after: str | None, as_json: bool) -> None:
    """List erasures, the newest first.

    \b
    Example:
      narthex erase list

    With --json: {"erasures": [...], "next"}; the fields are those of GET /admin/v1/erasures.
    """
    page: Page[Erasure] = query_in_transaction(lambda connection: store.list_erasures(connection, limit=limit, after=after))
    if as_json:
        print_json({"erasures": page.data, "next": page.next})
    elif not page.data:
        click.echo("Nothing was erased yet.")
    else:
        print_table(("ID", "OF", "TEAM", "REQUESTED", "BY", "STATUS", "RECORDS", "REFERENCE"), [_cells(each) for each in page.data])
        if page.next:
            click.echo(f"There are more: --after {page.next} shows the next ones.", err=True)


@erase.command("show")
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show an erasure: how far it is, and what was erased.

    \b
    Example:
      narthex erase show 019aa3f4-7492-7b70-8347-955764f97b3d

    With --json: the erasure as GET /admin/v1/erasures/{id} answers it.
    """
    found = query_in_transaction(lambda connection: _find(connection, id))
    if as_json:
        print_json(found)
        return
    click.echo(f"of: {printable(_of(found))}{'' if found.team is None else f', team {printable(found.team)}'}")
    click.echo(f"hash: {found.hash}")
    click.echo(f"requested: {format_time(found.requested_at)} by {printable(found.requested_by)}")
    click.echo(f"status: {found.status}" + (f" (step: {found.step})" if found.step else f" since {format_time(found.completed_at)}"))
    for name, count in found.counts.items():
        click.echo(f"{name.replace('_', ' ')}: {count:,}")
    if found.error:
        click.echo(f"last error: {printable(found.error)}; tried again at {found.continues_at}")
    if found.spools_behind:
        click.echo(f"{found.spools_behind} machines have not reported since: their records are erased as they are stored.")


@erase.command("verify")
@click.argument("id")
@user_option
@tag_option
@episode_option
@json_option
def verify(id: str, end_user: str | None, tag: str | None, episode_id: str | None, as_json: bool) -> None:
    """Search every store for what is left of an erasure.

    By its keyed hash, so also after the value itself was forgotten. With --user, --tag or --episode it says whether the erasure is about
    that one. Exit status 1 if anything is left, or if it is about another one.

    \b
    Examples:
      narthex erase verify 019aa3f4-7492-7b70-8347-955764f97b3d
      narthex erase verify 019aa3f4-7492-7b70-8347-955764f97b3d --user ann@example.com

    With --json: {"id", "hash", "status", "left": how many by store, "inferences": ids of the first that are left, "matches", "days": how
    many were searched}.
    """
    selector = parse_selector(end_user, tag, episode_id)
    settings = server_addresses.resolve(Settings.read())
    order = query_in_transaction(lambda connection: _find(connection, id))
    parts = query_store(lambda url: _check(url, settings, order.id, selector))
    left: Counter[str] = Counter()
    for part in parts:
        left.update(part.left)  # with stores of which 0 are left
    inferences = [each for part in parts for each in part.inferences]
    days, matches = sum(part.days for part in parts), parts[0].matches
    if as_json:
        counts = {"left": left, "inferences": inferences, "matches": matches, "days": days}
        print_json({"id": order.id, "hash": order.hash, "status": order.status, **counts})
    else:
        print_table(("STORE", "LEFT"), [(store.replace("_", " "), f"{count:,}") for store, count in left.items()])
        click.echo(f"{days:,} days were searched. The erasure is {order.status}.")
        if inferences:
            click.echo(f"Some of the inferences that are left: {', '.join(inferences[:5])}")
        if matches is not None:
            click.echo("It is about this one." if matches else "It is about another one.")
    if any(left.values()) or matches is False:
        sys.exit(1)


async def _check(url: str, settings: Settings, id: str, selector: Selector | None) -> Sequence[Checked]:
    engine = create_database_engine(url, command_timeout_s=_STATEMENT_TIMEOUT_S)
    parts: list[Checked] = []
    try:
        while not parts or parts[-1].next is not None:
            part = await check_erasure(
                lambda: admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True),
                settings,
                id,
                from_day=parts[-1].next if parts else None,
                selector=selector,
            )
            assert part is not None, "orders are never deleted"
            parts.append(part)
    except CopiesUnavailable as fault:
        raise OperatorError(f"Redis could not be searched: {fault}") from None
    finally:
        await engine.dispose()
    return parts


async def _find(connection: AsyncConnection, id: str) -> Erasure:
    found = await store.find_erasure(connection, id.lower()) if uuid7.is_uuid7(id) else None
    if found is None:
        raise OperatorError(f"There is no erasure {id!r:.60}; `narthex erase list` lists them.")
    return found


def _cells(each: Erasure) -> tuple[str, ...]:
    requested = (format_time(each.requested_at), each.requested_by)
    return (each.id, _of(each), each.team or "", *requested, each.status, f"{each.counts.get('inferences', 0):,}", each.reference or "")


def _of(erasure: Erasure) -> str:
    return {"end_user": "an end user", "tag": f"the tag {erasure.tag}", "episode": "an episode"}[erasure.kind]


def _described(selector: Selector) -> str:
    kind = selector.kind.replace("_", " ") if selector.tag is None else f"tag {selector.tag} with the value"
    return f"the {kind} {selector.value}"
