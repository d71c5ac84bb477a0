"""narthex providers: list providers, and check whether they work."""

import asyncio
import sys
from collections.abc import Mapping

import click
import msgspec

from app.cli.errors import OrderedGroup
from app.cli.output import format_drop, json_option, print_json, print_table, printable, progress
from app.cli.store_query import query_store
from app.domain.routing import ProviderConfig
from app.gateway.provider_check.check import check_provider
from app.gateway.provider_check.result import CheckResult
from app.settings import Settings
from app.store.configuration import configuration
from app.supervisor.database_query import query_database
from app.supervisor.machine import secret_key, server_addresses
from app.supervisor.machine.errors import OperatorError
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.catalogue import ADAPTERS, provider_url

_MAX_MODELS_SHOWN = 12
# Added to the advice of the check, which says what is needed, and not how this command takes it.
_OPTIONS: Mapping[str, str] = {"no_model": "--model names it.", "caller_credential_missing": "--as-caller reads it."}

_adapters_option = click.option("--adapters", "adapters_alone", is_flag=True, help="List only the adapters, without the database.")


@click.group(cls=OrderedGroup, invoke_without_command=True)
@_adapters_option
@json_option
@click.pass_context
def providers(context: click.Context, adapters_alone: bool, as_json: bool) -> None:
    """List providers, and check whether they work.

    A provider is an engine or host that serves models; its adapter knows how to use that kind of engine or host. Without a command this
    is `list`.

    \b
    Examples:
      narthex providers
      narthex providers test openai
    """
    if context.invoked_subcommand is None:
        _print_providers(adapters_alone, as_json)
    elif adapters_alone or as_json:
        raise click.UsageError(f"Put options after the command: narthex providers {context.invoked_subcommand} ...")


@providers.command("list")
@_adapters_option
@json_option
def list_providers(adapters_alone: bool, as_json: bool) -> None:
    """List configured providers and available adapters.

    Credentials are shown as references, never as values.

    \b
    Examples:
      narthex providers list
      narthex providers list --adapters

    With --json: {"providers": [{"name", "adapter", "base_url", "credential", "options", "drop"}], "adapters": [{"name", "options":
    {option: meaning}, "default_base_url"}]}; --adapters omits the providers.
    """
    _print_providers(adapters_alone, as_json)


@providers.command("test")
@click.argument("name")
@click.option("--model", help="A model of the provider, to which a short request is sent.")
@click.option("--as-caller", is_flag=True, help="Read the credential that a caller would send from standard input or a prompt.")
@json_option
def test_provider(name: str, model: str | None, as_caller: bool, as_json: bool) -> None:
    """Check the provider NAME with one cheap request.

    The request is for its list of models if that list requires a credential, else for a short response of a model that a target names.
    It is sent as the gateway sends it, to each address and with each credential, and may cost a fraction of a cent. Credentials
    (env:NAME) are read from the environment of this command. Exit status 0 if all of them work, else 1.

    \b
    Examples:
      narthex providers test openai
      narthex providers test bedrock --model eu.anthropic.claude-haiku-4-5-20251001-v1:0
      narthex providers test openai --json | jq '.results[].outcome'

    With --json: {"provider", "adapter", "works", "results": [{"address", "credential", "requested", "outcome", "message", "advice",
    "status", "latency_ms", "models", "rate_limits": [{"resource", "limit", "remaining"}], "request_id"}]}. "outcome": works,
    no_address, no_model, refused_address, name_not_resolved, connection_refused, timed_out, tls, proxy, connection_broken,
    credential_unreadable, credential_missing, credential_refused, credential_expired, caller_credential_missing, model_missing,
    rate_limited, quota_exhausted, wrong_region, refused, failed or invalid_response.
    """
    settings = secret_key.resolve(server_addresses.resolve(Settings.read()))
    vault = secret_key.open_vault(settings)
    snapshot = query_database(settings.database_url, configuration.read_current)
    config = snapshot.providers.get(name)
    if config is None:
        raise OperatorError(f"There is no provider {name!r}. There are: {', '.join(snapshot.providers) or 'none yet'}.")
    caller_credential = _read_caller_credential() if as_caller else None
    with progress(f"Checking {name}"):
        results = asyncio.run(check_provider(snapshot, name, settings, vault, model=model, caller_credential=caller_credential))
    works = all(each.outcome == "works" for each in results)
    if as_json:
        print_json({"provider": name, "adapter": config.adapter, "works": works, "results": results})
    else:
        for each in results:
            _print_result(each)
    if not works:
        raise click.exceptions.Exit(1)


def _print_providers(adapters_alone: bool, as_json: bool) -> None:
    configured: Mapping[str, ProviderConfig] = {} if adapters_alone else query_store(configuration.read_current).providers
    if as_json:
        provider_documents = [] if adapters_alone else [{"name": name, **msgspec.structs.asdict(each)} for name, each in configured.items()]
        adapters = [
            {"name": name, "options": dict(each.known_options), "default_base_url": each.default_base_url}
            for name, each in sorted(ADAPTERS.items())
        ]
        print_json({"adapters": adapters} if adapters_alone else {"providers": provider_documents, "adapters": adapters})
        return
    if configured:
        rows = [
            (name, each.adapter, _provider_address(name, each), ", ".join(each.credentials), format_drop(each.drop))
            for name, each in configured.items()
        ]
        print_table(("PROVIDER", "ADAPTER", "ADDRESS", "CREDENTIAL", "MAY DROP"), rows)
        click.echo()
    elif not adapters_alone:
        click.echo("No provider is configured yet.\n")
    _print_adapters()


def _print_adapters() -> None:
    """Prints options that most adapters share only once."""
    shared = Provider.known_options
    click.echo("Options of most adapters:")
    for option, meaning in shared.items():
        click.echo(f"  {option}: {meaning}")
    click.echo("\nAdapters that a [providers.NAME] may name, and their own options:")
    for name, adapter in sorted(ADAPTERS.items()):
        missing = [option for option in shared if option not in adapter.known_options]
        missing_text = f"  (without {', '.join(missing)})" if missing else ""
        click.echo(f"  {name}{missing_text}")
        for option, meaning in adapter.known_options.items():
            if shared.get(option) != meaning:
                click.echo(f"      {option}: {meaning}")


def _print_result(result: CheckResult) -> None:
    sign, colour = ("✓", "green") if result.outcome == "works" else ("✗", "red")
    subject = " ".join(filter(None, [result.address, f"with {result.credential}" if result.credential else "without a credential"]))
    click.echo(f"{click.style(sign, fg=colour, bold=True)} {printable(subject)}: {printable(result.message)}")
    advice = " ".join(filter(None, (result.advice, _OPTIONS.get(result.outcome))))
    if advice:
        click.echo(f"    {printable(advice)}")
    details = [f"{result.latency_ms} ms" if result.latency_ms is not None else "", f"status {result.status}" if result.status else ""]
    details += [f"requested {result.requested}", f"request {result.request_id}" if result.request_id else ""]
    click.echo(f"    {printable(', '.join(filter(None, details)))}")
    if result.models is not None:
        more = f" and {len(result.models) - _MAX_MODELS_SHOWN} more" if len(result.models) > _MAX_MODELS_SHOWN else ""
        click.echo(f"    models: {printable(', '.join(result.models[:_MAX_MODELS_SHOWN]) or 'none')}{more}")
    for rate_limit in result.rate_limits:
        click.echo(
            f"    {printable(rate_limit.resource)}: {_format_number(rate_limit.remaining)} of {_format_number(rate_limit.limit)} remaining"
        )


def _format_number(number: float | None) -> str:
    return "?" if number is None else f"{number:g}"


def _read_caller_credential() -> str:
    return (click.prompt("The caller's credential", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()).strip()


def _provider_address(name: str, config: ProviderConfig) -> str:
    try:
        return provider_url(config.adapter, name, config.options, config.base_url) or ""
    except InvalidOption:  # another version of Narthex has configured it
        return config.base_url or ""
