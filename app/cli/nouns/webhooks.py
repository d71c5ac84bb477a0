"""narthex webhooks: who is notified of budgets that reach a threshold."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec
from msgspec import UNSET, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.confirmation import confirm, yes_option
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_in_transaction
from app.cli.times import format_time
from app.domain.errors import InvalidKeyField
from app.settings import Settings
from app.store.postgres.audit_log import command_author
from app.store.postgres.vault import Vault
from app.store.webhooks import webhook_events as events
from app.store.webhooks import webhooks as store
from app.store.webhooks.webhook_events import Delivery
from app.store.webhooks.webhooks import DEFAULT_THRESHOLDS, Webhook, WebhookChanges, WebhookExists
from app.supervisor.machine import secret_key
from app.supervisor.machine.errors import OperatorError
from providers.credentials import CredentialError

T = TypeVar("T")

_threshold_option = click.option(
    "--threshold",
    "thresholds",
    type=click.IntRange(1, store.MAX_THRESHOLD_PERCENT),
    multiple=True,
    help="Percent of a budget's amount. Can be repeated.",
)
_budget_option = click.option("--budget", "budgets", metavar="NAME", multiple=True, help="Only of this budget. Can be repeated.")


@click.group(cls=OrderedGroup)
def webhooks() -> None:
    """Have addresses notified of budgets that reach a threshold.

    Notices are signed as Standard Webhooks says, and sent by the writers until they are taken, for about a day. docs/budgets.md has their
    content, and how to check a signature.
    """


@webhooks.command("list")
@json_option
def list_webhooks(as_json: bool) -> None:
    """List webhooks, without their secrets.

    \b
    Example:
      narthex webhooks list

    With --json: {"webhooks": [{"name", "id", "url", "thresholds", "budgets", "enabled", "created_at", "updated_at"}]}.
    """
    rows = _run(lambda connection: store.page_webhooks(connection, _Page(store.MAX_WEBHOOKS, sort="name"))).data
    if as_json:
        print_json({"webhooks": rows})
    elif not rows:
        click.echo("There are no webhooks; `narthex webhooks create -h` shows how to make one.")
    else:
        cells = [(row.name, row.url, _percent(row.thresholds), _budget_names(row), "yes" if row.enabled else "no") for row in rows]
        print_table(("WEBHOOK", "URL", "THRESHOLDS", "BUDGETS", "ENABLED"), cells)


@webhooks.command("create")
@click.argument("name")
@click.argument("url")
@_threshold_option
@_budget_option
@click.option("--secret-stdin", is_flag=True, help="Read the secret (whsec_...) from standard input; without this one is made.")
@json_option
def create(name: str, url: str, thresholds: Sequence[int], budgets: Sequence[str], secret_stdin: bool, as_json: bool) -> None:
    """Create webhook NAME: URL is notified. Prints the secret that signs, once.

    URL is https, and its host has a public address, unless NARTHEX_WEBHOOK_NETWORKS allows others. Without --threshold: 50, 80 and 100 %.

    \b
    Examples:
      narthex webhooks create finance https://finance.example.com/hooks/narthex
      narthex webhooks create pager https://pager.example.com/hook --threshold 100 --budget company

    With --json: the webhook, with "secret", or null if it was given.
    """
    settings, vault = _open_vault()
    given = sys.stdin.read().strip() if secret_stdin else None
    secret = store.new_secret() if given is None else given
    created = _run(
        lambda connection: store.create_webhook(
            connection,
            vault,
            command_author(),
            name,
            url,
            secret,
            thresholds=thresholds or DEFAULT_THRESHOLDS,
            budgets=budgets or None,
            settings=settings,
        )
    )
    if as_json:
        print_json({**msgspec.structs.asdict(created), "secret": secret if given is None else None})
        return
    click.echo(f"{printable(created.name)} is notified at {_percent(created.thresholds)}.")
    if given is None:
        click.echo(f"Its secret, which is not shown again: {secret}")


@webhooks.command("set")
@click.argument("name")
@click.option("--url", help="The new address.")
@_threshold_option
@_budget_option
@click.option("--all-budgets", is_flag=True, help="Of all budgets.")
@click.option("--enable/--disable", "enabled", default=None, help="Whether anything is sent.")
@click.option("--secret-stdin", is_flag=True, help="Read a new secret (whsec_...) from standard input.")
@json_option
def set_webhook(
    name: str,
    url: str | None,
    thresholds: Sequence[int],
    budgets: Sequence[str],
    all_budgets: bool,
    enabled: bool | None,
    secret_stdin: bool,
    as_json: bool,
) -> None:
    """Change webhook NAME; what is not given stays.

    \b
    Examples:
      narthex webhooks set finance --threshold 80 --threshold 100
      narthex webhooks set finance --disable

    With --json: the webhook.
    """
    settings, vault = _open_vault()
    changes = WebhookChanges(
        UNSET if url is None else url,
        sys.stdin.read().strip() if secret_stdin else UNSET,
        thresholds or UNSET,
        None if all_budgets else budgets or UNSET,
        UNSET if enabled is None else enabled,
    )
    if changes == WebhookChanges():
        raise click.UsageError("Nothing to change.")

    async def change(connection: AsyncConnection) -> Webhook:
        before = _found(await store.find_webhook(connection, name, lock=True), name)
        return await store.change_webhook(connection, vault, command_author(), before, changes, settings=settings)

    _print(_run(change), f"{name} is changed.", as_json)


@webhooks.command("remove")
@click.argument("name")
@yes_option
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove webhook NAME, with its deliveries.

    \b
    Example:
      narthex webhooks remove finance

    With --json (which needs --yes): {"name"}.
    """
    confirm(f"Remove the webhook {name!r}?", yes=yes, as_json=as_json)

    async def delete(connection: AsyncConnection) -> None:
        await store.delete_webhook(connection, command_author(), _found(await store.find_webhook(connection, name, lock=True), name))

    _run(delete)
    _print({"name": name}, f"{name} is removed.", as_json)


@webhooks.command("test")
@click.argument("name")
@json_option
def test(name: str, as_json: bool) -> None:
    """Send a test event to webhook NAME.

    A writer sends it within moments; `narthex webhooks deliveries NAME` shows what came of it.

    \b
    Example:
      narthex webhooks test finance

    With --json: the delivery.
    """

    async def add(connection: AsyncConnection) -> Delivery:
        webhook = _found(await store.find_webhook(connection, name), name)
        if not webhook.enabled:
            raise OperatorError(f"{name} is not enabled, so nothing is sent to it.")
        id = await events.add_event(connection, "webhook.test", {"webhook": name}, [webhook.id], None)
        assert id is not None, "only what must not be repeated can be known already"
        return await events.find_delivery_of(connection, webhook.id, id)

    _print(_run(add), f"Sent soon: `narthex webhooks deliveries {name}` shows what came of it.", as_json)


@webhooks.command("deliveries")
@click.argument("name")
@click.option("--status", type=click.Choice(["pending", "delivered", "failed"]), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most deliveries.")
@json_option
def deliveries(name: str, status: events.Status | None, limit: int, as_json: bool) -> None:
    """List what was sent to webhook NAME, the newest first.

    \b
    Example:
      narthex webhooks deliveries finance --status failed

    With --json: {"deliveries": [{"id", "event_id", "type", "status", "attempts", "created_at", "next_attempt_at", "attempted_at",
    "response_status", "error"}]}.
    """

    async def read(connection: AsyncConnection) -> Sequence[Delivery]:
        webhook = _found(await store.find_webhook(connection, name), name)
        return (await events.page_deliveries(connection, _Page(limit), webhook.id, status)).data

    rows = _run(read)
    if as_json:
        print_json({"deliveries": rows})
    elif not rows:
        click.echo("Nothing was sent to it.")
    else:
        titles = ("DELIVERY", "CREATED", "TYPE", "STATUS", "ATTEMPTS", "ANSWER", "NEXT", "ERROR")
        print_table(titles, [_cells(row) for row in rows])


@webhooks.command("redeliver")
@click.argument("name")
@click.argument("id")
@json_option
def redeliver(name: str, id: str, as_json: bool) -> None:
    """Send delivery ID of webhook NAME again, with all its attempts anew.

    \b
    Example:
      narthex webhooks redeliver finance 019ab3c4-5d6e-7f80-9123-456789abcdef

    With --json: the delivery.
    """

    async def again(connection: AsyncConnection) -> Delivery:
        webhook = _found(await store.find_webhook(connection, name), name)
        await events.redeliver(connection, webhook.id, id)
        found = await events.find_delivery(connection, webhook.id, id)
        if found is None:
            raise OperatorError(f"There is no delivery {id!r} of {name}; it may have expired.")
        return found

    _print(_run(again), "It is sent again.", as_json)


class _Page(Struct, frozen=True):
    limit: int
    after: str | None = None
    sort: str = "-created_at"


def _run(query: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    try:
        return query_in_transaction(query)
    except (InvalidKeyField, WebhookExists, CredentialError) as fault:
        raise OperatorError(str(fault)) from None


def _open_vault() -> tuple[Settings, Vault]:
    settings = secret_key.resolve(Settings.read())
    return settings, secret_key.open_vault(settings)


def _found(webhook: Webhook | None, name: str) -> Webhook:
    if webhook is None:
        raise OperatorError(f"There is no webhook {name!r}; `narthex webhooks list` lists them.")
    return webhook


def _print(document: Any, message: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        click.echo(printable(message))


def _percent(thresholds: Sequence[int]) -> str:
    return ", ".join(f"{each} %" for each in thresholds)


def _budget_names(webhook: Webhook) -> str:
    return "all" if webhook.budgets is None else ", ".join(webhook.budgets)


def _cells(row: Delivery) -> tuple[str, ...]:
    answer = "" if row.response_status is None else str(row.response_status)
    times = format_time(row.created_at), format_time(row.next_attempt_at)
    return (row.id, times[0], row.type, row.status, str(row.attempts), answer, times[1], row.error or "")
