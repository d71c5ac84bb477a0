"""Credentials of an import: references in place of the secrets, which are neither written nor reported."""

import re

from app.imports.free_names import FreeNames
from app.imports.report import Report
from providers.credentials import CredentialError
from providers.credentials import check as check_reference

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
# What people write where an engine wants no key.
_PLACEHOLDERS = frozenset({"none", "null", "empty", "dummy", "fake", "fake-key", "na", "n/a", "not-needed", "no-key-required", "anything"})


class CredentialReferences:
    """Turns the source's credentials into references of ours. Equal secrets get one name."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stored: dict[str, str] = {}
        self._names = FreeNames()

    def variable(self, name: str, path: str, provider: str) -> str:
        """Returns `env:NAME`; a stored credential instead of a variable that is the gateway's own."""
        reference = f"env:{name}"
        try:
            check_reference(reference)
        except CredentialError:
            stored = self._store(f"the variable {name}", provider)
            self._report.to_do(
                path,
                "The gateway does not send this variable to providers, as it is its own, or no variable's name: `narthex credentials set"
                f" {stored}` stores the secret.",
            )
            return f"store:{stored}"
        return reference

    def literal(self, secret: str, path: str, provider: str, form: str = "the key") -> str | None:
        """Returns `store:NAME` in place of a secret; None for a placeholder that means none."""
        if secret.strip().lower() in _PLACEHOLDERS:
            return None
        stored = self._store(secret, provider)
        self._report.to_do(path, f"The secret itself is not written: `narthex credentials set {stored}` stores {form}.")
        return f"store:{stored}"

    def file(self, path_there: str, path: str, provider: str) -> str:
        """Returns `file:PATH`; a stored credential instead of a path that is not absolute."""
        if not path_there.startswith("/"):
            return self.unreadable(path, provider, "the file's content")
        self._report.to_do(
            path, "Files of credentials are only read below the folders of NARTHEX_CREDENTIAL_FOLDERS (docs/credentials.md): move it there."
        )
        return f"file:{path_there}"

    def unreadable(self, path: str, provider: str, form: str) -> str:
        """Returns `store:NAME` for a credential that cannot be said otherwise."""
        stored = self._store(path, provider)
        self._report.to_do(path, f"`narthex credentials set {stored}` stores {form}.")
        return f"store:{stored}"

    def _store(self, identity: str, provider: str) -> str:
        if identity not in self._stored:
            self._stored[identity] = self._names.take((_NOT_IN_A_NAME.sub("-", provider).strip("-._") or "imported")[:80])
        return self._stored[identity]
