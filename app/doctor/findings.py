"""Findings: collects what the doctor reports of one area, and sorts all of it."""

from app.domain.findings import Finding, Severity

__all__ = ["Finding", "Findings", "worst_first"]

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "ok": 2}


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
