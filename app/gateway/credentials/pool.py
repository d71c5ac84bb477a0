"""CredentialPool: the credentials of one endpoint. One that is refused or has no capacity left is tried last."""

import time
from collections.abc import Collection, Mapping

from app.gateway.credentials.client import CredentialClient
from providers import credentials
from providers.credentials import Fetch
from providers.credentials.references import CredentialReader, read_caller_credential


class CredentialPool:
    """The credentials of one endpoint, in the order of the configuration. A reference may also name a header of the caller's."""

    def __init__(self, references: tuple[str, ...], reader: CredentialReader, fetch: Fetch) -> None:
        self._reader = reader
        self._fetch = fetch
        self._caller_headers = {each: credentials.header_of(each) for each in references}
        self.gateway_clients = [CredentialClient(each, reader, fetch) for each in references if self._caller_headers[each] is None]
        if not references:
            self.gateway_clients.append(CredentialClient(None, reader, fetch))
        self._order = references
        # The credential that every request tries. None: there are several, or callers send one.
        self.only_client = self.gateway_clients[0] if len(self.gateway_clients) == 1 and len(references) < 2 else None

    @property
    def caller_header_names(self) -> list[str]:
        """The headers in which callers may send a credential of their own."""
        return [header for header in self._caller_headers.values() if header is not None]

    def candidates(self, headers: Mapping[bytes, bytes], model: str) -> list[CredentialClient]:
        """The credentials to try, best first: in the configured order, those in cooldown last. Empty: the caller has to send one and did
        not.

        `headers` are the caller's; `model` is named as the host does. Raises CredentialError for a caller's credential that cannot be one.
        """
        if self.only_client is not None:
            return self.gateway_clients
        clients: list[CredentialClient] = []
        for reference in self._order:
            header = self._caller_headers[reference]
            if header is None:
                clients.append(next(each for each in self.gateway_clients if each.reference == reference))
            elif (secret := headers.get(header.encode())) is not None:
                clients.append(
                    CredentialClient(reference, self._reader, self._fetch, read_caller_credential(secret.decode("latin-1"), header))
                )
        now = time.monotonic()
        return sorted(clients, key=lambda each: each.cooldown.in_cooldown(now, model))

    def in_cooldown(self, now: float, model: str) -> bool:
        """Whether all of the gateway's own credentials are in cooldown for a model; False if it has none."""
        return bool(self.gateway_clients) and all(each.cooldown.in_cooldown(now, model) for each in self.gateway_clients)

    def reload_stored(self, names: Collection[str], removed: Collection[str]) -> None:
        """Reads the credentials stored under `names` again, and forgets those under `removed`.

        One that cannot be decrypted leaves the secret read before: during a rotation of keys this worker may not have the new key yet.
        """
        for each in self.gateway_clients:
            kind, _, name = (each.reference or "").partition(":")
            if kind == "store" and name in removed:
                each.invalidate()
            elif kind == "store" and name in names:
                each.reload()
