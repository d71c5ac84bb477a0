"""Results of experiments and shadows, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.cli.output import pluralize, print_table, printable

_UNITS = {"latency": "s", "time_to_first_token": "s", "cost": "USD"}


def shadow_results(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["comparisons"]:
        click.echo("There are no pairs in this time: --since and --until choose another one.")
    for comparison in document["comparisons"]:
        _print_comparison(comparison)


def _print_comparison(comparison: Mapping[str, Any]) -> None:
    pairs, first = comparison["pairs"], comparison["first_turns"]
    first_turns = "all of first turns" if first == pairs else f"{first:,} of first turns"
    click.echo(
        f"\n{printable(comparison['shadow'])} instead of {printable(comparison['original'])}: {pairs:,} requests"
        f" in {pluralize(comparison['episodes'], 'episode')}, {first_turns}."
    )
    print_table(("METRIC", "EPISODES", "DIFFERENCE", "FROM", "TO", "VERDICT"), [_cells(each) for each in comparison["differences"]])
    if (same := comparison["same"]) is not None:
        click.echo(f"Same response: {same['share']:.1%} of {same['episodes']:,} first turns ({same['low']:.1%} to {same['high']:.1%}).")


def _cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    unit = _UNITS.get(each["metric"])
    label = each["metric"] if unit is None else f"{each['metric']} ({unit})"
    numbers = ("" if each[name] is None else f"{each[name]:+.4g}" for name in ("difference", "low", "high"))
    return label, f"{each['episodes']:,}", *numbers, each["verdict"] if each["reason"] is None else f"{each['verdict']}: {each['reason']}"
