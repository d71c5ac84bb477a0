"""Commands that look after an installation: status and doctor."""

import asyncio
import os

import click

from app.cli.telling import count, json_option, printable, size, tell_json, tell_table, working
from app.cli.times import span
from app.local import status as machine
from app.local.doctor.examine import examine
from app.local.doctor.finding import Finding
from app.settings import Settings

_AREAS = ("machine", "gateway", "postgres", "redis", "records", "engines")
_SIGNS = {"wrong": ("✗", "red"), "warning": ("!", "yellow"), "fine": ("✓", "green")}


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show what runs, where, and how far behind it is.

    Exit status 0 if the gateway takes requests, 1 if it does not.

    \b
    Examples:
      narthex status
      narthex status --json | jq .spool.oldest_s

    With --json: {"ready", "version", "home", "address", "processes": [{"name", "pid", "runs", "since_s"}], "gateway": {"url", "state",
    "configuration", "postgres", "records_lost"}, "configuration": {"version", "hash", "providers", "models", "limits"} or null,
    "workers": [{"id", "version", "seen_s"}] or null, "postgres" and "redis": {"name", "address", "reachable", "version", "trouble"},
    "spool": {"size_bytes", "oldest_s", "quarantined"}, "writer": {"running", "connected", "rows", "last_error"} or null}.
    """
    settings = Settings.read()
    with working("Looking"):
        found = asyncio.run(machine.look(settings))
    if as_json:
        tell_json(found)
    else:
        _show(found)
    if not found.ready:
        raise click.exceptions.Exit(1)


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what is wrong with this installation, and what to do.

    Looks at settings, files, processes, the gateway, PostgreSQL, Redis, what waits to be recorded, every engine that is configured and
    the limits; each engine is asked for its list of models, and nothing is changed anywhere. It takes seconds, whatever is away.
    Run it where the gateway runs, with the same environment. Exit status 0 if nothing is wrong (warnings there may be), else 1.

    \b
    Examples:
      narthex doctor
      narthex doctor --json | jq -r '.findings[] | select(.severity == "wrong") | .message'

    With --json: {"healthy": true or false, "findings": [{"area", "severity": "wrong", "warning" or "fine", "message", "advice"}]}, the
    worst first.
    """
    waited = set(_AREAS)
    with working("Looking at everything") as moving:

        def done(area: str) -> None:
            waited.discard(area)
            moving.update(f"Looking at {', '.join(sorted(waited))}" if waited else "Done")

        findings = asyncio.run(examine(os.environ, done))
    healthy = all(each.severity != "wrong" for each in findings)
    if as_json:
        tell_json({"healthy": healthy, "findings": findings})
    else:
        _tell(findings)
    if not healthy:
        raise click.exceptions.Exit(1)


def _tell(findings: list[Finding]) -> None:
    for each in findings:
        sign, colour = _SIGNS[each.severity]
        click.echo(f"{click.style(sign, fg=colour, bold=True)} {each.area}: {printable(each.message)}")
        if each.advice:
            click.echo(f"    {printable(each.advice)}")
    wrong = sum(each.severity == "wrong" for each in findings)
    warnings = sum(each.severity == "warning" for each in findings)
    click.echo()
    if wrong:
        also = f", and {count(warnings, 'thing')} to keep an eye on" if warnings else ""
        click.echo(f"{count(wrong, 'thing')} {'is' if wrong == 1 else 'are'} wrong{also}.")
    elif warnings:
        click.echo(f"Nothing is wrong; {count(warnings, 'thing')} to keep an eye on.")
    else:
        click.echo("All is well.")


def _show(found: machine.Status) -> None:
    gateway = {
        "ready": f"The gateway on {found.gateway.url} is ready.",
        "silent": f"Nothing answers on {found.gateway.url}.",
        "unknown": f"What answers on {found.gateway.url} is not Narthex.",
    }.get(found.gateway.state, f"The gateway on {found.gateway.url} is {found.gateway.state}.")
    click.echo(f"{gateway} Narthex {found.version}, home {found.home}.\n")
    if found.processes:
        rows = [(each.name, str(each.pid or ""), _running(each)) for each in found.processes]
        tell_table(("PROCESS", "PID", "STATE"), rows)
    else:
        click.echo("No process is noted in this home.")
    click.echo()
    configured = found.configuration
    if configured is not None:
        things = ", ".join((count(configured.providers, "provider"), count(configured.models, "model"), count(configured.limits, "limit")))
        click.echo(f"Configuration  version {configured.version}: {things}")
        behind = [each for each in found.workers or () if each.version < configured.version]
        current = len(found.workers or ()) - len(behind)
        told = "".join(f"; {each.id} serves {each.version} (seen {span(each.seen_s)} ago)" for each in behind)
        click.echo(f"Workers        {current} serve it{told}")
    for server in (found.postgres, found.redis):
        state = f"{server.version} on {server.address}" if server.reachable else f"not reachable: {server.address or server.trouble}"
        click.echo(f"{server.name:<14} {state}")
    late = f"the oldest record waits for {span(found.spool.oldest_s)}" if found.spool.oldest_s else "all is stored"
    aside = f"; {found.spool.quarantined} set aside" if found.spool.quarantined else ""
    click.echo(f"Spool          {size(found.spool.size_bytes)}, {late}{aside}")
    click.echo(f"Writer         {_writing(found.writer)}")
    if not found.ready or not found.postgres.reachable:
        click.echo("\n`narthex doctor` says what is wrong, and what to do.")


def _running(process: machine.Process) -> str:
    if not process.runs:
        return "not running"
    return f"running for {span(process.since_s)}" if process.since_s is not None else "running"


def _writing(writer: machine.WriterState | None) -> str:
    if writer is None:
        return "has never run here"
    if not writer.running:
        return "not running"
    return f"{'connected' if writer.connected else 'not connected'}, {count(writer.rows, 'record')} stored since its start"
