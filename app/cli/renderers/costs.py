"""Costs beside a provider's invoice, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.cli.output import print_table, printable


def reconciled(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    lines = [each for each in document["data"] if "shows_all" in arguments or _differs(each)]
    if lines:
        titles = ("DAY", "MODEL", "KIND", "TOKENS", "THEIRS", "DIFFERENCE", "USD", "THEIRS", "DIFFERENCE")
        print_table(titles, [_cells(each) for each in lines])
    theirs = "no costs" if document["their_microusd"] is None else f"{_usd(document['their_microusd'])} US dollars"
    ours = f"{_usd(document['our_microusd'])} US dollars of {', '.join(document['providers'])}"
    click.echo(printable(f"{document['first_day']} to {document['last_day']}: recorded {ours}; the invoice has {theirs}."))
    if document["unpriced"]:
        click.echo(f"{document['unpriced']:,} requests have no known cost: `narthex prices list` shows models without a price.")


def differs(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    return any(map(_differs, document["data"]))


def _differs(line: Mapping[str, Any]) -> bool:
    return bool(line["token_difference"] or line["microusd_difference"])


def _cells(line: Mapping[str, Any]) -> tuple[str, ...]:
    tokens = (line[name] for name in ("our_tokens", "their_tokens", "token_difference"))
    amounts = (line[name] for name in ("our_microusd", "their_microusd", "microusd_difference"))
    return (
        *(line["day"], line["model"], line["kind"]),
        *("" if each is None else f"{each:,}" for each in tokens),
        *("" if each is None else _usd(each) for each in amounts),
    )


def _usd(microusd: int) -> str:
    return f"{microusd / 1_000_000:.6f}"
