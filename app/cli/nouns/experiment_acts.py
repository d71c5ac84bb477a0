"""narthex experiments promote, resume and log: what is done to an experiment because of its results."""

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from app.cli.confirmation import confirm, yes_option
from app.cli.nouns.configuration_change import change_and_report, report_change
from app.cli.output import json_option, print_json, printable
from app.cli.store_query import query_in_transaction
from app.domain.errors import UnknownExperiment
from app.results.guard.promoting import MAX_REASON_CHARACTERS, Promoted, PromotionRefused, promote
from app.settings import Settings
from app.store.configuration.experiments.acts import Act, page_acts
from app.store.experiments import edits as experiment_edits
from app.store.experiments.queries import ListQuery, find_experiment
from app.store.postgres.audit_log import command_author
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_MAX_SHOWN = 1000


@click.command("promote")
@click.argument("name")
@click.argument("arm")
@click.option("--force", is_flag=True, help="Also if conditions are not met; needs --reason.")
@click.option("--reason", metavar="TEXT", help="Why it is promoted nevertheless; the log keeps it.")
@yes_option
@json_option
def promote_arm(name: str, arm: str, force: bool, reason: str | None, yes: bool, as_json: bool) -> None:
    """End experiment NAME with ARM as its winner, if it is proven better.

    It is refused, with every condition that is not met and its numbers, unless there are enough complete units and days, the primary metric
    is better at any time, every guardrail is met, and units were split as the weights say. docs/guardrails.md has the conditions.

    \b
    Examples:
      narthex experiments promote size large
      narthex experiments promote size large --force --reason "the control is retired by its provider"

    With --json (which needs --yes): {"name", "version", "message", "warnings"}.
    """
    if force != (reason is not None):
        raise click.UsageError("--force needs --reason, and --reason is for --force.")
    if reason is not None and not 1 <= len(reason) <= MAX_REASON_CHARACTERS:
        raise click.BadParameter(f"1 to {MAX_REASON_CHARACTERS} characters", param_hint="--reason")
    confirm(f"End the experiment {printable(name)} for good, with {printable(arm)} as its winner?", yes=yes, as_json=as_json)
    output_tokens = server_addresses.resolve(Settings.read()).limits_output_tokens

    async def store(connection: AsyncConnection) -> Promoted:
        return await promote(connection, command_author(), name, arm, reason=reason, output_tokens=output_tokens)

    try:
        promoted = query_in_transaction(store)
    except PromotionRefused as refused:
        lines = [f"{arm!r} of {name!r} is not promoted:", *(f"  not met: {each.text}" for each in refused.promotion.unmet)]
        lines += [f"  met:     {each.text}" for each in refused.promotion.conditions if each.met]
        raise OperatorError("\n".join(lines)) from None
    except UnknownExperiment as unknown:
        raise OperatorError(str(unknown)) from None
    report_change(name, promoted.changed, as_json=as_json)


@click.command("resume")
@click.argument("name")
@click.argument("arm")
@click.option("--weight", type=float, metavar="W", help="Its weight from now on; needed if it is 0.")
@json_option
def resume_arm(name: str, arm: str, weight: float | None, as_json: bool) -> None:
    """Put a stopped ARM of experiment NAME back.

    New episodes get it again, and so do running ones that the control served meanwhile. If a guardrail had stopped it, it is judged by what
    comes from now on.

    \b
    Example:
      narthex experiments resume size large --weight 0.5

    With --json: {"name", "version", "message", "warnings"}.
    """
    change_and_report(name, experiment_edits.resume_arm(name, arm, weight), as_json=as_json)


@click.command("log")
@click.argument("name")
@json_option
def show_log(name: str, as_json: bool) -> None:
    """Show what guardrails, adaptive rules and promotions did to experiment NAME.

    The newest first, with the reason; --json has the evidence, too: the numbers that decided, and the sums that they come from.

    \b
    Example:
      narthex experiments log size

    With --json: {"acts": [{"id", "at", "kind", "arm", "author", "reason", "evidence", "before", "after", "version"}]}.
    """

    async def read(connection: AsyncConnection) -> list[Act] | None:
        found = await find_experiment(connection, name)
        if found is None:
            return None
        return list((await page_acts(connection, found.id, ListQuery(limit=_MAX_SHOWN, after=None, sort="-id"))).data)

    acts = query_in_transaction(read)
    if acts is None:
        raise OperatorError(f"There is no experiment {name!r}; `narthex experiments list` lists them.")
    if as_json:
        print_json({"acts": acts})
    elif not acts:
        click.echo("Nothing was done to it by its results yet.")
    for act in [] if as_json else acts:
        click.echo(f"{act.at[:19].replace('T', ' ')}  {act.kind}  {printable(act.author)}\n  {printable(act.reason)}")
