"""Endpoints, as people read them."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from app.cli.output import print_table, printable
from app.cli.times import format_duration


def endpoints(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    found = document["data"]
    if not found:
        click.echo("No endpoint matches." if arguments else "No model has an endpoint yet.")
        return
    rows = [(each["endpoint"], each["provider"], _engine_label(each), each["health"], ", ".join(each["serves"])) for each in found]
    print_table(("ENDPOINT", "PROVIDER", "ENGINE", "HEALTH", "SERVES"), rows)
    for each in found:
        for line in (*_endpoint_notes(each), *_credential_notes(each)):
            click.echo(printable(line))
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def _endpoint_notes(endpoint: Mapping[str, Any]) -> Iterator[str]:
    address, connections = endpoint["endpoint"], endpoint["connections"]
    if endpoint["warning"]:
        yield f"{address}: {endpoint['warning']}"
    for model, left_s in endpoint["busy"].items():
        yield f"{address} is busy for {format_duration(left_s)} for {model}, as it says"
    if connections["waiting"]:
        text = f"{connections['waiting']} requests wait for one of {connections['max']} connections"
        yield f"{address}: {text} (NARTHEX_ENDPOINT_CONNECTIONS)"


def _credential_notes(endpoint: Mapping[str, Any]) -> Iterator[str]:
    for credential in endpoint["credentials"]:
        subject = f"{endpoint['provider']}: {credential['reference'] or 'no credential'}"
        if credential["refused"] or credential["cooldown_s"]:
            yield f"{subject} {'was refused' if credential['refused'] else _cooldown_text(credential['cooldown_s'])}"
        for model, state in credential["models"].items():
            if state["cooldown_s"]:
                yield f"{subject} {_cooldown_text(state['cooldown_s'])} for {model}"


def _cooldown_text(cooldown_s: float) -> str:
    return f"rests for {format_duration(cooldown_s)}"


def _engine_label(endpoint: Mapping[str, Any]) -> str:
    version = f" {endpoint['version']}" if endpoint["version"] else ""
    router = f" behind {endpoint['router']}" if endpoint["router"] else ""
    fallback = endpoint["adapter"] if endpoint["health"] == "not_probed" else f"{endpoint['adapter']}?"
    return f"{endpoint['engine'] or fallback}{version}{router}"
