"""Finding: one thing that the doctor reports."""

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning", "ok"]

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "ok": 2}


class Finding(Struct, frozen=True):
    """A finding of the doctor, with `advice` on what to do.

    An `error` does not work, or will lose something. A `warning` works, but may not for long.
    """

    area: str
    severity: Severity
    message: str
    advice: str | None = None


class Findings:
    """Collects the findings of one area."""

    def __init__(self, area: str) -> None:
        self._area = area
        self._findings: list[Finding] = []

    def add_error(self, message: str, advice: str) -> None:
        self._findings.append(Finding(self._area, "error", message, advice))

    def add_warning(self, message: str, advice: str) -> None:
        self._findings.append(Finding(self._area, "warning", message, advice))

    def finish(self, all_clear: str) -> list[Finding]:
        """Returns the findings, or one `ok` finding with this message if there are none."""
        return self._findings or [Finding(self._area, "ok", all_clear)]


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Returns the findings sorted by severity, otherwise in the same order."""
    return sorted(findings, key=lambda each: _RANK[each.severity])
