"""narthex models: list models, and show one with what may be dropped from its requests."""

from collections.abc import Iterator
from typing import Literal

import click
import msgspec
from msgspec import Struct

from app.cli.errors import OrderedGroup
from app.cli.models_check import check_models
from app.cli.nouns.shadow_line import describe_shadow
from app.cli.output import format_drop, json_option, pluralize, print_json, print_table, printable
from app.cli.store_query import query_store
from app.domain.callers import DroppableFields
from app.domain.routing import ModelConfig
from app.domain.serving_models import serving_models
from app.gateway.routing.permissions import matches
from app.store.configuration import configuration
from app.store.configuration.config_file import ConfigFile, parse_config_file
from app.store.keys.key_format import public_prefix
from app.store.teams import shown_keys, teams
from app.store.teams.shown_keys import KeyRow
from app.store.teams.teams import Team
from app.supervisor.machine.errors import OperatorError

_MAX_CALLERS_SHOWN = 1000  # of teams, and of keys


class _Drop(Struct, frozen=True):
    """Fields that may be dropped, and whose option `drop` says so. `team`: of a key."""

    by: Literal["model", "arm", "fallback", "provider", "team", "key"]
    name: str
    fields: DroppableFields
    team: str | None = None


@click.group(cls=OrderedGroup, invoke_without_command=True)
@json_option
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List models: the names that callers may use, and what serves them.

    Without a command this is `list`.

    \b
    Examples:
      narthex models
      narthex models show small-1
    """
    if context.invoked_subcommand is None:
        _print_models(as_json)
    elif as_json:
        raise click.UsageError(f"Put options after the command: narthex models {context.invoked_subcommand} ...")


models.add_command(check_models)


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List models.

    \b
    Example:
      narthex models list

    With --json: {"models": [{"name", "targets": [{"provider", "model", ...}], "fallbacks", "drop", ...}]}, as in a configuration
    file.
    """
    _print_models(as_json)


@models.command("show")
@click.argument("name")
@json_option
def show_model(name: str, as_json: bool) -> None:
    """Show the model NAME, and which fields may be dropped from its requests.

    A field that a target cannot honour is dropped if the caller's header, the model, the arm, the fallback or the provider that
    serves, the caller's team or its key names it. Keys that may not use the model, and expired ones, are left out.

    \b
    Example:
      narthex models show small-1

    With --json: {"name", "targets", "fallbacks", "output_tokens", "drop", "may_drop": [{"by": "model", "arm", "fallback", "provider",
    "team" or "key", "name", "fields": "all" or a list of names, "team"}], "more": whether more teams or keys have the option}.
    """
    file = _read_configuration()
    configured = file.models or {}
    model = configured.get(name)
    if model is None:
        raise OperatorError(f"There is no model {name!r}. There are: {', '.join(configured) or 'none yet'}.")
    dropping_teams = query_store(lambda url: teams.list_teams(url, limit=_MAX_CALLERS_SHOWN + 1, with_drop=True))
    dropping_keys = query_store(lambda url: shown_keys.list_keys(url, limit=_MAX_CALLERS_SHOWN + 1, valid_only=True, with_drop=True))
    drops = [
        *_drops_of_targets(name, model, file),
        *_drops_of_callers(name, dropping_teams[:_MAX_CALLERS_SHOWN], dropping_keys[:_MAX_CALLERS_SHOWN]),
    ]
    has_more = max(len(dropping_teams), len(dropping_keys)) > _MAX_CALLERS_SHOWN
    if as_json:
        print_json({"name": name, **_with_defaults(model), "may_drop": drops, "more": has_more})
    else:
        _print_model(name, model, drops, has_more=has_more)


def _drops_of_targets(name: str, model: ModelConfig, file: ConfigFile) -> Iterator[_Drop]:
    if model.drop:
        yield _Drop("model", name, model.drop)
    models = file.models or {}
    arms = [each for each in serving_models(models, name) if each != name]
    served_by = {each: models[each] for each in (name, *arms, *model.fallbacks)}
    for arm in arms:
        if served_by[arm].drop:
            yield _Drop("arm", arm, served_by[arm].drop)
    for fallback in model.fallbacks:
        if served_by[fallback].drop and fallback not in arms:
            yield _Drop("fallback", fallback, served_by[fallback].drop)
    for provider in dict.fromkeys(target.provider for each in served_by.values() for target in each.targets):
        drop = (file.providers or {})[provider].drop
        if drop:
            yield _Drop("provider", provider, drop)


def _drops_of_callers(model: str, dropping_teams: list[Team], dropping_keys: list[KeyRow]) -> Iterator[_Drop]:
    for team in dropping_teams:
        yield _Drop("team", team.name, team.drop)
    for key in dropping_keys:
        if key.models is None or matches(key.models, model):
            yield _Drop("key", public_prefix(key.prefix), key.drop, key.team)


def _print_model(name: str, model: ModelConfig, drops: list[_Drop], *, has_more: bool) -> None:
    click.echo(f"{printable(name)} is served by {printable(_format_serving(name, model))}.")
    if model.fallbacks:
        fallbacks = [f"{each} (on {', '.join(model.fallback_on[each])})" if each in model.fallback_on else each for each in model.fallbacks]
        click.echo(f"Fallbacks: {printable(', '.join(fallbacks))}.")
    if model.shadow is not None:
        click.echo(describe_shadow(model.shadow))
    if model.output_tokens is not None:
        click.echo(f"Limits reserve {pluralize(model.output_tokens, 'output token')} for a response of unknown length.")
    if not drops:
        click.echo("No field may be dropped from its requests, but for what callers name in a header.")
        return
    click.echo("\nFields that may be dropped from its requests where a target cannot honour them:")
    cells = [(each.by, f"{each.name} of team {each.team}" if each.team else each.name, format_drop(each.fields)) for each in drops]
    print_table(("OPTION OF", "NAME", "FIELDS"), cells)
    if has_more:
        click.echo(f"More than {_MAX_CALLERS_SHOWN} teams or keys have the option: `teams list` and `keys list` show all.", err=True)


def _print_models(as_json: bool) -> None:
    configured = _read_configuration().models or {}
    if as_json:
        print_json({"models": [{"name": name, **_with_defaults(model)} for name, model in configured.items()]})
    elif not configured:
        click.echo("There are no models yet: `narthex apply` takes a file that names some; docs/configuration.md has an example.")
    else:
        print_table(
            ("MODEL", "SERVED BY", "FALLBACKS", "MAY DROP"),
            [(name, _format_serving(name, each), ", ".join(each.fallbacks), format_drop(each.drop)) for name, each in configured.items()],
        )


def _read_configuration() -> ConfigFile:
    return parse_config_file(query_store(configuration.export))


def _with_defaults(model: ModelConfig) -> dict[str, object]:
    """All fields, those at their defaults included."""
    return {**msgspec.structs.asdict(model), "targets": [msgspec.structs.asdict(each) for each in model.targets]}


def _format_serving(name: str, model: ModelConfig) -> str:
    experiment = model.experiment
    if experiment is None:
        return _format_targets(model)
    if experiment.status != "running":
        serving = experiment.winner or experiment.control_arm(name if name in experiment.arms else None)
        return f"{serving} (its experiment {'is a draft' if experiment.status == 'draft' else 'has ended'})"
    return "the arms " + ", ".join(f"{arm} (weight {weight:g})" for arm, weight in experiment.arms.items())


def _format_targets(model: ModelConfig) -> str:
    return ", ".join(
        f"{each.provider}/{each.model}" + (f" (weight {each.weight:g})" if each.weight is not None else "") for each in model.targets
    )
