"""narthex metrics: list the metrics of feedback, and show what one has got."""

import click
from msgspec.structs import asdict

from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_in_transaction, query_store
from app.domain.experiments import BUILT_IN_METRICS, MetricConfig
from app.store.configuration import configuration
from app.store.configuration.config_file import parse_config_file
from app.store.records.feedback_sums import MetricSum, sum_metric
from app.supervisor.machine.errors import OperatorError

_DEFAULT_DAYS = 30


@click.group(cls=OrderedGroup)
def metrics() -> None:
    """List the metrics that callers may send feedback for.

    They are set by `narthex apply`. docs/feedback.md is a guide.
    """


@metrics.command("list")
@json_option
def list_metrics(as_json: bool) -> None:
    """List metrics, with those that every gateway has.

    \b
    Example:
      narthex metrics list

    With --json: {"metrics": [{"name", "kind", "level", "optimize", "description", "built_in"}]}.
    """
    configured = _read_metrics()
    if as_json:
        print_json({"metrics": [{"name": name, **asdict(each), "built_in": name in BUILT_IN_METRICS} for name, each in configured.items()]})
    else:
        rows = [(name, each.kind, each.level, each.optimize or "", each.description or "") for name, each in configured.items()]
        print_table(("METRIC", "KIND", "LEVEL", "OPTIMIZE", "DESCRIPTION"), rows)


@metrics.command("show")
@click.argument("name")
@click.option("--days", type=click.IntRange(1, 400), default=_DEFAULT_DAYS, show_default=True, help="Of feedback of so many days.")
@json_option
def show_metric(name: str, days: int, as_json: bool) -> None:
    """Show the metric NAME, with its feedback by model, function and variant.

    Only what counts: nothing that was corrected, withdrawn or replaced. Feedback whose inference or episode is not recorded has no model.
    Requests that do not count in their experiment (pinned, held out, ...) are lines of their own, with the reason.

    \b
    Example:
      narthex metrics show helpful --days 7

    With --json: {"name", "kind", "level", "optimize", "description", "built_in", "days", "feedback": [{"model", "function", "variant",
    "not_enrolled", "count", "mean", "minimum", "maximum"}]}.
    """
    configured = _read_metrics()
    metric = configured.get(name)
    sums = query_in_transaction(lambda connection: sum_metric(connection, name, days))
    if metric is None and not sums:
        raise OperatorError(f"There is no metric {name!r}. There are: {', '.join(configured)}.")
    if as_json:
        fields = {} if metric is None else asdict(metric)
        print_json({"name": name, **fields, "built_in": name in BUILT_IN_METRICS, "days": days, "feedback": sums})
        return
    click.echo(f"{printable(name)} {_describe(metric)}.")
    if not sums:
        click.echo(f"No feedback of the last {days} days counts.")
    else:
        print_table(("MODEL", "FUNCTION", "VARIANT", "NOT ENROLLED", "FEEDBACK", "MEAN", "MIN", "MAX"), [_cells(each) for each in sums])


def _read_metrics() -> dict[str, MetricConfig]:
    return {**(parse_config_file(query_store(configuration.export)).metrics or {}), **BUILT_IN_METRICS}


def _describe(metric: MetricConfig | None) -> str:
    if metric is None:
        return "is no longer configured"
    optimized = {"max": ", and more of it is better", "min": ", and less of it is better", None: ""}[metric.optimize]
    return f"is a {metric.kind} of an {metric.level}{optimized}"


def _cells(found: MetricSum) -> list[str]:
    numbers = ["" if each is None else f"{each:.6g}" for each in (found.mean, found.minimum, found.maximum)]
    return [found.model or "(not found)", found.function or "", found.variant or "", found.not_enrolled or "", f"{found.count:,}", *numbers]
