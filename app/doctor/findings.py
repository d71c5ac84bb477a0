"""Finding: one thing that the doctor has to say."""

from typing import Literal

from msgspec import Struct

Severity = Literal["wrong", "warning", "fine"]


class Finding(Struct, frozen=True):
    """`wrong`: something does not work, or will lose something; `warning`: it works, and may not for long. `advice`: what to do."""

    area: str
    severity: Severity
    message: str
    advice: str | None = None


class Findings:
    """What is found in one area, as it is judged. `fine` is said in the end, where nothing else was."""

    def __init__(self, area: str) -> None:
        self._area = area
        self._findings: list[Finding] = []

    def add_error(self, message: str, advice: str) -> None:
        self._findings.append(Finding(self._area, "wrong", message, advice))

    def add_warning(self, message: str, advice: str) -> None:
        self._findings.append(Finding(self._area, "warning", message, advice))

    def finish(self, all_clear: str) -> list[Finding]:
        return self._findings or [Finding(self._area, "fine", all_clear)]


def worst_first(findings: list[Finding]) -> list[Finding]:
    """The worst first; within that as they were found."""
    rank = {"wrong": 0, "warning": 1, "fine": 2}
    return sorted(findings, key=lambda each: rank[each.severity])
