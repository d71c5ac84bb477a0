"""narthex engines: list endpoints and run engine operations, through the running gateway."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click
import msgspec

from app.cli.admin_api import find_access, raise_error, send
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable, progress
from app.cli.times import format_duration
from app.settings import Settings


@click.group(cls=OrderedGroup)
def engines() -> None:
    """List endpoints, and run operations on their engines.

    Uses the running gateway, with the admin key of this home or the session of `narthex login`. docs/engines/operations.md lists the
    operations of each engine.
    """


@engines.command("list")
@json_option
def list_endpoints(as_json: bool) -> None:
    """List endpoints: the engine of each, and whether it answers.

    Shows the state in one of the gateway's processes.

    \b
    Example:
      narthex engines list

    With --json: {"data": [{"provider", "endpoint", "adapter", "engine", "version", "router", "served_as", "warning", "models": [{"id",
    "context_length", "parent"}] or null, "health", "last_response_at", "breaker", "failures", "busy": {model: seconds}, "in_flight",
    "connections": {"busy", "idle", "max", "waiting"}, "credentials": [{"reference", "cooldown_s", "refused", "models": {model:
    {"cooldown_s", "rate_limits"}}}], "serves", "operations"}]}.
    """
    response = _request("GET", "/admin/v1/endpoints")
    if as_json:
        print_json(response)
    elif not response["data"]:
        click.echo("No model has an endpoint yet.")
    else:
        rows = [
            (each["endpoint"], each["provider"], _engine_label(each), each["health"], ", ".join(each["serves"]))
            for each in response["data"]
        ]
        print_table(("ENDPOINT", "PROVIDER", "ENGINE", "HEALTH", "SERVES"), rows)
        for each in response["data"]:
            if each["warning"]:
                click.echo(printable(f"{each['endpoint']}: {each['warning']}"))
            for model, left_s in each["busy"].items():
                click.echo(printable(f"{each['endpoint']} is busy for {format_duration(left_s)} for {model}, as it says"))
            connections = each["connections"]
            if connections["waiting"]:
                text = f"{connections['waiting']} requests wait for one of {connections['max']} connections"
                click.echo(printable(f"{each['endpoint']}: {text} (NARTHEX_ENDPOINT_CONNECTIONS)"))
            for credential in each["credentials"]:
                subject = f"{each['provider']}: {credential['reference'] or 'no credential'}"
                if credential["refused"] or credential["cooldown_s"]:
                    state = "was refused" if credential["refused"] else _cooldown_text(credential["cooldown_s"])
                    click.echo(printable(f"{subject} {state}"))
                for model, model_state in credential["models"].items():
                    if model_state["cooldown_s"]:
                        click.echo(printable(f"{subject} {_cooldown_text(model_state['cooldown_s'])} for {model}"))


@engines.command("rules")
@json_option
def list_rules(as_json: bool) -> None:
    """List the rules of models that hosts taught by refusing a request.

    Other requests are adapted to them for a while, within the drop policy of each. docs/providers.md says more.

    \b
    Example:
      narthex engines rules

    With --json: {"data": [{"provider", "model", "rule", "dialect", "field", "values", "until"}]}.
    """
    response = _request("GET", "/admin/v1/endpoints/learned-rules")
    if as_json:
        print_json(response)
    elif not response["data"]:
        click.echo("No host has refused what the rules of its models allow.")
    else:
        rows = [
            (each["provider"], each["model"], each["rule"], each["field"] or "", ", ".join(each["values"]), each["dialect"], each["until"])
            for each in response["data"]
        ]
        print_table(("PROVIDER", "MODEL", "RULE", "FIELD", "VALUES", "DIALECT", "UNTIL"), rows)


def _cooldown_text(cooldown_s: float) -> str:
    return f"rests for {format_duration(cooldown_s)}"


@engines.command("run")
@click.argument("model")
@click.argument("operation")
@click.argument("arguments", nargs=-1)
@json_option
def run(model: str, operation: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """Run OPERATION on the engines of MODEL.

    ARGUMENTS are NAME=VALUE, with the engine's own names; a VALUE that is not JSON is text. endpoint=ADDRESS runs it on that endpoint
    only. Exit status 1 if it failed on any endpoint. Long responses are cut; with --json they are complete.

    \b
    Examples:
      narthex engines run sandbox metrics --json
      narthex engines run my-model sleep level=1
      narthex engines run my-model load_lora lora_name=sql lora_path=/adapters/sql
      narthex engines run my-model terminate confirm=true endpoint=http://10.0.0.5:23333

    With --json: {"operation", "data": [{"endpoint", "engine", "status", "response" or "error"}]}, and "error" if any failed.
    """
    fields = dict(_parse_argument(each) for each in arguments)
    path = f"/admin/v1/models/{quote(model, safe='')}/engine/{quote(operation, safe='')}"
    with progress(f"Running {operation} on the engines of {model}"):
        response = _request("POST", path, msgspec.json.encode(fields))
    if as_json:
        print_json(response)
    else:
        rows = [
            (each["endpoint"], each["engine"], str(each["status"]), each.get("error") or _shorten(each["response"]))
            for each in response["data"]
        ]
        print_table(("ENDPOINT", "ENGINE", "STATUS", "ANSWER"), rows)
    if "error" in response:
        raise click.exceptions.Exit(1)


def _request(method: str, path: str, body: bytes | None = None) -> Mapping[str, Any]:
    """The gateway's response, results of failed endpoints included. Raises CommandError if the gateway refuses the request."""
    settings = Settings.read()
    access = find_access(settings)
    response = send(settings, access, method, path, body, timeout_s=settings.total_timeout_s + 30)
    if response.status != 200 and "data" not in response.document:
        raise_error(access, response)
    return response.document


def _parse_argument(argument: str) -> tuple[str, Any]:
    name, equals, value = argument.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{argument!r} is not NAME=VALUE.")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _engine_label(endpoint: Mapping[str, Any]) -> str:
    version = f" {endpoint['version']}" if endpoint["version"] else ""
    router = f" behind {endpoint['router']}" if endpoint["router"] else ""
    fallback = endpoint["adapter"] if endpoint["health"] == "not_probed" else f"{endpoint['adapter']}?"
    return f"{endpoint['engine'] or fallback}{version}{router}"


def _shorten(answer: Any) -> str:
    """The response on one line, at most 200 characters."""
    text = " ".join(answer.split()) if isinstance(answer, str) else "" if answer is None else msgspec.json.encode(answer).decode()
    return text if len(text) <= 200 else text[:199] + "…"
