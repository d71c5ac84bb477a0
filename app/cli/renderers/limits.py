"""Budgets, limits without matches, and overrides of limits, as people read them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from app.api.rest.command import Column
from app.cli.operations.show import print_columns
from app.cli.output import printable
from app.cli.times import format_time
from app.process.plain_numbers import plain_number

_DEFAULT = timedelta(days=30)  # of GET /admin/v1/unmatched-limits
_OVERRIDES = (
    Column("id", "OVERRIDE"),
    Column("limit"),
    Column("subject", "FOR", "pairs"),
    Column("amount"),
    Column("until"),
    Column("author", "BY"),
    Column("reason"),
)
_UNMATCHED = (
    Column("name", "LIMIT"),
    Column("scope", form="pairs"),
    Column("resource"),
    Column("created_at", "CREATED", "time"),
    Column("last_matched_at", "LAST MATCHED", "time"),
)
_USAGE = (
    *(Column("amount_usd", "AMOUNT"), Column("spent_usd", "SPENT"), Column("reserved_usd", "RESERVED"), Column("remaining_usd", "LEFT")),
    *(Column("percent", "%"), Column("forecast_usd", "FORECAST")),
)
_BUDGETS = (Column("name", "BUDGET"), Column("scope", form="pairs"), Column("per"), Column("subject", "SPENT MOST", "pairs"), *_USAGE)


def budgets(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("No budget matches." if arguments else "There are no budgets yet; `narthex budgets set -h` shows how to make one.")
        return
    rows = [
        {**each, **_amounts(each["usage"] or {}), "name": f"{each['name']} (report only)" if each["dry_run"] else each["name"]}
        for each in document["data"]
    ]
    print_columns(_BUDGETS, rows)
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def subjects(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if document["data"]:
        print_columns((Column("subject", "WHO", "pairs"), *_USAGE), [_amounts(each) for each in document["data"]])
    else:
        click.echo("Nobody has spent of it in this period.")


def overrides(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("There are no overrides.")
        return
    print_columns(_OVERRIDES, [{**each, "amount": plain_number(each["amount"]), "until": _until(each)} for each in document["data"]])
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def created_override(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(printable(f"{_amount(document)} (override {document['id']})."))


def changed_override(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(printable(f"{_amount(document)}."))


def unmatched(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if document["data"]:
        print_columns(_UNMATCHED, document["data"])
    else:
        click.echo("Requests have matched every limit.")
    since, known = arguments.get("since", datetime.now(UTC) - _DEFAULT), datetime.fromisoformat(document["known_since"])
    if known > since:
        click.echo(f"What was before {format_time(document['known_since'])} UTC is not known.", err=True)


def _amounts(usage: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage of a budget with its amounts in dollars as text, and the subject of a budget for everything."""
    amounts = {name: None if value is None else f"{value:.6f}" for name, value in usage.items() if name.endswith("_usd")}
    return {**usage, **amounts, "percent": f"{usage['percent']:g}", "subject": usage["subject"] or {"all": "each"}} if usage else {}


def _amount(override: Mapping[str, Any]) -> str:
    return f"{override['limit']}: {plain_number(override['amount'])} until {format_time(override['ends_at'])} UTC"


def _until(override: Mapping[str, Any]) -> str:
    return format_time(override["ended_at"] or override["ends_at"]) + ("" if override["in_force"] else " (ended)")
