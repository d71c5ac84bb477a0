"""Identities: the credentials of one endpoint, which take turns: one that is refused, or has no more room, rests."""

import time
from collections.abc import Collection, Mapping

from app.gateway.identity import Identity
from providers import credentials
from providers.credentials import Fetch
from providers.credentials.references import Stored, brought


class Identities:
    """Those of one endpoint, in the order in which the configuration names them."""

    def __init__(self, references: tuple[str, ...], stored: Stored, fetch: Fetch) -> None:
        self._stored = stored
        self._fetch = fetch
        self._headers = {each: credentials.header_of(each) for each in references}
        self.kept = [Identity(each, stored, fetch) for each in references if self._headers[each] is None]
        if not references:
            self.kept.append(Identity(None, stored, fetch))
        self._order = references

    @property
    def wanted(self) -> list[str]:
        """The headers in which callers may bring their own."""
        return [header for header in self._headers.values() if header is not None]

    def able(self, said: Mapping[bytes, bytes], model: str) -> list[Identity]:
        """Those to try for a request with these headers for a host's model, best first: as configured, and who rests last.

        Empty: a caller has to bring one. Raises NoCredential for one that can be none.
        """
        if len(self.kept) == 1 and len(self._order) < 2:
            return self.kept
        found: list[Identity] = []
        for reference in self._order:
            header = self._headers[reference]
            if header is None:
                found.append(next(each for each in self.kept if each.reference == reference))
            elif (secret := said.get(header.encode())) is not None:
                found.append(Identity(reference, self._stored, self._fetch, brought(secret.decode("latin-1"), header)))
        now = time.monotonic()
        return sorted(found, key=lambda each: each.cooldown.rests(now, model))

    def rest(self, now: float, model: str) -> bool:
        """Whether all do of those that are the gateway's own."""
        return bool(self.kept) and all(each.cooldown.rests(now, model) for each in self.kept)

    def stored_anew(self, names: Collection[str], gone: Collection[str]) -> None:
        """After others were stored under these names, and none is any more under those that are gone.

        One that cannot be opened here leaves what was read before: whoever rotates keys may have been too quick.
        """
        for each in self.kept:
            kind, _, name = (each.reference or "").partition(":")
            if kind == "store" and name in gone:
                each.lose()
            elif kind == "store" and name in names:
                each.renew()
