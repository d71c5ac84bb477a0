"""The entries of `model_list`: each becomes a target, with what LiteLLM's router knows of it."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from app.domain.routing import Target
from app.imports.draft import Draft
from app.imports.litellm.attempts import AttemptSettings, read_attempt_settings, with_defaults
from app.imports.litellm.model_info import ModelInfo, read_model_info
from app.imports.litellm.parameters import NamedCredentials, Parameters
from app.imports.litellm.prices import add_price
from app.imports.litellm.providers import ProviderReader
from app.imports.litellm.refused_entries import find_refusal
from app.imports.litellm.request_fields import report_request_fields
from app.imports.litellm.settings_advice import ENTRY_PARAMETERS
from app.imports.source_table import SourceTable


class Entry(Struct, frozen=True):
    """An entry that can be served."""

    name: str
    path: str
    target: Target
    info: ModelInfo
    rates: Mapping[str, float]  # its `weight`, `rpm` and `tpm`
    order: float | None  # its rank among the entries of its name
    drop_params: bool | None
    budget: tuple[float, str] | None  # US dollars, and the period as LiteLLM writes it


class EntryReader:
    """Reads the entries of `model_list`. `general` and `max_concurrency` hold for entries that set nothing else."""

    def __init__(
        self,
        draft: Draft,
        providers: ProviderReader,
        named_credentials: NamedCredentials,
        general: AttemptSettings,
        max_concurrency: int | None,
    ) -> None:
        self._draft, self._providers, self._named_credentials = draft, providers, named_credentials
        self._general, self._max_concurrency = general, max_concurrency

    def read_all(self, config: SourceTable) -> Mapping[str, Sequence[Entry]]:
        """The entries by the name that callers use, in their order."""
        entries: dict[str, list[Entry]] = {}
        for table in config.tables("model_list"):
            entry = self._read(table)
            if entry is None:
                table.mark_read()  # what it holds went with it
            else:
                entries.setdefault(entry.name, []).append(entry)
        return entries

    def _read(self, table: SourceTable) -> Entry | None:
        name, params, info_table = table.text("model_name"), table.table("litellm_params"), table.table("model_info")
        if name is None:
            table.report.leave_out(table.path, "It has no model_name.")
            return None
        info = read_model_info(info_table)
        refusal = find_refusal(name, params.read("model"), info.mode)
        if refusal is not None:
            table.report.leave_out(table.path, refusal)
            return None
        parameters = Parameters(params, self._named_credentials.find(params))
        source = self._providers.read(parameters)
        if source is None:
            return None
        add_price(self._draft, source.provider, source.model, params, info_table)
        own = read_attempt_settings(params, ("num_retries", "max_retries"), ("timeout",))
        has_own_timeout = own.timeout_s is not None or own.stream_timeout_s is not None
        limited = read_concurrency(params, "max_parallel_requests")
        target = Target(
            source.provider,
            source.model,
            dialect=source.dialect,
            retries=own.retries,
            timeouts=with_defaults(own, self._general).timeouts() if has_own_timeout else None,
            max_concurrency=self._max_concurrency if limited is None else limited,
        )
        rates = {key: number for key in ("weight", "rpm", "tpm") if (number := _first_number(key, params, table)) is not None}
        parameters.leave_all_out(ENTRY_PARAMETERS)
        report_request_fields(params)
        return Entry(name, table.path, target, info, rates, params.number("order"), params.flag("drop_params"), _read_budget(params))


def read_concurrency(table: SourceTable, key: str) -> int | None:
    number = table.whole(key)
    if number is None or number >= 1:
        return number
    table.report.leave_out(table.path_of(key), "It must be 1 or more; without it there is no limit.")
    return None


def _first_number(key: str, *tables: SourceTable) -> float | None:
    """LiteLLM also reads `rpm` and `tpm` beside `litellm_params`."""
    return next((number for table in tables if (number := table.number(key)) is not None), None)


def _read_budget(params: SourceTable) -> tuple[float, str] | None:
    amount, duration = params.number("max_budget"), params.text("budget_duration")
    if amount is None:
        return None
    if duration is None:
        params.report.leave_out(params.path_of("max_budget"), "A limit needs a period: add a budget_duration, and import again.")
        return None
    return amount, duration
