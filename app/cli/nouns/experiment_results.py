"""narthex experiments results and power: what experiments say, and how long they take."""

from collections.abc import Mapping, Sequence

import click

from app.cli.output import json_option, print_json, print_table, printable
from app.results.experiments.metric_facts import metric_names
from app.results.experiments.power import PowerQuestion, answer_power
from app.results.experiments.read import read_results
from app.results.experiments.results import ArmComparison, ArmValue, ExperimentResults, MetricResult, Range
from app.settings import Settings
from app.store.experiments.queries import find_experiment
from app.store.postgres.database import transaction
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_SCALES: Mapping[str, tuple[float, str]] = {"share of units": (100, " %"), "seconds": (1, " s"), "US dollars": (1, " $")}


@click.command("results")
@click.argument("name")
@click.option("--metric", help="Only this one of its metrics.")
@click.option("--slice", "slice", metavar="TAG", help="Also by the values of this tag: of --metric, else of the primary metric.")
@json_option
def show_results(name: str, metric: str | None, slice: str | None, as_json: bool) -> None:
    """Read the results of experiment NAME, at any time.

    NAME is that of the newest experiment, or the id of any. Intervals hold however often they are looked at; docs/results.md explains them.

    \b
    Examples:
      narthex experiments results size
      narthex experiments results size --metric latency --slice tenant

    With --json: as GET /admin/v1/experiments/NAME/results.
    """

    async def read(url: str) -> ExperimentResults:
        async with transaction(url) as connection:
            found = await find_experiment(connection, name)
            if found is None:
                raise OperatorError(f"There is no experiment {name!r}; `narthex experiments list` lists them.")
            if found.started_at is None:
                raise OperatorError(f"The experiment {name!r} is a draft: it has no results before it starts.")
            metrics, slices = metric_names(found), found.analysis.slices
            if metric is not None and metric not in metrics:
                raise OperatorError(f"{metric!r} is none of its metrics: {', '.join(metrics)}.")
            if slice is not None and slice not in slices:
                known = f"It has: {', '.join(slices)}." if slices else "Its start declared none (`analysis.slices`)."
                raise OperatorError(f"{slice!r} is none of its slices. {known}")
            return await read_results(connection, found, None if metric is None else [metric], slice)

    results: ExperimentResults = query_database(server_addresses.resolve(Settings.read()).database_url, read)
    if as_json:
        print_json(results)
        return
    _print_results(results)


@click.command("power")
@click.option("--effect", type=float, required=True, help="The smallest difference worth finding, in the metric's own unit.")
@click.option("--rate", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Of a metric that is 0 or 1: its share now.")
@click.option("--deviation", type=click.FloatRange(0, min_open=True), help="Of any other metric: the standard deviation of units.")
@click.option("--share", type=click.FloatRange(0.001, 0.999), default=0.5, help="Of the arm, among units of it and the control (0.5).")
@click.option("--per-day", type=click.FloatRange(0, min_open=True), help="New units of both arms a day that take part.")
@click.option("--arms", type=click.IntRange(1, 100), default=1, help="Arms beside the control (1).")
@click.option("--metrics", type=click.IntRange(1, 20), default=1, help="How many metrics it has (1).")
@click.option("--alpha", type=click.FloatRange(0.0001, 0.2), default=0.05, help="The chance of a false statement (0.05).")
@click.option("--power", type=click.FloatRange(0.5, 0.99), default=0.8, help="The probability to find the difference (0.8).")
@json_option
def show_power(
    effect: float,
    rate: float | None,
    deviation: float | None,
    share: float,
    per_day: float | None,
    arms: int,
    metrics: int,
    alpha: float,
    power: float,
    as_json: bool,
) -> None:
    """Compute how many units an experiment needs.

    And how long that takes. Needs no gateway.

    \b
    Examples:
      narthex experiments power --effect 0.01 --rate 0.05 --per-day 2000
      narthex experiments power --effect 0.1 --deviation 0.8 --share 0.1 --metrics 8

    With --json: {"units", "fixed_units", "days", "alpha", "planned_units", "chances": [{"units", "days", "chance"}]}.
    """
    question = PowerQuestion(
        effect=effect,
        rate=rate,
        deviation=deviation,
        share=share,
        alpha=alpha,
        power=power,
        arms=arms,
        metrics=metrics,
        units_per_day=per_day,
    )
    try:
        answer = answer_power(question)
    except ValueError as error:
        raise OperatorError(str(error)) from None
    if as_json:
        print_json(answer)
        return
    days = "" if answer.days is None else f", {answer.days} days in full weeks"
    click.echo(f"{answer.units} units of the control and the arm together{days}. Set planned_units = {answer.planned_units}.")
    click.echo(f"A test that may be looked at only once, at the end, would need {answer.fixed_units}.")
    cells = [(str(each.units), "" if each.days is None else f"{each.days:.1f}", f"{each.chance:.0%}") for each in answer.chances]
    print_table(("UNITS", "DAYS", "FOUND BY THEN"), cells)


def _print_results(results: ExperimentResults) -> None:
    ended = "" if results.ended_at is None else f", ended {results.ended_at[:10]}"
    click.echo(f"{printable(results.name)}: {results.status}, by {results.unit}, since {(results.started_at or '')[:10]}{ended}")
    for warning in results.warnings:
        click.echo(f"Warning: {printable(warning)}")
    click.echo(printable(results.conclusion))
    click.echo()
    cells = [
        (
            printable(each.arm) + (" (control)" if each.arm == results.control else ""),
            f"{each.share:.1%}",
            str(each.units),
            str(each.open),
            str(each.complete),
            str(each.excluded),
            "" if each.inferences_per_episode is None else f"{each.inferences_per_episode:.2f}",
            "" if each.served_by_other_share is None else f"{each.served_by_other_share:.1%}",
        )
        for each in results.arms
    ]
    headers = ("ARM", "WEIGHT", "UNITS", "OPEN", "COMPLETE", "EXCLUDED", "INFERENCES PER EPISODE", "SERVED BY OTHERS")
    print_table(headers, cells)
    click.echo(f"Split of units: p = {results.sample_ratio.p:.2g}. {results.units_per_day:.0f} new units a day.")
    for metric in results.metrics:
        click.echo()
        _print_metric(metric, results.control)


def _print_metric(metric: MetricResult, control: str) -> None:
    cap = "" if metric.cap is None else f", capped at {metric.cap:g}"
    role = "primary, " if metric.primary else ""
    click.echo(f"{printable(metric.metric)} ({role}{metric.unit}{cap}; intervals {1 - metric.alpha:.2%})")
    _print_values(metric, control, metric.arms, metric.comparisons)
    for each in () if metric.primary else metric.comparisons:  # the primary one's is in the conclusion
        if each.reason is not None:
            click.echo(f"{printable(each.arm)}, {each.verdict}: {printable(each.reason)}.")
    for part in metric.parts:
        name = "episode ids" if part.kind == "episode_kind" else printable(part.name)
        click.echo(f"  {name} = {printable(part.value) or '(none)'}")
        _print_values(metric, control, part.arms, part.comparisons)


def _print_values(metric: MetricResult, control: str, arms: Sequence[ArmValue], comparisons: Sequence[ArmComparison]) -> None:
    by_arm = {each.arm: each for each in comparisons}
    cells: list[tuple[str, ...]] = []
    for each in arms:
        compared = by_arm.get(each.arm)
        cells.append(
            (
                printable(each.arm),
                str(each.units),
                _number(metric, each.value),
                _interval(metric, each.interval),
                "" if compared is None else _number(metric, compared.difference, signed=True),
                "" if compared is None else _interval(metric, compared.interval, signed=True),
                "" if compared is None or compared.lift is None else f"{compared.lift:+.1%}",
                "" if compared is None else f"{compared.p:.2g}",
                "control" if each.arm == control else "" if compared is None else compared.verdict,
            )
        )
    print_table(("ARM", "UNITS", "VALUE", "INTERVAL", "DIFFERENCE", "INTERVAL", "LIFT", "P", ""), cells)


def _number(metric: MetricResult, value: float | None, *, signed: bool = False) -> str:
    factor, suffix = _SCALES.get(metric.unit, (1, ""))
    return "" if value is None else f"{value * factor:{'+' if signed else ''}.4g}{suffix}"


def _interval(metric: MetricResult, interval: Range | None, *, signed: bool = False) -> str:
    if interval is None:
        return ""
    return " to ".join(_number(metric, end, signed=signed) or "?" for end in (interval.low, interval.high))
