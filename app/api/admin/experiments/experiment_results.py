"""/admin/v1/experiments/{name}/results and /admin/v1/experiment-power: what experiments say, and how long they take."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from app.api.admin.experiments.experiment_lookup import require_experiment
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.process.thread_steps import run_in_steps
from app.results.experiments.metric_facts import metric_names
from app.results.experiments.power import PowerAnswer, PowerQuestion, answer_power
from app.results.experiments.read import read_results
from app.results.experiments.results import ExperimentResults
from app.results.experiments.series import ResultSeries, read_series
from app.store.experiments.queries import ExperimentRow
from providers.canonical.errors import InvalidRequest

Text = Annotated[str, Meta(min_length=1, max_length=256)]


class ResultsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    metric: Annotated[Text, Meta(description="Only this one of its metrics; left out: all of them.")] | None = None
    arm: Annotated[Text, Meta(description="Only comparisons of this arm; left out: of all.")] | None = None
    slice: (
        Annotated[
            Text, Meta(description="One of its `slices`: results of `metric`, else of the primary one, by the values of this tag, too.")
        ]
        | None
    ) = None


class SeriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    metric: Annotated[Text, Meta(description="One of its metrics; left out: the primary one.")] | None = None
    arm: Annotated[Text, Meta(description="An arm beside the control; left out: the first.")] | None = None


class PowerQuery(Struct, frozen=True, forbid_unknown_fields=True):
    effect: Annotated[float, Meta(description="The smallest difference worth finding, in the metric's own unit.")]
    rate: Annotated[float, Meta(gt=0, lt=1, description="Of a metric that is 0 or 1: its share now, such as 0.02.")] | None = None
    deviation: Annotated[float, Meta(gt=0, le=1e12, description="Of any other metric: the standard deviation of units.")] | None = None
    share: Annotated[float, Meta(ge=0.001, le=0.999, description="Of the arm, among units of it and the control.")] = 0.5
    alpha: Annotated[float, Meta(ge=0.0001, le=0.2, description="As in `analysis`.")] = 0.05
    power: Annotated[float, Meta(ge=0.5, le=0.99, description="The probability to find the difference.")] = 0.8
    arms: Annotated[int, Meta(ge=1, le=100, description="Beside the control.")] = 1
    metrics: Annotated[int, Meta(ge=1, le=20, description="How many the experiment has.")] = 1
    units_per_day: Annotated[float, Meta(gt=0, description="New units of arm and control that take part.")] | None = None


async def _find_started(call: Call[ResultsQuery, NoBody] | Call[SeriesQuery, NoBody]) -> ExperimentRow:
    """The experiment of the path, which has the metric and arm of the query. Raises UnknownRecord, InvalidRequest."""
    query, found = call.query, await require_experiment(call.connection, call.path["name"])
    if found.started_at is None:
        raise InvalidRequest(f"The experiment {found.name!r:.200} is a draft: it has no results before it starts.", param="name")
    metrics = metric_names(found)
    if query.metric is not None and query.metric not in metrics:
        raise InvalidRequest(f"{query.metric!r:.100} is none of its metrics: {', '.join(metrics)}.", param="metric")
    others = _others(found)
    if query.arm is not None and query.arm not in others:
        raise InvalidRequest(f"{query.arm!r:.100} is none of its arms beside the control: {', '.join(others)}.", param="arm")
    return found


def _others(experiment: ExperimentRow) -> list[str]:
    return [arm for arm in experiment.arms if arm != experiment.control]


async def _show_series(call: Call[SeriesQuery, NoBody]) -> Answer:
    found = await _find_started(call)
    arm = call.query.arm or next(iter(_others(found)), None)
    if arm is None:
        raise InvalidRequest(f"The experiment {found.name!r:.200} has no arm beside the control.", param="arm")
    return Answer(await read_series(call.connection, found, call.query.metric or metric_names(found)[0], arm))


async def _show_results(call: Call[ResultsQuery, NoBody]) -> Answer:
    query = call.query
    found = await _find_started(call)
    slices = found.analysis.slices
    if query.slice is not None and query.slice not in slices:
        known = f"It has: {', '.join(slices)}." if slices else "Its start declared none (`analysis.slices`)."
        raise InvalidRequest(f"{query.slice!r:.100} is none of its slices. {known}", param="slice")
    only = None if query.metric is None else [query.metric]
    return Answer(await read_results(call.connection, found, only, query.slice, arm=query.arm))


async def _show_power(call: Call[PowerQuery, NoBody]) -> Answer:
    question = PowerQuestion(**asdict(call.query))
    try:
        return Answer(await run_in_steps(lambda: answer_power(question)))
    except ValueError as error:
        raise InvalidRequest(str(error), param="effect") from None


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/experiments/{name}/results",
            id="get_experiment_results",
            tag="Experiments",
            summary="Read the results of an experiment, at any time",
            description="Of the newest experiment of a name, or by the id of any. From sums that are kept as units become complete.",
            permission="records:read",
            query=ResultsQuery,
            response=ExperimentResults,
            errors={404: "There is no such experiment."},
            commands=(
                Command(
                    name="experiments results",
                    summary="Read the results of experiment NAME, at any time.",
                    help="NAME is that of the newest experiment, or the id of any. Intervals hold however often they are looked at;"
                    " docs/results.md explains them.",
                    examples=("experiments results size", "experiments results size --metric latency --slice tenant"),
                    options={
                        "metric": Option(help="Only this one of its metrics."),
                        "slice": Option(metavar="TAG", help="Also by the values of this tag: of --metric, else of the primary metric."),
                    },
                    render="results.shown",
                ),
            ),
            handler=_show_results,
        ),
        Operation(
            method="GET",
            path="/experiments/{name}/results/series",
            id="get_experiment_series",
            tag="Experiments",
            summary="Read what the result of a metric was at the end of each day",
            description="By the code of the results, from units as they are known now: corrected feedback counts as corrected on all days.",
            permission="records:read",
            query=SeriesQuery,
            response=ResultSeries,
            errors={404: "There is no such experiment."},
            commands=(Command(name="experiments series"),),
            handler=_show_series,
        ),
        Operation(
            method="GET",
            path="/experiment-power",
            id="get_experiment_power",
            tag="Experiments",
            summary="How many units an experiment needs, and how long it takes",
            permission="records:read",
            access="memory",
            query=PowerQuery,
            response=PowerAnswer,
            commands=(
                Command(
                    name="experiments power",
                    summary="Compute how many units an experiment needs, and how long that takes.",
                    help="Needs no gateway.",
                    needs_database=False,
                    examples=(
                        "experiments power --effect 0.01 --rate 0.05 --per-day 2000",
                        "experiments power --effect 0.1 --deviation 0.8 --share 0.1 --metrics 8",
                    ),
                    options={"units_per_day": Option(flag="--per-day", help="New units of both arms a day that take part.")},
                    render="results.power",
                ),
            ),
            handler=_show_power,
        ),
    ]
