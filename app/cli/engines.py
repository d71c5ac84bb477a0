"""narthex engines run: operations of engines, through the running gateway. The noun's other commands are made from operations."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import click
import msgspec

from app.cli.admin_api import find_access, raise_error, send
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table, progress
from app.settings import Settings


@click.group(cls=OrderedGroup)
def engines() -> None:
    """List endpoints, and run operations on their engines.

    Uses the running gateway, with the admin key of this home or the session of `narthex login`. docs/engines/operations.md lists the
    operations of each engine.
    """


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


def _shorten(answer: Any) -> str:
    """The response on one line, at most 200 characters."""
    text = " ".join(answer.split()) if isinstance(answer, str) else "" if answer is None else msgspec.json.encode(answer).decode()
    return text if len(text) <= 200 else text[:199] + "…"
