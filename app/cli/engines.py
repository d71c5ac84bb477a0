"""narthex engines: what each endpoint is, and engines told to do something, through the running gateway."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click
import httpx
import msgspec

from app.cli.sentences import Failure, Ordered
from app.cli.telling import json_option, printable, tell_json, tell_table, working
from app.cli.times import span
from app.local.listeners import reachable_url
from app.local.trouble import Trouble
from app.settings import Settings
from providers.wire import UNREADABLE

_CONNECT_S = 5.0


@click.group(cls=Ordered)
def engines() -> None:
    """Show what engines are, and tell them to do something.

    It asks the running gateway, with the admin key of this home. docs/engines/operations.md tells which engine can be told what.
    """


@engines.command("list")
@json_option
def list_endpoints(as_json: bool) -> None:
    """List endpoints: what each is, and whether it answers.

    As one process of the gateway sees them.

    \b
    Example:
      narthex engines list

    With --json: {"data": [{"provider", "endpoint", "adapter", "engine", "version", "router", "served_as", "warning", "models": [{"id",
    "context_length", "parent"}] or null, "health", "answered_at", "breaker", "faults", "in_flight", "credentials": [{"reference",
    "rests_s", "refused", "models": {model: {"rests_s", "allowance"}}}], "serves", "operations"}]}.
    """
    told = _ask("GET", "/admin/v1/endpoints")
    if as_json:
        tell_json(told)
    elif not told["data"]:
        click.echo("No model has an endpoint yet.")
    else:
        rows = [(each["endpoint"], each["provider"], _engine(each), each["health"], ", ".join(each["serves"])) for each in told["data"]]
        tell_table(("ENDPOINT", "PROVIDER", "ENGINE", "HEALTH", "SERVES"), rows)
        for each in told["data"]:
            if each["warning"]:
                click.echo(printable(f"{each['endpoint']}: {each['warning']}"))
            for credential in each["credentials"]:
                who = f"{each['provider']}: {credential['reference'] or 'no credential'}"
                if credential["refused"] or credential["rests_s"]:
                    click.echo(printable(f"{who} {'was refused' if credential['refused'] else _rests(credential['rests_s'])}"))
                for model, told_of in credential["models"].items():
                    if told_of["rests_s"]:
                        click.echo(printable(f"{who} {_rests(told_of['rests_s'])} for {model}"))


def _rests(rests_s: float) -> str:
    return f"rests for {span(rests_s)}"


@engines.command("run")
@click.argument("model")
@click.argument("operation")
@click.argument("arguments", nargs=-1)
@json_option
def run(model: str, operation: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """Tell the engines of MODEL to do OPERATION.

    ARGUMENTS are NAME=VALUE, by the engine's own names; a VALUE is JSON, or text where it is none. endpoint=ADDRESS: this one alone.
    Exit status 1 if it failed at any endpoint. A long answer is cut short; with --json it is whole.

    \b
    Examples:
      narthex engines run sandbox metrics --json
      narthex engines run my-model sleep level=1
      narthex engines run my-model load_lora lora_name=sql lora_path=/adapters/sql
      narthex engines run my-model terminate confirm=true endpoint=http://10.0.0.5:23333

    With --json: {"operation", "data": [{"endpoint", "engine", "status", "answer" or "error"}]}, and "error" if any failed.
    """
    said = dict(_argument(each) for each in arguments)
    path = f"/admin/v1/models/{quote(model)}/engine/{quote(operation, safe='')}"
    with working(f"Telling the engines of {model}"):
        told = _ask("POST", path, msgspec.json.encode(said))
    if as_json:
        tell_json(told)
    else:
        rows = [
            (each["endpoint"], each["engine"], str(each["status"]), each.get("error") or _short(each["answer"])) for each in told["data"]
        ]
        tell_table(("ENDPOINT", "ENGINE", "STATUS", "ANSWER"), rows)
    if "error" in told:
        raise click.exceptions.Exit(1)


def _ask(method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    """What the gateway told, that of endpoints that failed included. Raises Failure for what it refused."""
    settings = Settings.read()
    url = reachable_url(settings)
    timeout = httpx.Timeout(settings.total_timeout_s + 30, connect=_CONNECT_S)
    try:
        with httpx.Client(headers={"authorization": f"Bearer {_key(settings)}"}, timeout=timeout, trust_env=False) as client:
            response = client.request(method, url + path, content=body)
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        raise Failure(f"The gateway on {url} could not be asked: {fault}. `narthex doctor` says what is wrong with one.") from fault
    try:
        told = msgspec.json.decode(response.content, type=dict[str, Any])
        if response.status_code == 200 or "data" in told:
            return told
        error: Mapping[str, Any] = told["error"]
        message = str(error["message"])
    except (*UNREADABLE, KeyError, TypeError):
        raise Failure(f"{url} answered with status {response.status_code}, and not as a gateway does.") from None
    raise Failure(message, status=response.status_code)


def _key(settings: Settings) -> str:
    path = settings.home.absolute() / "admin-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise Trouble(f"There is no admin key in {path}: set NARTHEX_HOME to the folder in which Narthex runs.") from None


def _argument(said: str) -> tuple[str, Any]:
    name, equals, value = said.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{said!r} is no NAME=VALUE.")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _engine(told: Mapping[str, Any]) -> str:
    version = f" {told['version']}" if told["version"] else ""
    router = f" behind {told['router']}" if told["router"] else ""
    unknown = told["adapter"] if told["health"] == "not_asked" else f"{told['adapter']}?"
    return f"{told['engine'] or unknown}{version}{router}"


def _short(answer: Any) -> str:
    told = " ".join(answer.split()) if isinstance(answer, str) else "" if answer is None else msgspec.json.encode(answer).decode()
    return told if len(told) <= 200 else told[:199] + "…"
