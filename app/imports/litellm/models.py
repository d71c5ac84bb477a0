"""Models of the draft, from the entries of each name."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from app.domain.limits import Limit, Resource
from app.domain.routing import ModelConfig, Target
from app.imports.cost_limits import add_budget
from app.imports.draft import Draft
from app.imports.litellm.attempts import AttemptSettings
from app.imports.litellm.entries import Entry
from app.imports.report import Report
from app.imports.source_table import SourceTable

# In LiteLLM's order: the first that any entry has decides.
_WEIGHTS = ("weight", "rpm", "tpm")
_RATES: tuple[tuple[str, Resource], ...] = (("rpm", "requests"), ("tpm", "tokens"))


_DROPS_ALL = (
    'Models have `drop = "all"` for it, which also leaves out what bounds a response, such as tools and schemas, where a target cannot'
    " honour it. A list of fields is safer (docs/configuration.md#fields-that-may-be-dropped)."
)

_DROPS_FOR_ALL = "`drop` is of a model: it holds for this entry, too, if another entry of the model or litellm_settings has drop_params."


def add_models(draft: Draft, entries: Mapping[str, Sequence[Entry]], general: AttemptSettings, litellm: SourceTable) -> None:
    """Adds a model for each name. `general` holds for all models; `litellm` is the section `litellm_settings`."""
    drop_params = litellm.flag("drop_params") or False
    if drop_params:
        draft.report.changed(litellm.path_of("drop_params"), _DROPS_ALL)
    for name, of_name in entries.items():
        info = [each.info for each in of_name]
        lengths = {each.context_length for each in info}
        drops = {drop_params if each.drop_params is None else each.drop_params for each in of_name}
        config = ModelConfig(
            targets=_weigh(of_name, draft.report),
            retries=general.retries,
            timeouts=general.timeouts(),
            drop="all" if True in drops else (),
            context_length=lengths.pop() if len(lengths) == 1 else None,
            capabilities=tuple(dict.fromkeys(capability for each in info for capability in each.capabilities)),
        )
        draft.add_model(name, config, of_name[0].path)
        for each in of_name:
            if each.drop_params is not None and each.drop_params != drop_params:
                draft.report.changed(f"{each.path}.litellm_params.drop_params", _DROPS_ALL if each.drop_params else _DROPS_FOR_ALL)


def add_aliases(draft: Draft, entries: Mapping[str, Sequence[Entry]], aliases: Mapping[str, tuple[str, str]]) -> None:
    """Adds a copy of the model for each alias. `aliases` has the model that each stands for, and the path of that statement."""
    for alias, (name, path) in aliases.items():
        if name not in entries or name not in draft.models:
            draft.report.leave_out(path, "No such model was brought.")
        elif draft.add_model(alias, draft.models[name], path):
            draft.report.changed(path, "The alias is a copy of the model: limits on one do not count the other.")


def add_entry_limits(draft: Draft, entries: Mapping[str, Sequence[Entry]], *, enforced: bool) -> None:
    """Limits of models by `rpm`, `tpm` and `max_budget`. With `enforced` LiteLLM refuses by `rpm` and `tpm`; else they only weigh."""
    for name, of_name in entries.items():
        if name not in draft.models:
            continue
        path = of_name[0].path
        for rate, resource in _RATES:
            amounts = [each.rates[rate] for each in of_name if rate in each.rates]
            if not amounts:
                continue
            if len(amounts) < len(of_name):
                draft.report.leave_out(f"{path}.litellm_params.{rate}", "Not every entry of this model has one, so it bounds nothing.")
                continue
            limit = Limit(f"{name} {resource} per minute", {"model": name}, resource, sum(amounts), "minute", dry_run=not enforced)
            draft.add_limit(limit, f"{path}.litellm_params.{rate}")
            if not enforced:
                draft.report.changed(
                    f"{path}.litellm_params.{rate}",
                    "LiteLLM chooses by it and refuses nobody, so the limit is a `dry_run`: remove that to enforce it.",
                )
        _add_budgets(draft, name, of_name)


def _weigh(entries: Sequence[Entry], report: Report) -> tuple[Target, ...]:
    """The targets, with weights as LiteLLM's simple-shuffle has them; in order, where the entries have one."""
    orders = {each.order for each in entries}
    if orders != {None} and len(entries) > 1:
        if len(orders) < len(entries):
            report.changed(entries[0].path, "Entries of the same `order` are tried one after the other, not by weight.")
        return tuple(each.target for each in sorted(entries, key=lambda each: float("inf") if each.order is None else each.order))
    if len(entries) == 1:
        return (entries[0].target,)
    by = next((rate for rate in _WEIGHTS if any(each.rates.get(rate, 0) > 0 for each in entries)), None)
    if by is None:
        return tuple(replace(each.target, weight=1.0) for each in entries)
    for each in entries:
        if each.rates.get(by, 0) <= 0:
            report.changed(each.path, f"It has no `{by}`, and others of its name have: as in LiteLLM, it is never chosen (weight 0).")
    return tuple(replace(each.target, weight=max(each.rates.get(by, 0.0), 0.0)) for each in entries)


def _add_budgets(draft: Draft, name: str, entries: Sequence[Entry]) -> None:
    for each in entries:
        if each.budget is None:
            continue
        path = f"{each.path}.litellm_params.max_budget"
        if len(entries) > 1:
            draft.report.leave_out(path, "A limit counts a model, not one of its targets: give the entry a model_name of its own.")
            continue
        amount, duration = each.budget
        add_budget(draft, Limit(f"{name} cost", {"model": name}, "cost_usd", amount), duration, path)
