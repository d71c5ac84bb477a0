"""narthex costs: what was charged, for finance: exports, and comparisons with providers' invoices."""

import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import IO

import click

from app.billing.cost import format_usd
from app.billing.cost_lines import walk_cost_lines
from app.billing.focus import write_focus
from app.billing.invoice_cells import InvoiceError
from app.billing.invoices import FORMATS, InvoiceFormat
from app.billing.reconcile import ReconciledLine, Reconciliation, parse_invoice, parse_model_map, reconcile
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam
from app.store.configuration import configuration
from app.store.postgres.database import create_database_engine
from app.supervisor.machine.errors import OperatorError

_TIMEOUT_S = 300.0  # of one day


@click.group(cls=OrderedGroup)
def costs() -> None:
    """Export costs for finance, and compare them with what providers ask.

    docs/cost.md has the rules by which costs are computed.
    """


@costs.command("focus")
@click.option("--since", required=True, type=PastMomentParam(), metavar="DAY", help="The first day, in UTC: 2026-11-01.")
@click.option("--until", type=PastMomentParam(), metavar="DAY", help="The day after the last; without it, today is included.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="A file, in place of the terminal.")
def export_focus(since: datetime, until: datetime | None, output: Path | None) -> None:
    """Print costs as CSV in the form of FOCUS, the FinOps Open Cost and Usage Specification.

    A row for each UTC day, key, model and kind of token, with its price; the sums are those of the records. Requests whose cost is
    unknown have no row.

    \b
    Examples:
      narthex costs focus --since 2026-11-01 --until 2026-12-01 > november.csv
      narthex costs focus --since 2026-11-01 -o november.csv
    """
    first, last = parse_days(since, until)

    async def export(database_url: str) -> None:
        database = create_database_engine(database_url, command_timeout_s=_TIMEOUT_S)
        try:
            async with database.connect() as connection:
                await _write(write_focus(walk_cost_lines(connection, first, last)), output)
        finally:
            await database.dispose()

    query_store(export)


@costs.command("reconcile")
@click.argument("file", type=click.File("rb"))
@click.option("--format", "format", required=True, type=click.Choice(FORMATS), help="Whose export the file is.")
@click.option("--provider", metavar="NAME", help="Compare with this provider only; without it, with all of this kind.")
@click.option("--map", "models", multiple=True, metavar="NAME=MODEL", help="A model's name in the file, and in requests; repeatable.")
@click.option("--all", "show_all", is_flag=True, help="Also lines without a difference.")
@json_option
def reconcile_invoice(
    file: IO[bytes], format: InvoiceFormat, provider: str | None, models: tuple[str, ...], show_all: bool, as_json: bool
) -> None:
    """Compare recorded costs with a provider's invoice: FILE is its export as CSV, - for standard input.

    By UTC day, model and kind of token: ours, theirs and the difference. It reads OpenAI's costs and usage, Anthropic's cost and usage
    reports, Bedrock's lines of a Cost and Usage Report, and OpenRouter's activity; docs/cost.md has their columns. Exit status 1 if
    anything differs.

    \b
    Examples:
      narthex costs reconcile costs.csv --format openai
      narthex costs reconcile cur.csv --format bedrock --map Claude4.5Sonnet=anthropic.claude-sonnet-4-5-20250929-v1:0

    With --json: {"format", "providers", "first_day", "last_day", "our_microusd", "their_microusd", "unpriced", "data": [{"day", "model",
    "kind", "our_tokens", "their_tokens", "token_difference", "our_microusd", "their_microusd", "microusd_difference"}]}.
    """
    try:
        invoice = parse_invoice(file.read(), format, parse_model_map(",".join(models)))
    except InvoiceError as fault:
        raise OperatorError(str(fault)) from None

    async def compare(database_url: str) -> Reconciliation:
        database = create_database_engine(database_url, command_timeout_s=_TIMEOUT_S)
        try:
            snapshot = await configuration.read_current(database_url)
            if provider is not None and provider not in snapshot.providers:
                raise OperatorError(f"There is no provider {provider!r}. There are: {', '.join(snapshot.providers) or 'none yet'}.")
            async with database.connect() as connection:
                return await reconcile(connection, snapshot, invoice, format, provider)
        except InvoiceError as fault:
            raise OperatorError(str(fault)) from None
        finally:
            await database.dispose()

    done = query_store(compare)
    differing = [line for line in done.data if line.token_difference or line.microusd_difference]
    if as_json:
        print_json(done)
    else:
        _print_reconciliation(done, done.data if show_all else differing)
    if differing:
        sys.exit(1)


def _print_reconciliation(done: Reconciliation, lines: Sequence[ReconciledLine]) -> None:
    if lines:
        head = ("DAY", "MODEL", "KIND", "TOKENS", "THEIRS", "DIFFERENCE", "USD", "THEIRS", "DIFFERENCE")
        print_table(head, [_cells(line) for line in lines])
    theirs = "no costs" if done.their_microusd is None else f"{_usd(done.their_microusd)} US dollars"
    click.echo(
        f"{done.first_day} to {done.last_day}: recorded {_usd(done.our_microusd)} US dollars of {', '.join(done.providers)};"
        f" the invoice has {theirs}."
    )
    if done.unpriced:
        click.echo(f"{done.unpriced:,} requests have no known cost: `narthex prices list` shows models without a price.")


def _cells(line: ReconciledLine) -> tuple[str, ...]:
    tokens = (line.our_tokens, line.their_tokens, line.token_difference)
    amounts = (line.our_microusd, line.their_microusd, line.microusd_difference)
    return (
        *(line.day, printable(line.model), line.kind),
        *("" if each is None else f"{each:,}" for each in tokens),
        *("" if each is None else _usd(each) for each in amounts),
    )


def _usd(microusd: int) -> str:
    return f"{'-' if microusd < 0 else ''}{format_usd(abs(microusd)).decode()}"


def parse_days(since: datetime, until: datetime | None) -> tuple[date, date]:
    """The first and the last day of a period."""
    end = datetime.now(UTC) if until is None else until
    for option, moment in (("--since", since), ("--until", until)):
        if moment is not None and moment.astimezone(UTC).time() != time():
            raise click.BadParameter("it must be a day, such as 2026-11-01", param_hint=option)
    first, last = since.astimezone(UTC).date(), (end.astimezone(UTC) - timedelta(microseconds=1)).date()
    if last < first:
        raise click.BadParameter("it must be before --until", param_hint="--since")
    return first, last


async def _write(pieces: AsyncIterator[bytes], output: Path | None) -> None:
    """A file is complete or not there."""
    if output is None:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    unfinished = output.with_name(output.name + ".part")
    with unfinished.open("wb") as file:
        async for piece in pieces:
            file.write(piece)
    unfinished.replace(output)
