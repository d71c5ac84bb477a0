"""Experiments, what was done to them, and shadows, as people read them."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from app.cli.output import pluralize, print_table, printable

_UNITS = {"latency": "s", "time_to_first_token": "s", "cost": "USD"}


def shown(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    owner = f"{document['section']}.{printable(document['owner'])}"
    click.echo(f"{printable(document['name'])}: {document['status']}, of {owner}, by {document['unit']}")
    click.echo(f"control {printable(document['control'])}" + (f", winner {printable(document['winner'])}" if document["winner"] else ""))
    if found := document["versions"]["data"]:
        _print_versions(found)


def shown_shape(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"experiment": changed_shape(document, arguments), "versions": document["versions"]["data"]}


def versions(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("It has no version before it starts.")
        return
    _print_versions(document["data"])
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def changed(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    name, versions = repr(document["name"]), document["versions"]["data"]
    if document["status"] == "ended":
        serving = document["winner"] or document["control"]
        click.echo(printable(f"The experiment {name} has ended: {serving} serves."))
    for newest in versions if document["status"] == "running" else ():
        takes_effect = f"{newest['effective_at'][:19].replace('T', ' ')} UTC"
        click.echo(printable(f"Version {newest['number']} of the experiment {name} takes effect at {takes_effect}."))


def changed_shape(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in document.items() if name != "versions"}


def log(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    for act in document["data"]:
        click.echo(f"{act['at'][:19].replace('T', ' ')}  {act['kind']}  {printable(act['author'])}\n  {printable(act['reason'])}")
    if not document["data"]:
        click.echo("Nothing was done to it by its results yet.")
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def _print_versions(found: Sequence[Mapping[str, Any]]) -> None:
    cells = [
        (
            str(each["number"]),
            "superseded" if each["superseded"] else each["effective_at"][:19].replace("T", " "),
            f"{each['enrolment']:.0%}",
            ", ".join(f"{printable(arm)} {weight:g}" for arm, weight in sorted(each["arms"].items())),
            printable(each["author"]),
        )
        for each in found
    ]
    print_table(("VERSION", "IN FORCE FROM (UTC)", "ENROLMENT", "WEIGHTS", "BY"), cells)


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
