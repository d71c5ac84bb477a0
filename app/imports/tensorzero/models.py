"""Reads the sections `[models.NAME]` and `[embedding_models.NAME]`, and models that variants name by a provider's own name."""

from app.domain.routing import ModelConfig, Target, TimeoutConfig
from app.imports.draft import Draft
from app.imports.source_table import SourceTable
from app.imports.tensorzero.attempts import fit_timeouts, read_timeouts, read_total_timeout
from app.imports.tensorzero.costs import add_price
from app.imports.tensorzero.providers import ProviderReader


class ModelReader:
    """Makes the models of a draft."""

    def __init__(self, draft: Draft, providers: ProviderReader) -> None:
        self._draft = draft
        self._providers = providers

    def read_all(self, config: SourceTable) -> None:
        for section in ("models", "embedding_models"):
            for name, table in config.named_tables(section):
                self._read(name, table)

    def find(self, name: str, table: SourceTable, key: str) -> str | None:
        """The model of the draft that a variant means; a short-hand name becomes a model of that name. None: there is none."""
        if name in self._draft.models:
            return name
        source = self._providers.read_shorthand(name, table.path_of(key), table.report)
        if source is None:
            return None
        model = ModelConfig((Target(source.provider, source.model, dialect=source.dialect),))
        return name if self._draft.add_model(name, model, table.path_of(key)) else None

    def _read(self, name: str, table: SourceTable) -> None:
        providers = dict(table.named_tables("providers"))
        targets: list[Target] = []
        model_timeouts = _read_all_timeouts(table)
        for provider_name in dict.fromkeys(table.texts("routing")):
            provider = providers.pop(provider_name, None)
            if provider is None:
                table.report.leave_out(table.path_of("routing"), f"It has no provider {provider_name!r:.100}.")
                continue
            timeouts = fit_timeouts(_read_all_timeouts(provider), model_timeouts)
            source = self._providers.read(provider)
            if source is not None:
                add_price(self._draft, source.provider, source.model, provider)
                targets.append(Target(source.provider, source.model, dialect=source.dialect, timeouts=timeouts))
        for unused in providers.values():
            unused.mark_read()
            table.report.leave_out(unused.path, "The model's `routing` does not name it.")
        table.leave_out("skip_relay", "There is no relay: each model has the providers that serve it.")
        table.leave_out("namespace", "Keys name the models that they may use: `narthex keys create --team T --model NAME`.")
        if targets:
            self._draft.add_model(name, ModelConfig(tuple(targets), timeouts=model_timeouts), table.path)
        else:
            table.mark_read()
            table.report.leave_out(table.path, "None of its providers was brought.")


def _read_all_timeouts(table: SourceTable) -> TimeoutConfig | None:
    """Reads the timeouts of a provider, which are a single number for an embedding model."""
    return read_total_timeout(table, "timeout_ms") if "timeout_ms" in table else read_timeouts(table)
