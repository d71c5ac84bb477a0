"""Commands that inspect an installation: status and doctor."""

import asyncio
import os

import click

from app.cli.output import format_size, json_option, pluralize, print_json, print_table, printable, progress
from app.cli.times import format_duration
from app.doctor.diagnosis import diagnose_installation
from app.doctor.findings import Finding
from app.doctor.processes import ProcessStatus
from app.doctor.status import Status, WriterSummary, collect_status
from app.settings import Settings

_CHECK_AREAS = ("machine", "gateway", "postgres", "redis", "records", "engines")
_SIGNS = {"error": ("✗", "red"), "warning": ("!", "yellow"), "ok": ("✓", "green")}


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show what runs, where, and how far behind it is.

    Exit status 0 if the gateway of this home takes requests, PostgreSQL, Redis and the writer work, and no limit refuses
    everything because Redis lost its memory; else 1.

    \b
    Examples:
      narthex status
      narthex status --json | jq .spool.oldest_s

    With --json: {"ready", "healthy", "version", "home", "address", "admin_address", "processes": [{"name", "pid", "running",
    "uptime_s"}], "gateway": {"url", "state", "configuration", "postgres", "records_lost", "failing_tasks", "tasks_failing",
    "revocation_lag_s", "limits_refusing": {"rules", "since", "until", "waiting_for"} or null}, "configuration": {"version", "hash",
    "providers", "models", "limits"} or null, "workers": [{"id", "version", "last_seen_s"}] or null, "postgres" and "redis": {"name",
    "address", "reachable", "version", "error"}, "spool": {"size_bytes", "oldest_s", "quarantined"}, "writer": {"running", "connected",
    "rows", "last_error"} or null}.
    """
    settings = Settings.read()
    with progress("Collecting"):
        machine_status = asyncio.run(collect_status(settings))
    if as_json:
        print_json(machine_status)
    else:
        _print_status(machine_status)
    if not machine_status.healthy:
        raise click.exceptions.Exit(1)


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Find out what is wrong with this installation, and what to do.

    Checks settings, files, processes, the gateway, PostgreSQL, Redis, records that wait to be stored, every configured engine and the
    limits. Each engine is sent a request for its list of models; nothing is changed. It takes seconds, even if servers do not answer.
    Run it where the gateway runs, with the same environment. Exit status 0 without errors (there may be warnings), else 1.

    \b
    Examples:
      narthex doctor
      narthex doctor --json | jq -r '.findings[] | select(.severity == "error") | .message'

    With --json: {"healthy": true or false, "findings": [{"area", "severity": "error", "warning" or "ok", "message", "advice"}]}, the
    worst first.
    """
    pending = set(_CHECK_AREAS)
    with progress("Checking everything") as spinner:

        def done(area: str) -> None:
            pending.discard(area)
            spinner.update(f"Checking {', '.join(sorted(pending))}" if pending else "Done")

        findings = asyncio.run(diagnose_installation(os.environ, done))
    healthy = all(each.severity != "error" for each in findings)
    if as_json:
        print_json({"healthy": healthy, "findings": findings})
    else:
        _print_findings(findings)
    if not healthy:
        raise click.exceptions.Exit(1)


def _print_findings(findings: list[Finding]) -> None:
    for each in findings:
        sign, colour = _SIGNS[each.severity]
        click.echo(f"{click.style(sign, fg=colour, bold=True)} {each.area}: {printable(each.message)}")
        if each.advice:
            click.echo(f"    {printable(each.advice)}")
    errors = sum(each.severity == "error" for each in findings)
    warnings = sum(each.severity == "warning" for each in findings)
    click.echo(f"\n{pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}." if errors or warnings else "\nEverything is fine.")


def _runs_gateway(machine_status: Status) -> bool:
    return any(each.name.startswith("gateway-") and each.running for each in machine_status.processes)


def _print_status(machine_status: Status) -> None:
    gateway = {
        "ready": f"The gateway on {machine_status.gateway.url} is ready.",
        "silent": f"Nothing answers on {machine_status.gateway.url}."
        + (" This home's gateway runs: set NARTHEX_PORT, as it was started." if _runs_gateway(machine_status) else ""),
        "other home": f"The gateway of another home answers on {machine_status.gateway.url}: set NARTHEX_PORT or NARTHEX_HOME.",
        "unknown": f"What answers on {machine_status.gateway.url} is not Narthex.",
    }.get(machine_status.gateway.state, f"The gateway on {machine_status.gateway.url} is {machine_status.gateway.state}.")
    admin = "" if machine_status.admin_address == machine_status.address else f" The admin API is on {machine_status.admin_address}."
    click.echo(f"{gateway}{admin} Narthex {machine_status.version}, home {machine_status.home}.\n")
    if machine_status.processes:
        rows = [(each.name, str(each.pid or ""), _process_state(each)) for each in machine_status.processes]
        print_table(("PROCESS", "PID", "STATE"), rows)
    else:
        click.echo("Nothing runs in this home.")
    click.echo()
    configuration = machine_status.configuration
    if configuration is not None:
        counts = ", ".join(
            (
                pluralize(configuration.providers, "provider"),
                pluralize(configuration.models, "model"),
                pluralize(configuration.limits, "limit"),
            )
        )
        click.echo(f"Configuration  version {configuration.version}: {counts}")
        behind = [each for each in machine_status.workers or () if each.version < configuration.version]
        current = len(machine_status.workers or ()) - len(behind)
        behind_text = "".join(f"; {each.id} serves {each.version} (seen {format_duration(each.last_seen_s)} ago)" for each in behind)
        click.echo(f"Workers        {current} serve it{behind_text}")
    facts = machine_status.gateway
    if facts.state in ("ready", "draining"):
        click.echo(f"Keys           known to be current {facts.revocation_lag_s:.1f} s ago")
    if facts.tasks_failing:
        named = "".join(f"; {task}: {failure}" for task, failure in facts.failing_tasks.items())
        click.echo(f"Tasks          {facts.tasks_failing} failing, being started again{named}")
    if refusing := facts.limits_refusing:
        waiting = f"; waiting for {refusing.waiting_for}" if refusing.waiting_for else ""
        rules = pluralize(refusing.rules, "limit")
        click.echo(f"Limits         {rules} refusing, as Redis lost its memory, until {refusing.until} at the latest{waiting}")
    for server in (machine_status.postgres, machine_status.redis):
        state = f"{server.version} on {server.address}" if server.reachable else f"not reachable: {server.address or server.error}"
        click.echo(f"{server.name:<14} {state}")
    lag_text = (
        f"the oldest record has waited for {format_duration(machine_status.spool.oldest_s)}"
        if machine_status.spool.oldest_s
        else "all records are stored"
    )
    quarantined_text = f"; {machine_status.spool.quarantined} set aside" if machine_status.spool.quarantined else ""
    click.echo(f"Spool          {format_size(machine_status.spool.size_bytes)}, {lag_text}{quarantined_text}")
    click.echo(f"Writer         {_writer_state(machine_status.writer)}")
    if not machine_status.healthy:
        click.echo("\n`narthex doctor` finds out what is wrong, and what to do.")


def _process_state(process: ProcessStatus) -> str:
    if not process.running:
        return "not running"
    return f"running for {format_duration(process.uptime_s)}" if process.uptime_s is not None else "running"


def _writer_state(writer: WriterSummary | None) -> str:
    if writer is None:
        return "has never run here"
    if not writer.running:
        return "not running"
    return f"{'connected' if writer.connected else 'not connected'}, {pluralize(writer.rows, 'record')} stored since its start"
