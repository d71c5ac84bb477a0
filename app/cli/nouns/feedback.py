"""narthex feedback send: feedback as a caller sends it. The other commands of the noun are made from operations."""

from typing import Any

import click
import msgspec

from app.cli.admin_api import AdminAccess, send
from app.cli.errors import CommandError, OrderedGroup
from app.cli.output import json_option, print_json
from app.settings import Settings
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.gateway_url import reachable_url


@click.group(cls=OrderedGroup)
def feedback() -> None:
    """List what callers say of inferences and episodes.

    `narthex metrics` lists what they may say. docs/feedback.md is a guide.
    """


@feedback.command("send")
@click.argument("metric")
@click.argument("value")
@click.option("--inference", "inference_id", help="The inference that it is about: the id of a response.")
@click.option("--episode", "episode_id", help="Or the episode.")
@click.option("--id", help="Your own name for it: sent again with it, it is stored once.")
@click.option("--key", envvar="NARTHEX_KEY", show_envvar=True, help="The key to send; by default, the first key of this home.")
@json_option
def send_command(metric: str, value: str, key: str | None, as_json: bool, **fields: str | None) -> None:
    """Send feedback to the running gateway: VALUE of METRIC.

    VALUE is JSON if it can be read as JSON, such as true, 0.5 or "a text"; else it is a text.

    \b
    Examples:
      narthex feedback send helpful true --inference 019aa3f4-7492-7b70-8347-9564aeb44a24
      narthex feedback send comment "Just what I needed." --episode ticket-4711

    With --json: the answer of the gateway.
    """
    settings = Settings.read()
    access = AdminAccess(reachable_url(settings), key.strip() if key else _first_key(settings))
    body = {"metric": metric, "value": _read_value(value), **{name: field for name, field in fields.items() if field is not None}}
    response = send(settings, access, "POST", "/v1/feedback", msgspec.json.encode(body))
    if response.status != 201:
        raise CommandError(str(response.document.get("error", {}).get("message", response.document)))
    if as_json:
        print_json(response.document)
    else:
        click.echo(response.document["id"])


def _read_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _first_key(settings: Settings) -> str:
    path = settings.home.absolute() / "first-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise OperatorError(f"There is no key in {path}: give one with --key, or set NARTHEX_KEY.") from None
