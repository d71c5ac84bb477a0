"""narthex clients: how coding agents and editors are pointed at the gateway."""

from typing import Any

import click

from app.cli.clients.caller_client import CallerClient
from app.cli.clients.caller_key import base_url, load_key
from app.cli.clients.configurations import CONFIGURATIONS, KEY_VARIABLE, Model, Target
from app.cli.errors import CommandError
from app.cli.output import json_option, print_json
from app.settings import Settings
from app.supervisor.machine.gateway_url import tls_verification

_TIMEOUT_S = 30.0


@click.group()
def clients() -> None:
    """Connect coding agents and editors."""


@clients.command()
@click.argument("client", type=click.Choice(list(CONFIGURATIONS)))
@click.option("--model", help="The model to begin with; by default, the first that the key may use.")
@click.option("--key", envvar="NARTHEX_KEY", show_envvar=True, help="The key whose models are listed; by default, the first of this home.")
@click.option("--url", help="The gateway's address as the client reaches it; by default, the one of NARTHEX_HOST and NARTHEX_PORT.")
@json_option
def setup(client: str, model: str | None, key: str | None, url: str | None, as_json: bool) -> None:
    """Print the configuration of CLIENT, with the models that a key may use.

    The key itself is not printed: the configuration takes it from the variable NARTHEX_API_KEY, or says where to type it.

    \b
    Examples:
      narthex clients setup claude-code
      narthex clients setup codex --model gpt-6.1-sol --url https://models.example.com
      narthex clients setup opencode --key "$NARTHEX_KEY" > opencode.txt

    With --json: {"client", "url", "model", "models": [name], "key_variable", "steps": [{"place", "text"}]}.
    """
    settings = Settings.read()
    api_key, key_from = load_key(settings, key)
    address = base_url(settings, url)
    verification = tls_verification(settings, address)
    found = CallerClient(address, api_key, key_from, timeout_s=_TIMEOUT_S, verification=verification).list_models()
    listed = [Model(each["id"], each.get("context_length"), _capabilities(each)) for each in found]
    models = [each for each in listed if each.can("chat")]
    if not models:
        raise CommandError("This key may use no model that chats: configure one, or let the key use it.")
    names = [each.id for each in models]
    if model is not None and model not in names:
        raise CommandError(f"This key may not use the model {model!r}. It may use: {', '.join(names)}.")
    target = Target(address, model or names[0], models)
    steps = CONFIGURATIONS[client](target)
    if as_json:
        print_json({"client": client, "url": address, "model": target.model, "models": names, "key_variable": KEY_VARIABLE, "steps": steps})
        return
    for number, step in enumerate(steps):
        click.secho(f"{'' if not number else chr(10)}# {step.place}:", dim=True)
        click.echo(step.text)
    if any(KEY_VARIABLE in step.text for step in steps):
        click.secho(f"\nSet {KEY_VARIABLE} to your key where the client runs.", dim=True, err=True)


def _capabilities(model: dict[str, Any]) -> tuple[str, ...] | None:
    return tuple(model["capabilities"]) if "capabilities" in model else None
