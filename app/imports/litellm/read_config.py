"""LiteLLM's config.yaml as a configuration of ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from app.domain.errors import BadConfiguration
from app.domain.limits import Limit
from app.imports.cost_limits import add_budget
from app.imports.draft import Draft, Imported
from app.imports.litellm.attempts import read_attempt_settings, with_defaults
from app.imports.litellm.entries import Entry, EntryReader, read_concurrency
from app.imports.litellm.environment import Environment
from app.imports.litellm.fallbacks import Fallbacks
from app.imports.litellm.included_files import TWICE, with_included_files
from app.imports.litellm.models import add_aliases, add_entry_limits, add_models
from app.imports.litellm.parameters import NamedCredentials
from app.imports.litellm.providers import ProviderReader
from app.imports.litellm.settings_advice import GENERAL_SETTINGS, LITELLM_SETTINGS, ROUTER_SETTINGS, SECTIONS
from app.imports.litellm.yaml_text import parse_yaml
from app.imports.report import Report
from app.imports.source_table import SourceTable

_HEADER = "# Imported from LiteLLM by `narthex import`. Read it, then: narthex apply FILE\n\n"
# The strategies in which LiteLLM refuses by `rpm` and `tpm`; in the others they only weigh.
_STRATEGIES_WITH_LIMITS = ("usage-based-routing", "usage-based-routing-v2")
_WEIGHTED_STRATEGY = "simple-shuffle"
_NO_CONFIGURATION = "The file is no configuration of LiteLLM's proxy: it has no list `model_list`."
_KEY_LIMITS: Mapping[str, Limit] = {
    "rpm_limit": Limit("requests per minute of a key", {"key": "each"}, "requests", 0, "minute"),
    "tpm_limit": Limit("tokens per minute of a key", {"key": "each"}, "tokens", 0, "minute"),
    "max_parallel_requests": Limit("requests in progress of a key", {"key": "each"}, "concurrency", 0),
}


def import_litellm(text: str, variables: Mapping[str, str], folder: Path | None = None) -> Imported:
    """Reads a config.yaml of LiteLLM's proxy. Raises BadConfiguration for a file that is no such configuration.

    `variables` is the environment, from which addresses and the like are read where the file names a variable; secrets never are. `folder`
    is that of the file, below which files lie that it includes; None means that none are read.
    """
    report = Report()
    document = parse_yaml(text, lambda path: report.changed(path, TWICE))
    if not isinstance(document, dict):
        raise BadConfiguration(_NO_CONFIGURATION)
    merged = with_included_files(cast("dict[str, Any]", document), folder, report)
    if not isinstance(merged.get("model_list"), list):
        raise BadConfiguration(_NO_CONFIGURATION)
    config = SourceTable(merged, "", report)
    draft = Draft(report)
    _read(config, draft, variables)
    config.report_unread()
    return draft.finish(_HEADER)


def _read(config: SourceTable, draft: Draft, variables: Mapping[str, str]) -> None:
    litellm, router, general = (config.table(name) for name in ("litellm_settings", "router_settings", "general_settings"))
    environment = Environment(variables, _read_variables(config))
    named_credentials = NamedCredentials(config)
    # router_settings count before litellm_settings.
    attempts = with_defaults(
        read_attempt_settings(router, ("num_retries", "max_retries"), ("timeout",)),
        read_attempt_settings(litellm, ("num_retries",), ("request_timeout",)),
    )
    providers = ProviderReader(draft, environment)
    entries = EntryReader(
        draft, providers, named_credentials, attempts, read_concurrency(router, "default_max_parallel_requests")
    ).read_all(config)
    named_credentials.report_unused()
    add_models(draft, entries, attempts, litellm)
    aliases = _read_aliases(router)
    add_aliases(draft, entries, aliases)
    Fallbacks((router, litellm), _ids(entries)).apply(draft, {alias: name for alias, (name, _) in aliases.items()})
    add_entry_limits(draft, entries, enforced=_refuses_by_rates(router))
    _add_general_limits(draft, litellm, general)
    for table, advice in ((litellm, LITELLM_SETTINGS), (general, GENERAL_SETTINGS), (router, ROUTER_SETTINGS), (config, SECTIONS)):
        table.leave_all_out(advice)
    config.leave_out("include", "It should be a list of files.")


def _read_variables(config: SourceTable) -> Mapping[str, str]:
    table = config.table("environment_variables")
    values: dict[str, str] = {}
    for name in table.keys:
        value = table.read(name)
        if value is not None:
            config.report.to_do(table.path_of(name), "Set this variable in the gateway's environment, if a credential `env:` names it.")
            values[name] = str(value)
    return values


def _read_aliases(router: SourceTable) -> Mapping[str, tuple[str, str]]:
    """Reads `model_group_alias`: the models, and the paths of the aliases, by alias."""
    table = router.table("model_group_alias")
    aliases: dict[str, tuple[str, str]] = {}
    for alias in table.keys:
        path = table.path_of(alias)
        if isinstance(table.read(alias), dict):
            item = table.table(alias)
            name = item.text("model")
            item.leave_out("hidden", "All models are listed to the keys that may use them.")
        else:
            name = table.text(alias)
        if name is not None:
            aliases[alias] = name, path
    return aliases


def _ids(entries: Mapping[str, Sequence[Entry]]) -> Mapping[str, str]:
    return {entry.info.id: name for name, of_name in entries.items() for entry in of_name if entry.info.id is not None}


def _refuses_by_rates(router: SourceTable) -> bool:
    strategy = router.text("routing_strategy") or _WEIGHTED_STRATEGY
    if strategy != _WEIGHTED_STRATEGY:
        router.report.changed(
            router.path_of("routing_strategy"),
            "Targets are drawn by weight; among several `endpoints` of one target the load and the prompt's prefix decide (docs/fleet.md).",
        )
    checks = router.read("optional_pre_call_checks")
    return strategy in _STRATEGIES_WITH_LIMITS or (isinstance(checks, list) and "enforce_model_rate_limits" in checks)


def _add_general_limits(draft: Draft, litellm: SourceTable, general: SourceTable) -> None:
    """Limits on everything, and on each key."""
    in_all = read_concurrency(general, "global_max_parallel_requests")
    if in_all is not None:
        limit = Limit("requests in progress", {"all": "each"}, "concurrency", in_all)
        draft.add_limit(limit, general.path_of("global_max_parallel_requests"))
    _add_budget_of(draft, litellm, "cost", {"all": "each"})
    keys = litellm.table("default_key_generate_params")
    for name, limit in _KEY_LIMITS.items():
        amount = read_concurrency(keys, name)
        if amount is not None:
            draft.add_limit(replace(limit, amount=amount), keys.path_of(name))
            draft.report.changed(keys.path_of(name), "It holds for every key; a `scope` can name one (docs/configuration.md#limits).")
    _add_budget_of(draft, keys, "cost of a key", {"key": "each"})
    advice = "Given when a key is made: `narthex keys create`."
    keys.leave_all_out(dict.fromkeys(("duration", "models", "metadata", "team_id", "budget_id", "permissions", "aliases"), advice))


def _add_budget_of(draft: Draft, table: SourceTable, name: str, scope: Mapping[str, str]) -> None:
    amount, duration = table.number("max_budget"), table.text("budget_duration")
    if amount is not None and duration is not None:
        add_budget(draft, Limit(name, scope, "cost_usd", amount), duration, table.path_of("max_budget"))
    elif amount is not None:
        draft.report.leave_out(table.path_of("max_budget"), "A limit needs a period: add a budget_duration, and import again.")
