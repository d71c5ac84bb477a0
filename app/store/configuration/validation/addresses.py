"""Addresses of providers and targets that are new: those that the gateway does not call are refused. What is configured already stays."""

from collections.abc import Iterator

import httpx2

from app.domain.errors import BadConfiguration
from app.domain.snapshot import Snapshot
from providers.transport.address_guard import AddressGuard, AddressRefused


def check_new_addresses(before: Snapshot, wanted: Snapshot, guard: AddressGuard) -> None:
    """Raises BadConfiguration for a new address that is refused.

    What a name stands for is looked at when it is called.
    """
    known = {address for _, address in _addresses(before)}
    for path, address in _addresses(wanted):
        if address in known:
            continue
        url = httpx2.URL(address.removeprefix("dns+"))
        try:
            guard.check_host(url.host, url.port or (443 if url.scheme == "https" else 80))
        except AddressRefused as refused:
            raise BadConfiguration(f"{path}: {refused}.") from None


def _addresses(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yields the addresses of valid entries, with their paths in a file."""
    for name, provider in snapshot.providers.items():
        if provider.base_url is not None:
            yield f"providers.{name}.base_url", provider.base_url
    for name, model in snapshot.models.items():
        for at, target in enumerate(model.targets):
            for address in target.endpoints:
                yield f"models.{name}.targets[{at}].endpoints", address
