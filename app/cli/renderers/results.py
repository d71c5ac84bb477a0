"""Results of experiments, and how many units they take, as people read them."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from app.cli.output import print_table, printable

_SCALES: Mapping[str, tuple[float, str]] = {"share of units": (100, " %"), "seconds": (1, " s"), "US dollars": (1, " $")}


def shown(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    ended = "" if document["ended_at"] is None else f", ended {document['ended_at'][:10]}"
    click.echo(
        f"{printable(document['name'])}: {document['status']}, by {document['unit']}, since {(document['started_at'] or '')[:10]}{ended}"
    )
    click.echo(printable(document["conclusion"]))
    click.echo()
    cells = [
        (
            printable(each["arm"]) + (" (control)" if each["arm"] == document["control"] else ""),
            f"{each['share']:.1%}",
            str(each["units"]),
            str(each["open"]),
            str(each["complete"]),
            str(each["excluded"]),
            "" if each["inferences_per_episode"] is None else f"{each['inferences_per_episode']:.2f}",
            "" if each["served_by_other_share"] is None else f"{each['served_by_other_share']:.1%}",
        )
        for each in document["arms"]
    ]
    headers = ("ARM", "WEIGHT", "UNITS", "OPEN", "COMPLETE", "EXCLUDED", "INFERENCES PER EPISODE", "SERVED BY OTHERS")
    print_table(headers, cells)
    click.echo(f"Split of units: p = {document['sample_ratio']['p']:.2g}. {document['units_per_day']:.0f} new units a day.")
    for metric in document["metrics"]:
        click.echo()
        _print_metric(metric, document["control"])


def power(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    days = "" if document["days"] is None else f", {document['days']} days in full weeks"
    click.echo(f"{document['units']} units of the control and the arm together{days}. Set planned_units = {document['planned_units']}.")
    click.echo(f"A test that may be looked at only once, at the end, would need {document['fixed_units']}.")
    cells = [
        (str(each["units"]), "" if each["days"] is None else f"{each['days']:.1f}", f"{each['chance']:.0%}") for each in document["chances"]
    ]
    print_table(("UNITS", "DAYS", "FOUND BY THEN"), cells)


def _print_metric(metric: Mapping[str, Any], control: str) -> None:
    cap = "" if metric["cap"] is None else f", capped at {metric['cap']:g}"
    role = "primary, " if metric["primary"] else ""
    click.echo(f"{printable(metric['metric'])} ({role}{metric['unit']}{cap}; intervals {1 - metric['alpha']:.2%})")
    _print_values(metric, control, metric["arms"], metric["comparisons"])
    for each in () if metric["primary"] else metric["comparisons"]:  # the primary one's is in the conclusion
        if each["reason"] is not None:
            click.echo(f"{printable(each['arm'])}, {each['verdict']}: {printable(each['reason'])}.")
    for part in metric["parts"]:
        name = "episode ids" if part["kind"] == "episode_kind" else printable(part["name"])
        click.echo(f"  {name} = {printable(part['value']) or '(none)'}")
        _print_values(metric, control, part["arms"], part["comparisons"])


def _print_values(
    metric: Mapping[str, Any], control: str, arms: Sequence[Mapping[str, Any]], comparisons: Sequence[Mapping[str, Any]]
) -> None:
    by_arm = {each["arm"]: each for each in comparisons}
    cells: list[tuple[str, ...]] = []
    for each in arms:
        compared = by_arm.get(each["arm"])
        cells.append(
            (
                printable(each["arm"]),
                str(each["units"]),
                _number(metric, each["value"]),
                _interval(metric, each["interval"]),
                "" if compared is None else _number(metric, compared["difference"], signed=True),
                "" if compared is None else _interval(metric, compared["interval"], signed=True),
                "" if compared is None or compared["lift"] is None else f"{compared['lift']:+.1%}",
                "" if compared is None else f"{compared['p']:.2g}",
                "control" if each["arm"] == control else "" if compared is None else compared["verdict"],
            )
        )
    print_table(("ARM", "UNITS", "VALUE", "INTERVAL", "DIFFERENCE", "INTERVAL", "LIFT", "P", ""), cells)


def _number(metric: Mapping[str, Any], value: float | None, *, signed: bool = False) -> str:
    factor, suffix = _SCALES.get(metric["unit"], (1, ""))
    return "" if value is None else f"{value * factor:{'+' if signed else ''}.4g}{suffix}"


def _interval(metric: Mapping[str, Any], interval: Mapping[str, float | None] | None, *, signed: bool = False) -> str:
    if interval is None:
        return ""
    return " to ".join(_number(metric, end, signed=signed) or "?" for end in (interval["low"], interval["high"]))
