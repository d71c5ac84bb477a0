"""Locations of credentials: `env::NAME`, `path::FILE`, `dynamic::ARGUMENT`, `sdk`, `none`, and a default with a fallback."""

import re
from collections.abc import Mapping

from app.imports.credentials import CredentialReferences
from app.imports.source_table import SourceTable

_NOT_IN_A_HEADER = re.compile(r"[^a-z0-9]+")


class CredentialReader:
    """Reads where credentials are. `path_from_env::NAME` and the like are looked up in `variables`, the environment."""

    def __init__(self, references: CredentialReferences, variables: Mapping[str, str]) -> None:
        self._references = references
        self._variables = variables

    def read(
        self, table: SourceTable, key: str, default: str | None, provider: str, chain: str | None = None
    ) -> str | tuple[str, ...] | None:
        """The references for the key of a table. `default` is TensorZero's own; `chain` is what `sdk` means."""
        if key not in table:
            return self._convert(default, table, key, provider, chain)
        value = table.read(key)
        if isinstance(value, dict):
            both = table.table(key)
            converted = [self._convert(both.text(name), both, name, provider, chain) for name in ("default", "fallback")]
            found = tuple(dict.fromkeys(each for each in converted if each is not None))
            return found[0] if len(found) == 1 else found or None
        return self._convert(table.text(key), table, key, provider, chain)

    def resolve(self, table: SourceTable, key: str) -> str | None:
        """A setting that is not secret: static, or from this command's environment. None: there is none, which is reported if it is set."""
        value = table.text(key)
        if value is None or value in ("sdk", "none"):
            return None
        kind, separator, location = value.partition("::")
        if not separator or kind not in ("env", "path", "dynamic"):
            return value
        path = table.path_of(key)
        found = self._variables.get(location) if kind == "env" else None
        if found:
            table.report.changed(path, "Its value was read from this command's environment: only credentials can stay variables.")
            return found
        table.report.leave_out(
            path,
            "Its value is a variable that this command's environment lacks: set it, and import again."
            if kind == "env"
            else "Its value must be in the configuration: callers and files cannot set it.",
        )
        return None

    def keys_of_aws(self, path: str, provider: str) -> str:
        """Returns a stored credential for AWS keys that are not those of the machine's chain."""
        return self._references.unreadable(path, provider, 'a JSON object, {"access_key_id": "...", "secret_access_key": "..."}')

    def _convert(self, location: str | None, table: SourceTable, key: str, provider: str, chain: str | None) -> str | None:
        path = table.path_of(key)
        kind, _, name = (location or "none").partition("::")
        match kind:
            case "none":
                return None
            case "sdk":
                return chain
            case "env":
                return self._references.variable(name, path, provider)
            case "path":
                return self._references.file(name, path, provider)
            case "path_from_env":
                return self._convert_variable_of_file(name, path, provider)
            case "dynamic":
                header = f"x-{_NOT_IN_A_HEADER.sub('-', name.lower()).strip('-')[:60]}"
                table.report.changed(path, f"Callers send this credential in the header {header}, not among `credentials` of the body.")
                return f"header:{header}"
            case _:
                return self._references.unreadable(path, provider, "the secret")

    def _convert_variable_of_file(self, name: str, path: str, provider: str) -> str:
        file = self._variables.get(name)
        if file and file.startswith("/"):
            return self._references.file(file, path, provider)
        form = "the JSON of the service account; or set the variable with its path in this command's environment, and import again"
        return self._references.unreadable(path, provider, form)
