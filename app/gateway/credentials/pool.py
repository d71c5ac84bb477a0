"""Identities: the credentials of one endpoint, which take turns: one that is refused, or has no more room, rests."""

import time
from collections.abc import Collection, Mapping

from app.gateway.credentials.client import CredentialClient
from providers import credentials
from providers.credentials import Fetch
from providers.credentials.references import SecretLookup, read_caller_credential


class CredentialPool:
    """Those of one endpoint, in the order in which the configuration names them."""

    def __init__(self, references: tuple[str, ...], stored: SecretLookup, fetch: Fetch) -> None:
        self._stored = stored
        self._fetch = fetch
        self._caller_headers = {each: credentials.header_of(each) for each in references}
        self.gateway_clients = [CredentialClient(each, stored, fetch) for each in references if self._caller_headers[each] is None]
        if not references:
            self.gateway_clients.append(CredentialClient(None, stored, fetch))
        self._order = references

    @property
    def caller_header_names(self) -> list[str]:
        """The headers in which callers may bring their own."""
        return [header for header in self._caller_headers.values() if header is not None]

    def candidates(self, headers: Mapping[bytes, bytes], model: str) -> list[CredentialClient]:
        """Those to try for a request with these headers for a host's model, best first: as configured, and who rests last.

        Empty: a caller has to bring one. Raises NoCredential for one that can be none.
        """
        if len(self.gateway_clients) == 1 and len(self._order) < 2:
            return self.gateway_clients
        clients: list[CredentialClient] = []
        for reference in self._order:
            header = self._caller_headers[reference]
            if header is None:
                clients.append(next(each for each in self.gateway_clients if each.reference == reference))
            elif (secret := headers.get(header.encode())) is not None:
                clients.append(
                    CredentialClient(reference, self._stored, self._fetch, read_caller_credential(secret.decode("latin-1"), header))
                )
        now = time.monotonic()
        return sorted(clients, key=lambda each: each.cooldown.in_cooldown(now, model))

    def in_cooldown(self, now: float, model: str) -> bool:
        """Whether all do of those that are the gateway's own."""
        return bool(self.gateway_clients) and all(each.cooldown.in_cooldown(now, model) for each in self.gateway_clients)

    def reload_stored(self, names: Collection[str], removed: Collection[str]) -> None:
        """After others were stored under these names, and none is any more under those that are gone.

        One that cannot be opened here leaves what was read before: whoever rotates keys may have been too quick.
        """
        for each in self.gateway_clients:
            kind, _, name = (each.reference or "").partition(":")
            if kind == "store" and name in removed:
                each.invalidate()
            elif kind == "store" and name in names:
                each.reload()
