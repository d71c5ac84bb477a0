"""Reports what the gateway finds at the addresses of a configuration that was just applied, before callers do."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from app.cli.admin_api import AdminAccess, find_access, send
from app.cli.errors import CommandError
from app.settings import Settings
from app.supervisor.machine.errors import OperatorError

_LONGEST_WAIT_S = 3.0
_PAUSE_S = 0.1
_TIMEOUT_S = 2.0
_REASONS = {"no_api", "refused"}


def find_wrong_addresses(settings: Settings, providers: Collection[str]) -> list[str]:
    """A sentence for each endpoint of these providers whose address or credential is wrong, as one of the gateway's processes sees it.

    Waits a moment for its probes. Empty where the gateway cannot be asked: the configuration is applied whether or not it runs.
    """
    try:
        access = find_access(settings)
        deadline = time.monotonic() + _LONGEST_WAIT_S
        endpoints = _read(settings, access, providers)
        while any(each["health"] == "unknown" for each in endpoints) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            endpoints = _read(settings, access, providers)
    except (CommandError, OperatorError):
        return []
    return [f"{each['provider']} at {each['endpoint']}: {each['warning']}." for each in endpoints if each["health"] in _REASONS]


def _read(settings: Settings, access: AdminAccess, providers: Collection[str]) -> list[Mapping[str, Any]]:
    """Raises CommandError."""
    response = send(settings, access, "GET", "/admin/v1/endpoints?limit=1000", timeout_s=_TIMEOUT_S)
    return [each for each in response.document.get("data", ()) if each["provider"] in providers]
