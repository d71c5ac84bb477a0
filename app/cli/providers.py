"""narthex providers: listed, and tried."""

import asyncio
import sys
from collections.abc import Mapping

import click
import msgspec

from app.cli.sentences import Ordered
from app.cli.telling import json_option, printable, tell_json, tell_table, working
from app.domain import ProviderConfig
from app.local import secret_key, servers
from app.local.asking import ask
from app.local.trouble import Trouble
from app.local.trying.tried import Tried
from app.local.trying.trying import try_provider
from app.settings import Settings
from app.store import configuration
from providers.catalogue import ADAPTERS, address
from providers.provider import BadOption, Provider

_MOST_NAMED = 12

_adapters_option = click.option("--adapters", "adapters_alone", is_flag=True, help="Only the adapters, which are known without a database.")


@click.group(cls=Ordered, invoke_without_command=True)
@_adapters_option
@json_option
@click.pass_context
def providers(context: click.Context, adapters_alone: bool, as_json: bool) -> None:
    """List providers, and try whether they work.

    A provider is a place to speak to; its adapter knows how that kind of engine or host wants to be spoken to. Without a command:
    `list`.

    \b
    Examples:
      narthex providers
      narthex providers test openai
    """
    if context.invoked_subcommand is None:
        _list(adapters_alone, as_json)
    elif adapters_alone or as_json:
        raise click.UsageError(f"Say options after the command: narthex providers {context.invoked_subcommand} ...")


@providers.command("list")
@_adapters_option
@json_option
def list_providers(adapters_alone: bool, as_json: bool) -> None:
    """List the providers that are configured, and the adapters there are.

    Credentials are told by where they are, never by what they are.

    \b
    Examples:
      narthex providers list
      narthex providers list --adapters

    With --json: {"providers": [{"name", "adapter", "base_url", "credential", "options"}], "adapters": [{"name", "options": {option:
    meaning}, "default_base_url"}]}; --adapters leaves the first out.
    """
    _list(adapters_alone, as_json)


@providers.command("test")
@click.argument("name")
@click.option("--model", help="One of the provider's models, which is asked for a short answer.")
@click.option("--as-caller", is_flag=True, help="Read, from standard input or a prompt, the credential that a caller would bring.")
@json_option
def test_provider(name: str, model: str | None, as_caller: bool, as_json: bool) -> None:
    """Try the provider NAME: one cheap request, and what came of it.

    It is asked for its list of models, where it has one that only those with a credential see, else for a short answer of the model
    that a target names; just as the gateway would ask it, at each address and with each credential. That may cost a fraction of a cent.
    Credentials (env:NAME) are looked for in the environment of this command. Exit status 0 if all of them work, else 1.

    \b
    Examples:
      narthex providers test openai
      narthex providers test bedrock --model eu.anthropic.claude-haiku-4-5-20251001-v1:0
      narthex providers test openai --json | jq '.results[].outcome'

    With --json: {"provider", "adapter", "works", "results": [{"address", "credential", "asked", "outcome", "message", "advice",
    "status", "latency_ms", "models", "left": [{"resource", "limit", "remaining"}], "request_id"}]}. "outcome": works, no_address,
    no_model, name_not_resolved, connection_refused, timed_out, tls, proxy, broke_off, credential_unreadable, credential_missing,
    credential_refused, credential_expired, not_brought, model_missing, rate_limited, nothing_left, wrong_region, refused, failed or
    not_understood.
    """
    settings = secret_key.found(servers.found(Settings.read()))
    vault = secret_key.vault(settings)
    directory = ask(settings.database_url, configuration.current)
    config = directory.providers.get(name)
    if config is None:
        raise Trouble(f"There is no provider {name!r}. There are: {', '.join(directory.providers) or 'none yet'}.")
    brought = _brought() if as_caller else None
    with working(f"Asking {name}"):
        results = asyncio.run(try_provider(directory, name, settings, vault, model=model, brought=brought))
    works = all(each.outcome == "works" for each in results)
    if as_json:
        tell_json({"provider": name, "adapter": config.adapter, "works": works, "results": results})
    else:
        for each in results:
            _tell(each)
    if not works:
        raise click.exceptions.Exit(1)


def _list(adapters_alone: bool, as_json: bool) -> None:
    found: Mapping[str, ProviderConfig] = (
        {} if adapters_alone else ask(servers.found(Settings.read()).database_url, configuration.current).providers
    )
    if as_json:
        told = [] if adapters_alone else [{"name": name, **msgspec.structs.asdict(each)} for name, each in found.items()]
        adapters = [
            {"name": name, "options": dict(each.known_options), "default_base_url": each.default_base_url}
            for name, each in sorted(ADAPTERS.items())
        ]
        tell_json({"adapters": adapters} if adapters_alone else {"providers": told, "adapters": adapters})
        return
    if found:
        rows = [(name, each.adapter, _address(name, each), ", ".join(each.credentials)) for name, each in found.items()]
        tell_table(("PROVIDER", "ADAPTER", "ADDRESS", "CREDENTIAL"), rows)
        click.echo()
    elif not adapters_alone:
        click.echo("No provider is configured yet.\n")
    _tell_adapters()


def _tell_adapters() -> None:
    """What most of them take in the same sense is said once."""
    shared = Provider.known_options
    click.echo("Options of most adapters:")
    for option, meaning in shared.items():
        click.echo(f"  {option}: {meaning}")
    click.echo("\nAdapters that a [providers.NAME] may name, and their own options:")
    for name, adapter in sorted(ADAPTERS.items()):
        lacking = [option for option in shared if option not in adapter.known_options]
        without = f"  (without {', '.join(lacking)})" if lacking else ""
        click.echo(f"  {name}{without}")
        for option, meaning in adapter.known_options.items():
            if shared.get(option) != meaning:
                click.echo(f"      {option}: {meaning}")


def _tell(tried: Tried) -> None:
    sign, colour = ("✓", "green") if tried.outcome == "works" else ("✗", "red")
    who = " ".join(filter(None, [tried.address, f"with {tried.credential}" if tried.credential else "without a credential"]))
    click.echo(f"{click.style(sign, fg=colour, bold=True)} {printable(who)}: {printable(tried.message)}")
    if tried.advice:
        click.echo(f"    {printable(tried.advice)}")
    told = [f"{tried.latency_ms} ms" if tried.latency_ms is not None else "", f"status {tried.status}" if tried.status else ""]
    told += [f"asked for {tried.asked}", f"request {tried.request_id}" if tried.request_id else ""]
    click.echo(f"    {printable(', '.join(filter(None, told)))}")
    if tried.models is not None:
        more = f" and {len(tried.models) - _MOST_NAMED} more" if len(tried.models) > _MOST_NAMED else ""
        click.echo(f"    models: {printable(', '.join(tried.models[:_MOST_NAMED]) or 'none')}{more}")
    for room in tried.left:
        click.echo(f"    {printable(room.resource)}: {_number(room.remaining)} of {_number(room.limit)} left")


def _number(number: float | None) -> str:
    return "?" if number is None else f"{number:g}"


def _brought() -> str:
    return (click.prompt("The caller's credential", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()).strip()


def _address(name: str, config: ProviderConfig) -> str:
    try:
        return address(config.adapter, name, config.options, config.base_url) or ""
    except BadOption:  # of a version before or after this one
        return config.base_url or ""
