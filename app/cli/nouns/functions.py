"""narthex functions: list functions, show one, and show what one would send."""

from pathlib import Path
from typing import Any, cast, get_args

import click
import msgspec

from app.cli.errors import OrderedGroup
from app.cli.nouns.shadow_line import describe_shadow
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_store
from app.domain.functions import FunctionConfig
from app.gateway.routing.function_preview import PreviewDialect, prepare_preview
from app.gateway.routing.plan import choose_variant
from app.store.configuration import configuration
from app.store.configuration.config_file import parse_config_file
from app.supervisor.machine.errors import OperatorError
from providers.canonical.errors import RequestError


@click.group(cls=OrderedGroup, invoke_without_command=True)
@json_option
@click.pass_context
def functions(context: click.Context, as_json: bool) -> None:
    """List functions: tasks that callers name instead of a model.

    Without a command this is `list`.

    \b
    Examples:
      narthex functions
      narthex functions show answer
      narthex functions render answer --input '{"system": {"name": "Ada"}}'
    """
    if context.invoked_subcommand is None:
        _print_functions(as_json)
    elif as_json:
        raise click.UsageError(f"Put options after the command: narthex functions {context.invoked_subcommand} ...")


@functions.command("list")
@json_option
def list_functions(as_json: bool) -> None:
    """List functions.

    \b
    Example:
      narthex functions list

    With --json: {"functions": [{"name", "type", "variants": {NAME: {"model", ...}}, "default", "fallbacks", ...}]}, as in a
    configuration file.
    """
    _print_functions(as_json)


@functions.command("show")
@click.argument("name")
@json_option
def show_function(name: str, as_json: bool) -> None:
    """Show the function NAME with its variants and their templates.

    \b
    Example:
      narthex functions show answer

    With --json: {"name", "type", "variants", "default", "fallbacks", "schemas", "tools", "output_schema", ...}, as in a configuration file.
    """
    function = _find(name)
    if as_json:
        print_json({"name": name, **msgspec.to_builtins(function)})
        return
    described = f" {function.description}" if function.description else ""
    click.echo(printable(f"{name} is a function of type {function.type}.{described}"))
    if function.fallbacks:
        click.echo(f"Fallbacks: {printable(', '.join(function.fallbacks))}.")
    if function.tools:
        click.echo(f"Tools: {printable(', '.join(tool.name for tool in function.tools))}.")
    experiment = function.experiment
    if experiment is not None:
        label = printable(experiment.name or name)
        weights = ", ".join(f"{printable(arm)} {weight:g}" for arm, weight in sorted(experiment.arms.items()))
        click.echo(f"Experiment {label}, {experiment.status}: {weights}. `narthex experiments show {label}` has its versions.")
    if function.shadow is not None:
        click.echo(describe_shadow(function.shadow))
    chosen = choose_variant(name, function, None)
    reason = "serves by default" if experiment is None else "won" if experiment.winner else "control"
    for variant_name, variant in function.variants.items():
        mark = f" ({reason})" if variant_name == chosen else ""
        click.echo(f"\n{printable(variant_name)}{mark}: {printable(variant.model)}")
        if variant.params:
            click.echo(f"  params: {printable(msgspec.json.encode(variant.params).decode())}")
        templates = {"system": variant.system_template, "user": variant.user_template, "assistant": variant.assistant_template}
        for template, source in {**templates, **variant.templates}.items():
            if source is not None:
                click.echo(f"  {printable(template)}:")
                for line in source.splitlines():
                    click.echo(f"    {printable(line)}")


@functions.command("render")
@click.argument("name")
@click.option("--input", "given", metavar="JSON|@FILE", help="A request without `model`, or the input of the system template.")
@click.option("--variant", help="Another variant than the one that serves by default.")
@click.option("--dialect", type=click.Choice(get_args(PreviewDialect)), default="openai_chat", show_default=True, help="The caller's API.")
@json_option
def render_function(name: str, given: str | None, variant: str | None, dialect: str, as_json: bool) -> None:
    """Show what the function NAME would send, without sending it.

    The input is a request as a caller sends it, or {"system": {...}}, which stands for {"narthex::input": {"system": {...}}}.

    \b
    Examples:
      narthex functions render answer --input '{"system": {"name": "Ada"}}'
      narthex functions render answer --variant wordy --input @request.json

    With --json: {"function", "variant", "model", "dialect", "input_tokens", "request"}.
    """
    function = _find(name)
    request = {} if given is None else _read_input(given)
    try:
        preview = prepare_preview(name, function, request, variant, cast("PreviewDialect", dialect)).render_here()
    except RequestError as fault:
        raise OperatorError(fault.message) from None
    if as_json:
        print_json(msgspec.to_builtins(preview))
        return
    click.echo(f"Variant {printable(preview.variant)}, model {printable(preview.model)}, about {preview.input_tokens} input tokens:")
    click.echo(printable(msgspec.json.format(msgspec.json.encode(preview.request), indent=2).decode()))


def _read_input(given: str) -> dict[str, Any]:
    try:
        text = Path(given[1:]).read_text() if given.startswith("@") else given
        request = msgspec.json.decode(text, type=dict[str, Any])
    except OSError as fault:
        raise OperatorError(f"{given[1:]} cannot be read: {fault.strerror}.") from None
    except UnicodeDecodeError:
        raise OperatorError(f"{given[1:]} cannot be read: it is not text in UTF-8.") from None
    except msgspec.DecodeError as fault:
        raise OperatorError(f"--input must be a JSON object: {fault}.") from None
    return {"narthex::input": request} if request.keys() == {"system"} and isinstance(request["system"], dict) else request


def _print_functions(as_json: bool) -> None:
    configured = _read_functions()
    if as_json:
        print_json({"functions": [{"name": name, **msgspec.to_builtins(function)} for name, function in configured.items()]})
    elif not configured:
        click.echo("There are no functions yet: docs/functions.md shows how to write one.")
    else:
        rows = [
            (name, function.type, _format_variants(function), choose_variant(name, function, None)) for name, function in configured.items()
        ]
        print_table(("FUNCTION", "TYPE", "VARIANTS", "DEFAULT"), rows)


def _format_variants(function: FunctionConfig) -> str:
    return ", ".join(f"{name} ({variant.model})" for name, variant in function.variants.items())


def _find(name: str) -> FunctionConfig:
    configured = _read_functions()
    function = configured.get(name)
    if function is None:
        raise OperatorError(f"There is no function {name!r}. There are: {', '.join(configured) or 'none yet'}.")
    return function


def _read_functions() -> dict[str, FunctionConfig]:
    return parse_config_file(query_store(configuration.export)).functions or {}
