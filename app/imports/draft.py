"""Our configuration as it comes together: each entry is checked by the code of `narthex apply`, and left out with its reason if refused."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.domain.errors import BadConfiguration
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.domain.snapshot import Snapshot
from app.imports.free_names import FreeNames
from app.imports.report import Note, Report
from app.store.configuration.config_file import parse_config_file, write_file
from app.store.configuration.snapshots import EMPTY
from app.store.configuration.validation import limits as limit_validation
from app.store.configuration.validation import prices as price_validation
from app.store.configuration.validation import validate as config_validation
from app.store.configuration.validation.limits import counted_subject
from app.store.configuration.validation.paths import price_key


class Imported(Struct, frozen=True):
    """The result of an import: a file that `apply` takes, the number of entries in each section, and notes."""

    text: str
    counts: dict[str, int]
    notes: Sequence[Note]


class Draft:
    """The entries so far. `report` gets the reasons why others were refused."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.providers: dict[str, ProviderConfig] = {}
        self.models: dict[str, ModelConfig] = {}
        self._functions: dict[str, FunctionConfig] = {}
        self._metrics: dict[str, MetricConfig] = {}
        self._limits: dict[object, Limit] = {}
        self._prices: dict[object, Price] = {}
        self._priced: set[tuple[str, str]] = set()
        self._provider_names, self._limit_names = FreeNames(), FreeNames()
        self._providers_by_content: dict[object, str | None] = {}

    def add_provider(self, base_name: str, config: ProviderConfig, path: str) -> str | None:
        """The name of the provider with this content, which begins with `base_name`. None: it was refused."""
        content = base_name, msgspec.json.encode(config)
        if content not in self._providers_by_content:
            valid = self._is_valid(replace(EMPTY, providers={base_name: config}), path)
            self._providers_by_content[content] = self._provider_names.take(base_name) if valid else None
        name = self._providers_by_content[content]
        if name is not None:
            self.providers[name] = config
        return name

    def add_model(self, name: str, config: ModelConfig, path: str) -> bool:
        """Adds a model if it can be served, and reports it otherwise. Returns whether it was added.

        `config` has no fallbacks, which may be models that come later: replace_model() sets them.
        """
        if name in self.models:
            self.report.leave_out(path, f"There is a model {name!r:.100} already.")
            return False
        if not self._is_valid(replace(EMPTY, providers=self._providers_of(config), models={name: config}), path):
            return False
        self.models[name] = config
        return True

    def replace_model(self, name: str, config: ModelConfig, path: str) -> None:
        """Change a model, unless the change is refused. Its fallbacks must be models of the draft."""
        models = {**{each: replace(self.models[each], fallbacks=(), fallback_on={}) for each in config.fallbacks}, name: config}
        providers = {key: value for each in models.values() for key, value in self._providers_of(each).items()}
        if self._is_valid(replace(EMPTY, providers=providers, models=models), path):
            self.models[name] = config

    def add_function(self, name: str, config: FunctionConfig, path: str) -> None:
        if self.accepts_function(name, config, path):
            self._functions[name] = config

    def accepts_function(self, name: str, config: FunctionConfig, path: str) -> bool:
        """Whether a function, which need not be complete, would be added. A refusal is reported."""
        models = {each.model: self.models[each.model] for each in config.variants.values() if each.model in self.models}
        if name in self.models:
            models[name] = self.models[name]  # which has the name that the function cannot have
        providers = {key: value for each in models.values() for key, value in self._providers_of(each).items()}
        bare_models = {key: replace(each, fallbacks=(), fallback_on={}) for key, each in models.items()}
        return self._is_valid(replace(EMPTY, providers=providers, models=bare_models, functions={name: config}), path)

    def add_metric(self, name: str, config: MetricConfig, path: str) -> None:
        if self._is_valid(replace(EMPTY, metrics={name: config}), path):
            self._metrics[name] = config

    def add_limit(self, limit: Limit, path: str) -> None:
        """Adds a limit. Of two limits that count the same, the smaller amount is kept."""
        try:
            limit_validation.validate(replace(EMPTY, models=self.models, limits=(limit,)))
        except BadConfiguration as fault:
            self.report.leave_out(path, str(fault))
            return
        subject = counted_subject(limit)
        other = self._limits.get(subject)
        if other is None:
            self._limits[subject] = replace(limit, name=self._limit_names.take(limit.name))
            return
        larger, smaller = max(other.amount, limit.amount), min(other.amount, limit.amount)
        if larger != smaller:
            self.report.changed(path, f"Another limit counts the same: of {larger:g} and {smaller:g} the smaller amount is used.")
        self._limits[subject] = replace(other, amount=smaller, dry_run=other.dry_run and limit.dry_run)

    def add_price(self, price: Price, path: str) -> None:
        """Adds a price. Of two prices for one model of a provider, the first is kept."""
        known = self._prices.get(price_key(price))
        if known is not None:
            if known != price:
                self.report.leave_out(path, f"Another entry has other prices for {price.model!r:.100} of {price.provider!r:.100}.")
            return
        try:
            price_validation.validate(replace(EMPTY, providers=self.providers, prices=(price,)))
        except BadConfiguration as fault:
            self.report.leave_out(path, str(fault))
            return
        self._prices[price_key(price)] = price
        self._priced.add((price.provider, price.model))

    def has_prices(self, name: str) -> bool:
        """Whether every target of a model has a price, which a limit on cost needs."""
        return all((each.provider, each.model) in self._priced for each in self.models[name].targets)

    def finish(self, header: str) -> Imported:
        """Raises BadConfiguration if `narthex apply` would refuse the file."""
        limits, prices = tuple(self._limits.values()), tuple(self._prices.values())
        sections = {
            **{"providers": self.providers, "models": self.models, "functions": self._functions, "metrics": self._metrics},
            **{"limits": limits, "prices": prices},
        }
        text = header + write_file(replace(EMPTY, **sections), {})
        check_applicable(text)
        return Imported(text, {section: len(entries) for section, entries in sections.items()}, self.report.notes)

    def _providers_of(self, config: ModelConfig) -> dict[str, ProviderConfig]:
        return {each.provider: self.providers[each.provider] for each in config.targets if each.provider in self.providers}

    def _is_valid(self, part: Snapshot, path: str) -> bool:
        try:
            config_validation.validate(part)
        except BadConfiguration as fault:
            self.report.leave_out(path, str(fault))
            return False
        return True


def check_applicable(text: str) -> None:
    """Raises BadConfiguration for what `narthex apply` would refuse of this file."""
    file = parse_config_file(text)
    sections = {
        **{"providers": file.providers or {}, "models": file.models or {}, "functions": file.functions or {}},
        **{"metrics": file.metrics or {}, "limits": file.limits or (), "prices": file.prices or ()},
    }
    config_validation.validate(replace(EMPTY, **sections))
