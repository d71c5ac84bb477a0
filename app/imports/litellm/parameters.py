"""The parameters of one entry of `model_list`: its own, then those of the stored credential that it names."""

from collections.abc import Mapping

from app.imports.report import Report
from app.imports.source_table import SourceTable


class NamedCredentials:
    """The section `credential_list`: values for entries that name them with `litellm_credential_name`."""

    def __init__(self, config: SourceTable) -> None:
        self._report = config.report
        self._values: dict[str, SourceTable] = {}
        self._unused: dict[str, str] = {}
        for each in config.tables("credential_list"):
            name, values = each.text("credential_name"), each.table("credential_values")
            each.read("credential_info")  # for people
            if name is not None:
                self._values[name] = values
                self._unused[name] = each.path

    def find(self, params: SourceTable) -> SourceTable | None:
        name = params.text("litellm_credential_name")
        if name is None:
            return None
        self._unused.pop(name, None)
        if name not in self._values:
            params.report.leave_out(params.path_of("litellm_credential_name"), "`credential_list` has no entry of this name.")
        return self._values.get(name)

    def report_unused(self) -> None:
        for name, path in self._unused.items():
            self._report.leave_out(path, "No entry of model_list names it.")
            for key in self._values[name].keys:
                self._values[name].read(key)


class Parameters:
    """Finds the table that has a key. `params` is `litellm_params` of the entry."""

    def __init__(self, params: SourceTable, credential: SourceTable | None) -> None:
        self.params = params
        self._credential = credential

    @property
    def report(self) -> Report:
        return self.params.report

    def table_with(self, key: str) -> SourceTable:
        if key not in self.params and self._credential is not None and key in self._credential:
            return self._credential
        return self.params

    def first_of(self, *keys: str) -> str | None:
        """The first of these keys that is set; they mean the same."""
        return next((key for key in keys if key in self.table_with(key)), None)

    def __contains__(self, key: str) -> bool:
        return key in self.table_with(key)

    def leave_all_out(self, advice: Mapping[str, str]) -> None:
        for key, text in advice.items():
            self.table_with(key).leave_out(key, text)
