"""narthex experiments: which arm serves whom, and how that changes while they run."""

from typing import Any

import click

from app.cli.confirmation import confirm, yes_option
from app.cli.errors import OrderedGroup
from app.cli.nouns.configuration_change import change_and_report
from app.cli.nouns.experiment_acts import promote_arm, resume_arm, show_log
from app.cli.nouns.experiment_results import show_power, show_results
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_store
from app.store.experiments import edits as experiment_edits
from app.store.experiments.queries import (
    ExperimentRow,
    ExperimentVersionRow,
    ListQuery,
    find_experiment,
    newest_versions,
    page_experiments,
    page_versions,
)
from app.store.postgres.database import transaction
from app.supervisor.machine.errors import OperatorError

_MAX_SHOWN = 1000


class _Share(click.ParamType[float]):
    """A share, from 0 to 1, also written as a percentage."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number, percent, rest = str(value).partition("%")
        try:
            share = float(number) / (100 if percent else 1)
        except ValueError:
            share = -1.0
        if rest or not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share from 0 to 1, such as 0.5 or 50%.", param, ctx)
        return share


@click.group(cls=OrderedGroup)
def experiments() -> None:
    """List, start, change and stop experiments.

    An experiment of a function splits its requests between variants, one of a model between models or its own targets. It is declared in
    the configuration ([models.NAME.experiment]); docs/experiments.md is a guide.
    """


@experiments.command("list")
@json_option
def list_experiments(as_json: bool) -> None:
    """List experiments, the newest first.

    \b
    Example:
      narthex experiments list

    With --json: {"experiments": [{"id", "name", "section", "owner", "status", "salt", "arms", "unit", "control", "eligible", "holdout",
    "layer", "slots", "created_at", "started_at", "ended_at", "winner"}]}.
    """

    async def read(url: str) -> tuple[list[ExperimentRow], dict[str, ExperimentVersionRow]]:
        async with transaction(url) as connection:
            page = await page_experiments(connection, ListQuery(limit=_MAX_SHOWN, after=None, sort="-created_at"))
            return list(page.data), await newest_versions(connection, [each.id for each in page.data if each.status == "running"])

    found, in_force = query_store(read)
    if as_json:
        print_json({"experiments": found})
    elif not found:
        click.echo("There are no experiments yet; docs/experiments.md shows how to make one.")
    else:
        cells = [
            (
                printable(each.name),
                f"{each.section}.{printable(each.owner)}",
                each.status,
                each.unit,
                _version_cell(in_force.get(each.id)),
                ", ".join(each.arms),
            )
            for each in found
        ]
        print_table(("EXPERIMENT", "OF", "STATUS", "UNIT", "VERSION", "ARMS"), cells)


@experiments.command("show")
@click.argument("name")
@json_option
def show_experiment(name: str, as_json: bool) -> None:
    """Show experiment NAME, with the versions of its weights.

    \b
    Example:
      narthex experiments show size

    With --json: {"experiment": as of list, "versions": [{"number", "arms", "enrolment", "effective_at", "created_at", "author",
    "superseded"}]}.
    """

    async def read(url: str) -> tuple[ExperimentRow | None, list[ExperimentVersionRow]]:
        async with transaction(url) as connection:
            found = await find_experiment(connection, name)
            if found is None:
                return None, []
            return found, list((await page_versions(connection, found.id, ListQuery(limit=_MAX_SHOWN, after=None, sort="-number"))).data)

    found, versions = query_store(read)
    if found is None:
        raise OperatorError(f"There is no experiment {name!r}; `narthex experiments list` lists them.")
    if as_json:
        print_json({"experiment": found, "versions": versions})
        return
    click.echo(f"{printable(found.name)}: {found.status}, of {found.section}.{printable(found.owner)}, by {found.unit}")
    click.echo(f"control {printable(found.control)}" + (f", winner {printable(found.winner)}" if found.winner else ""))
    cells = [
        (
            str(each.number),
            "superseded" if each.superseded else each.effective_at[:19].replace("T", " "),
            f"{each.enrolment:.0%}",
            ", ".join(f"{printable(arm)} {weight:g}" for arm, weight in sorted(each.arms.items())),
            printable(each.author),
        )
        for each in versions
    ]
    if cells:
        print_table(("VERSION", "IN FORCE FROM (UTC)", "ENROLMENT", "WEIGHTS", "BY"), cells)


experiments.add_command(show_results)
experiments.add_command(show_power)


@experiments.command("start")
@click.argument("name")
@json_option
def start_experiment(name: str, as_json: bool) -> None:
    """Start experiment NAME, which freezes its arms.

    Also its unit, its control, its salt and who is eligible. It assigns episodes that begin twelve seconds later.

    \b
    Example:
      narthex experiments start size

    With --json: {"name", "version", "message", "warnings"}.
    """
    change_and_report(name, experiment_edits.start(name), as_json=as_json)


@experiments.command("stop")
@click.argument("name")
@click.argument("arm", required=False)
@click.option("--now", is_flag=True, help="Serve the control to what is in the arm, too.")
@click.option("--winner", metavar="ARM", help="End the experiment, and serve this arm to everybody; without it the control serves.")
@yes_option
@json_option
def stop_experiment(name: str, arm: str | None, now: bool, winner: str | None, yes: bool, as_json: bool) -> None:
    """End experiment NAME, or stop one ARM of it.

    A stopped arm gets no new episodes; those that are in it stay, unless --now is given: then the control serves them, while the record
    keeps the arm that they were assigned to. The control cannot be stopped.

    \b
    Examples:
      narthex experiments stop size large
      narthex experiments stop size large --now
      narthex experiments stop size --winner small --yes

    With --json (which needs --yes): {"name", "version", "message", "warnings"}.
    """
    if arm is None and now:
        raise click.UsageError("--now is for one arm: name it.")
    if arm is not None and winner is not None:
        raise click.UsageError("Give an arm to stop, or --winner to end the experiment, not both.")
    if arm is None:
        serving = "its control" if winner is None else printable(winner)
        question = f"End the experiment {printable(name)} for good, and serve {serving} to everybody?"
    else:
        question = f"Stop the arm {printable(arm)} of {printable(name)}" + (", also for what is in it?" if now else "?")
    confirm(question, yes=yes, as_json=as_json)
    edit = experiment_edits.end(name, winner) if arm is None else experiment_edits.stop_arm(name, arm, now=now)
    change_and_report(name, edit, as_json=as_json)


@experiments.command("weights")
@click.argument("name")
@click.argument("weights", metavar="ARM=WEIGHT...", nargs=-1, required=True)
@json_option
def set_weights(name: str, weights: tuple[str, ...], as_json: bool) -> None:
    """Set weights of arms of experiment NAME.

    They are absolute: the others stay as they are, and episodes that have begun keep their arm.

    \b
    Example:
      narthex experiments weights size large=0.2

    With --json: {"name", "version", "message", "warnings"}.
    """
    parsed: dict[str, float] = {}
    for each in weights:
        arm, separator, value = each.rpartition("=")
        try:
            parsed[arm] = float(value)
        except ValueError:
            separator = ""
        if not (arm and separator):
            raise click.BadParameter(f"{each!r} is not ARM=WEIGHT, such as large=0.2", param_hint="ARM=WEIGHT")
    change_and_report(name, experiment_edits.set_weights(name, parsed), as_json=as_json)


@experiments.command("enrol")
@click.argument("name")
@click.argument("share", type=_Share())
@json_option
def set_enrolment(name: str, share: float, as_json: bool) -> None:
    """Set the SHARE of units that take part in experiment NAME.

    From 0 to 1, or 0% to 100%; the rest of a ramp is dropped. Raising it moves no unit from one arm to another.

    \b
    Example:
      narthex experiments enrol size 50%

    With --json: {"name", "version", "message", "warnings"}.
    """
    change_and_report(name, experiment_edits.set_enrolment(name, share), as_json=as_json)


for _command in (resume_arm, promote_arm, show_log):
    experiments.add_command(_command)


def _version_cell(version: ExperimentVersionRow | None) -> str:
    return "" if version is None else f"{version.number} ({version.enrolment:.0%})"
