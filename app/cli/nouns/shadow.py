"""narthex shadow: how another variant or model would have answered, by the shadows of a function or model."""

from datetime import UTC, datetime, timedelta

import click

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, pluralize, print_json, print_table, printable
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam
from app.results.shadow_results import ShadowComparison, ShadowDifference, ShadowResults, read_shadow_results
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.database import create_database_engine
from app.store.replays.shadow_pairs import has_pairs
from app.supervisor.machine.errors import OperatorError

_TIMEOUT_S = 60.0
_DEFAULT_DAYS = 30
_UNITS = {"latency": "s", "time_to_first_token": "s", "cost": "USD"}


@click.group(cls=OrderedGroup)
def shadow() -> None:
    """Compare shadows with what they repeat.

    A shadow answers a share of requests again by another variant or model, which no caller sees. It is declared in the configuration
    ([models.NAME.shadow], [functions.NAME.shadow]); docs/shadow.md is a guide.
    """


@shadow.command("results")
@click.argument("name")
@click.option("--since", type=PastMomentParam(), help=f"From then on: 7d (ago), 2026-11-01 or a time.  [default: {_DEFAULT_DAYS}d]")
@click.option("--until", type=PastMomentParam(), help="Until before then.")
@json_option
def show_results(name: str, since: datetime | None, until: datetime | None, as_json: bool) -> None:
    """Compare the shadow of the function or model NAME.

    \b
    Example:
      narthex shadow results fast --since 7d

    With --json: {"name", "since", "until", "alpha", "comparisons": [{"original", "shadow", "pairs", "episodes", "first_turns",
    "differences": [{"metric", "episodes", "difference", "low", "high", "verdict", "reason"}], "same"}], "warnings"}.
    """
    end = until or datetime.now(UTC)
    begin = since or end - timedelta(days=_DEFAULT_DAYS)
    if begin >= end:
        raise click.UsageError("--since must be before --until.")

    async def read(url: str) -> ShadowResults | None:
        engine = create_database_engine(url)
        try:
            async with admin_transaction(engine, _TIMEOUT_S, read_only=True) as connection:
                results = await read_shadow_results(connection, name, begin, end)
                return results if results.comparisons or await has_pairs(connection, name) else None
        finally:
            await engine.dispose()

    results = query_store(read)
    if results is None:
        raise OperatorError(f"No shadow of {name!r} is recorded: docs/shadow.md says what is answered again.")
    if as_json:
        print_json(results)
        return
    if not results.comparisons:
        click.echo("There are no pairs in this time: --since and --until choose another one.")
    for comparison in results.comparisons:
        _print_comparison(comparison)
    for warning in results.warnings:
        click.echo(f"\nNote: {warning}")


def _print_comparison(comparison: ShadowComparison) -> None:
    first_turns = "all of first turns" if comparison.first_turns == comparison.pairs else f"{comparison.first_turns:,} of first turns"
    click.echo(
        f"\n{printable(comparison.shadow)} instead of {printable(comparison.original)}: {comparison.pairs:,} requests"
        f" in {pluralize(comparison.episodes, 'episode')}, {first_turns}."
    )
    print_table(("METRIC", "EPISODES", "DIFFERENCE", "FROM", "TO", "VERDICT"), [_cells(each) for each in comparison.differences])
    if comparison.same is not None:
        same = comparison.same
        click.echo(f"Same response: {same.share:.1%} of {same.episodes:,} first turns ({same.low:.1%} to {same.high:.1%}).")


def _cells(each: ShadowDifference) -> tuple[str, ...]:
    unit = _UNITS.get(each.metric)
    label = each.metric if unit is None else f"{each.metric} ({unit})"
    numbers = ("" if value is None else f"{value:+.4g}" for value in (each.difference, each.low, each.high))
    return label, f"{each.episodes:,}", *numbers, each.verdict if each.reason is None else f"{each.verdict}: {each.reason}"
