"""narthex datasets: recorded requests and demonstrations as examples to train with."""

import asyncio
import math
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import IO, Any, get_args

import click
import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.rest.request_parsing import convert_admin_body
from app.cli.confirmation import confirm, yes_option
from app.cli.errors import CommandError, OrderedGroup
from app.cli.finite_range import FiniteRange
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_in_transaction, query_store
from app.cli.times import PastMomentParam, format_time
from app.datasets.export import ExportFormat, export_rows
from app.datasets.reasons import DESCRIPTIONS
from app.domain.exchange import Outcome
from app.settings import Settings
from app.store.datasets import datasets as store
from app.store.datasets import versions
from app.store.datasets.counts import LINE_FORMATS
from app.store.datasets.datasets import Dataset, DatasetExists
from app.store.datasets.rows import Split
from app.store.datasets.selection import DEFAULT_ROWS, MAX_ROWS, Chosen, FeedbackCondition, Selection
from app.store.datasets.versions import DatasetVersion, FoundVersion, NotPossible
from app.store.formats.parquet_lines import MISSING, can_write
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import command_author
from app.store.postgres.database import create_database_engine
from app.store.postgres.paging import Page
from app.supervisor.machine.errors import OperatorError
from providers.canonical.errors import InvalidRequest

_STATEMENT_TIMEOUT_S = 30.0
_MAX_SHOWN = 1000
_POLL_S = 0.5
_MAX_SEED = 2**31 - 1
_NUMBER = click.IntRange(1, 2**31 - 1)

_FILTERS = (
    click.option("--since", type=PastMomentParam(), help="Received from then on: 7d (ago), 2026-11-01 or a time."),
    click.option("--until", type=PastMomentParam(), help="Received before then; without it, until now."),
    click.option("--of-team", "of_team", metavar="TEAM", help="Of this team."),
    click.option("--model", help="Of requests for this model."),
    click.option("--function", help="Of requests for this function."),
    click.option("--variant", help="Assigned to this variant or arm."),
    click.option("--experiment", help="Assigned by this experiment."),
    click.option("--provider", help="Served by this provider."),
    click.option("--served-model", metavar="MODEL", help="Served by this model of a provider."),
    click.option("--route", help="Of this API, such as openai_chat."),
    click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="With this tag. Can be repeated: with all of them."),
    click.option("--outcome", type=click.Choice([*get_args(Outcome), "any"]), default="answered", show_default=True, help="How it ended."),
    click.option(
        "--feedback",
        "conditions",
        metavar="CONDITION",
        multiple=True,
        help="helpful=true, score>=0.8, score<=0.2, or comment: there is one. Can be repeated: all must hold.",
    ),
    click.option("--output", type=click.Choice(get_args(Chosen)), default="response", show_default=True, help="What is to be learned."),
    click.option("--sample", type=FiniteRange(0, 1, min_open=True), metavar="SHARE", help="Take this share, by a hash of the id."),
    click.option("--seed", type=click.IntRange(0, _MAX_SEED), default=0, show_default=True, help="Of the sample."),
    click.option(
        "--max-rows", type=click.IntRange(1, MAX_ROWS), default=DEFAULT_ROWS, show_default=True, help="Most rows, the newest first."
    ),
    click.option("--validation", type=FiniteRange(0, 1, max_open=True), default=0.0, help="Share of episodes for the split `validation`."),
    click.option("--wait/--no-wait", "is_wait", default=True, help="Wait until it is built (the default)."),
)


def _selection_options(command: Any) -> Any:
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group(cls=OrderedGroup)
def datasets() -> None:
    """Select recorded requests into datasets, and export them for training.

    A dataset has versions, each made by a selection and never changed; the writers build them. docs/datasets.md is a guide.
    """


@datasets.command("create")
@click.argument("name")
@click.option("--team", metavar="TEAM", help="Only of this team's inferences; its roles see it then.")
@click.option("--description", metavar="TEXT", help="For people.")
@_selection_options
@json_option
def create(name: str, team: str | None, description: str | None, is_wait: bool, as_json: bool, **options: Any) -> None:
    """Create dataset NAME with version 1.

    \b
    Examples:
      narthex datasets create helpful --function answer --since 30d --feedback helpful=true
      narthex datasets create corrected --output demonstration --outcome any --validation 0.1
      narthex datasets create sample --model gpt-5 --sample 0.01 --seed 7 --max-rows 5000

    With --json: the version, as GET /admin/v1/datasets/{name}/versions/{number} answers it.
    """
    selection = _selection(**options)

    async def make(connection: AsyncConnection) -> DatasetVersion:
        try:
            created = await store.create_dataset(connection, command_author(), name, team=team, description=description)
        except DatasetExists as fault:
            raise OperatorError(f"{fault} `narthex datasets select` adds a version to it.") from None
        return await _add_version(connection, created, selection)

    _print_made(_run(make), is_wait=is_wait, as_json=as_json)


@datasets.command("select")
@click.argument("name")
@_selection_options
@json_option
def select(name: str, is_wait: bool, as_json: bool, **options: Any) -> None:
    """Add a version to dataset NAME.

    \b
    Example:
      narthex datasets select helpful --function answer --since 7d --feedback helpful=true

    With --json: the version, as GET /admin/v1/datasets/{name}/versions/{number} answers it.
    """
    selection = _selection(**options)

    async def make(connection: AsyncConnection) -> DatasetVersion:
        return await _add_version(connection, await _find(connection, name, lock=True), selection)

    _print_made(_run(make), is_wait=is_wait, as_json=as_json)


@datasets.command("list")
@json_option
def list_datasets(as_json: bool) -> None:
    """List datasets.

    \b
    Example:
      narthex datasets list

    With --json: {"datasets": [{"name", "id", "description", "team", "versions", "created_at", "created_by"}]}.
    """

    async def read(connection: AsyncConnection) -> Page[Dataset]:
        return await store.page_datasets(connection, _Query(_MAX_SHOWN), None)

    rows = _run(read).data
    if as_json:
        print_json({"datasets": rows})
    elif not rows:
        click.echo("There are no datasets; `narthex datasets create -h` shows how to make one.")
    else:
        cells = [
            (each.name, each.team or "", str(each.versions), format_time(each.created_at), each.created_by, each.description or "")
            for each in rows
        ]
        print_table(("DATASET", "TEAM", "VERSIONS", "CREATED", "BY", "DESCRIPTION"), cells)


@datasets.command("versions")
@click.argument("name")
@json_option
def list_versions(name: str, as_json: bool) -> None:
    """List the versions of dataset NAME, the newest first.

    \b
    Example:
      narthex datasets versions helpful

    With --json: {"versions": [...]}, as GET /admin/v1/datasets/{name}/versions answers them.
    """

    async def read(connection: AsyncConnection) -> Page[DatasetVersion]:
        return await versions.list_versions(connection, await _find(connection, name), limit=_MAX_SHOWN, after=None)

    rows = _run(read).data
    if as_json:
        print_json({"versions": rows})
        return
    cells = [
        (
            *(str(each.number), each.status, f"{each.rows:,}", f"{each.erased:,}", f"{sum(each.counts.skipped.values()):,}"),
            *(format_time(each.created_at), each.created_by),
        )
        for each in rows
    ]
    print_table(("VERSION", "STATUS", "ROWS", "ERASED", "SKIPPED", "CREATED", "BY"), cells)


@datasets.command("show")
@click.argument("name")
@click.option("--version", "number", type=_NUMBER, help="Without it, the newest one.")
@json_option
def show(name: str, number: int | None, as_json: bool) -> None:
    """Show a version of dataset NAME: its selection, and what became of it.

    \b
    Examples:
      narthex datasets show helpful
      narthex datasets show helpful --version 2

    With --json: the version, as GET /admin/v1/datasets/{name}/versions/{number} answers it.
    """

    async def read(connection: AsyncConnection) -> FoundVersion:
        dataset = await _find(connection, name)
        return await _find_version(connection, dataset, number or dataset.versions)

    version = _run(read).shown
    if as_json:
        print_json(version)
    else:
        _print_version(version)


@datasets.command("export")
@click.argument("name")
@click.option("--version", "number", type=_NUMBER, help="Without it, the newest that is complete.")
@click.option(
    "--format",
    "format",
    type=click.Choice([*LINE_FORMATS, "parquet"]),
    default="chat",
    show_default=True,
    help="OpenAI's for supervised fine-tuning of chats, preference (DPO), prompts with completions; or Parquet.",
)
@click.option("--split", type=click.Choice(get_args(Split)), help="Only this split.")
@click.option("--file", "path", type=click.Path(dir_okay=False, writable=True), metavar="FILE", help="Write there, not to the output.")
def export(name: str, number: int | None, format: ExportFormat, split: Split | None, path: str | None) -> None:
    """Write a version of dataset NAME as a file to train with.

    What the format cannot say is left out, and counted on the error output; `narthex datasets show` has the reasons. Parquet has every
    row, and takes the extra narthex[parquet]. The export is in the audit log.

    \b
    Examples:
      narthex datasets export helpful > helpful.jsonl
      narthex datasets export corrected --split train --file train.jsonl
      narthex datasets export corrected --format preference --file pairs.jsonl
      narthex datasets export helpful --version 2 --format parquet --file helpful.parquet
    """
    if format == "parquet":
        if not can_write():
            raise CommandError(MISSING)
        if path is None and sys.stdout.isatty():
            raise click.UsageError("Parquet is no text for a terminal: give --file.")

    async def find(connection: AsyncConnection) -> FoundVersion:
        dataset = await _find(connection, name)
        wanted = number or await versions.newest_complete(connection, dataset)
        if wanted is None:
            raise OperatorError(f"No version of {name!r:.100} is complete; `narthex datasets versions` lists them.")
        version = await _find_version(connection, dataset, wanted)
        if version.shown.status != "complete":
            raise OperatorError(f"Version {wanted} is {version.shown.status}: only what is complete can be exported.")
        await store.record_export(connection, command_author(), dataset, wanted, format, split)
        return version

    version = _run(find)
    if path is None:
        query_store(lambda url: _write(url, version, format, split, sys.stdout.buffer))
        sys.stdout.flush()
    else:
        with click.open_file(path, "wb") as file:
            query_store(lambda url: _write(url, version, format, split, file))
    left_out = 0 if format == "parquet" else sum(version.shown.counts.left_out.get(format, {}).values())
    if left_out:
        click.echo(f"{left_out:,} rows cannot be said in this format: `narthex datasets show {printable(name)}` says why.", err=True)


@datasets.command("cancel")
@click.argument("name")
@click.argument("number", type=_NUMBER)
@yes_option
def cancel(name: str, number: int, yes: bool) -> None:
    """Cancel version NUMBER of dataset NAME, which is being built.

    \b
    Example:
      narthex datasets cancel helpful 2
    """
    confirm(f"Cancel version {number} of {printable(name)}? What was built of it is deleted.", yes=yes)

    async def end(connection: AsyncConnection) -> None:
        dataset = await _find(connection, name, lock=True)
        version = await _find_version(connection, dataset, number, lock=True)
        await versions.end_version(connection, command_author(), dataset, version, "cancelled")

    _run(end)
    click.echo(f"Version {number} is cancelled.")


@datasets.command("delete")
@click.argument("name")
@click.option("--version", "number", type=_NUMBER, help="Only the rows of this version; its number stays.")
@yes_option
def delete(name: str, number: int | None, yes: bool) -> None:
    """Delete dataset NAME with all its versions, or one version.

    \b
    Examples:
      narthex datasets delete helpful --version 1
      narthex datasets delete helpful --yes
    """
    what = f"the dataset {printable(name)}" if number is None else f"version {number} of {printable(name)}"
    confirm(f"Delete {what} for good?", yes=yes)

    async def end(connection: AsyncConnection) -> None:
        dataset = await _find(connection, name, lock=True)
        if number is None:
            await store.delete_dataset(connection, command_author(), dataset)
            return
        version = await _find_version(connection, dataset, number, lock=True)
        await versions.end_version(connection, command_author(), dataset, version, "deleted")

    _run(end)
    click.echo(f"Deleted {what}; the writers delete its rows.")


class _Query:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.after = None
        self.sort = "name"


def _selection(
    *,
    since: datetime | None,
    until: datetime | None,
    of_team: str | None,
    tags: Sequence[str],
    conditions: Sequence[str],
    outcome: str,
    **same: Any,
) -> Selection:
    named = [each.partition("=") for each in tags]
    if wrong := [tag for tag, (name, _, value) in zip(tags, named, strict=True) if not (name and value)]:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE", param_hint="--tag")
    selection = Selection(
        since=None if since is None else since.isoformat(),
        until=None if until is None else until.isoformat(),
        team=of_team,
        tags={name: value for name, _, value in named},
        feedback=tuple(_condition(each) for each in conditions),
        outcome=None if outcome == "any" else outcome,  # pyright: ignore[reportArgumentType]
        **same,
    )
    try:
        return convert_admin_body(msgspec.to_builtins(selection), Selection)  # by the rules of the admin API
    except InvalidRequest as fault:
        raise click.UsageError(fault.message) from None


def _condition(text: str) -> FeedbackCondition:
    try:
        for operator in (">=", "<="):
            metric, found, value = text.partition(operator)
            if found:
                bound = float(value)
                if not math.isfinite(bound):
                    raise ValueError(value)
                lowest, highest = (bound, None) if operator == ">=" else (None, bound)
                return FeedbackCondition(metric=metric.strip(), min=lowest, max=highest)
        metric, found, value = text.partition("=")
        if not found:
            return FeedbackCondition(metric=metric.strip())
        return FeedbackCondition(metric=metric.strip(), value={"true": True, "false": False}[value.strip()])
    except (ValueError, KeyError):
        raise click.BadParameter(
            f"{text!r} is no condition: helpful=true, score>=0.8, score<=0.2, or comment", param_hint="--feedback"
        ) from None


async def _add_version(connection: AsyncConnection, dataset: Dataset, selection: Selection) -> DatasetVersion:
    hours = Settings.read().keep_hours_days
    return await versions.create_version(connection, command_author(), dataset, selection, keep_hours_days=hours)


async def _find(connection: AsyncConnection, name: str, *, lock: bool = False) -> Dataset:
    found = await store.find_dataset(connection, name, lock=lock)
    if found is None:
        raise OperatorError(f"There is no dataset {name!r:.200}; `narthex datasets list` lists them.")
    return found


async def _find_version(connection: AsyncConnection, dataset: Dataset, number: int, *, lock: bool = False) -> FoundVersion:
    found = await versions.find_version(connection, dataset, number, lock=lock)
    if found is None:
        raise OperatorError(f"The dataset {dataset.name!r:.200} has no version {number}; the newest is {dataset.versions}.")
    return found


def _run(query: Any) -> Any:
    try:
        return query_in_transaction(query)
    except NotPossible as fault:
        raise OperatorError(str(fault)) from None


def _print_made(version: DatasetVersion, *, is_wait: bool, as_json: bool) -> None:
    if is_wait:
        version = query_store(lambda url: _wait(url, version))
    if as_json:
        print_json(version)
    elif not is_wait:
        click.echo(f"Version {version.number} is being built; `narthex datasets show {printable(version.dataset)}` shows how far it is.")
    else:
        _print_version(version)
    if version.status == "failed":
        sys.exit(1)


async def _wait(url: str, version: DatasetVersion) -> DatasetVersion:
    """Waits until the version is built. If the command is interrupted, the writers go on."""
    engine = create_database_engine(url)
    try:
        while version.status == "building":
            await asyncio.sleep(_POLL_S)
            async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True) as connection:
                dataset = await _find(connection, version.dataset)
                version = (await _find_version(connection, dataset, version.number)).shown
        return version
    finally:
        await engine.dispose()


def _print_version(version: DatasetVersion) -> None:
    counts = version.counts
    click.echo(
        f"{printable(version.dataset)} version {version.number}: {version.status}, {version.rows:,} rows, {version.size_bytes:,} bytes"
    )
    if version.searched_to:
        click.echo(f"searched back to {format_time(version.searched_to)} UTC, {version.examined:,} inferences")
    if version.error:
        click.echo(f"error: {printable(version.error)}")
    if version.erased:
        click.echo(f"erased: {version.erased:,} rows")
    for title, parts in (("splits", counts.splits), ("outputs", counts.outputs), ("without", counts.omitted)):
        if parts:
            click.echo(f"{title}: " + ", ".join(f"{printable(name)} {count:,}" for name, count in parts.items()))
    for reason, count in counts.skipped.items():
        click.echo(f"skipped: {count:,} because {DESCRIPTIONS.get(reason, printable(reason))}")
    for format in LINE_FORMATS:
        if counts.formats.get(format):
            click.echo(f"export --format {format}: {counts.formats[format]:,} rows")
            for reason, count in counts.left_out.get(format, {}).items():
                click.echo(f"  left out: {count:,}, as {printable(reason)}")


async def _write(url: str, version: FoundVersion, format: ExportFormat, split: Split | None, file: IO[bytes]) -> None:
    engine = create_database_engine(url)
    try:
        pieces = export_rows(lambda: admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True), version.id, format, split)
        async for piece in pieces:
            file.write(piece)
        file.flush()
    except NotPossible as fault:
        raise CommandError(str(fault)) from None
    except BrokenPipeError:
        raise CommandError("The export was cut off: whoever read it has ended.") from None
    finally:
        await engine.dispose()
