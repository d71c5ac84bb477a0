"""Values that LiteLLM takes from its environment: `os.environ/NAME`, and the default variables of providers."""

from collections.abc import Mapping

from app.imports.source_table import SourceTable

_PREFIX = "os.environ/"


class Environment:
    """The variables that a configuration may name.

    `variables` is the environment of this command, and `configured` the file's `environment_variables`, which LiteLLM sets at its start.
    """

    def __init__(self, variables: Mapping[str, str], configured: Mapping[str, str]) -> None:
        self._values = {**variables, **configured}

    def resolve(self, table: SourceTable, key: str) -> str | None:
        """The text of a key that is not secret, from the environment if it names a variable there. None: there is none, which is reported
        if the key is set."""
        value = table.text(key)
        if value is None or (name := variable_of(value)) is None:
            return value
        found = self._values.get(name)
        path = table.path_of(key)
        if not found:
            table.report.leave_out(path, "Its value is a variable that this command's environment lacks: set it, and import again.")
            return None
        table.report.changed(path, "Its value was read from this command's environment: only credentials can stay variables.")
        return found

    def first_of(self, *names: str) -> str | None:
        """The first of these variables that is set."""
        return next((value for name in names if (value := self._values.get(name))), None)


def variable_of(value: str) -> str | None:
    """The variable that a value names; None: it is the value itself."""
    return value.removeprefix(_PREFIX) if value.startswith(_PREFIX) else None
