"""MatchNotes: which rules requests have matched, and what those rules have granted, until somebody reports it."""

from app.gateway.limits.rule_matcher import RuleMatch
from app.process.telemetry import Telemetry


class MatchNotes:
    """A match is noted on itself, so that noting costs a request next to nothing."""

    def __init__(self) -> None:
        self._granted: list[RuleMatch] = []
        self._noted: list[RuleMatch] = []

    def note_match(self, match: RuleMatch) -> None:
        """Called for a match that is not noted yet."""
        match.noted = True
        self._noted.append(match)

    def note_grant(self, match: RuleMatch) -> None:
        if not match.granted:
            self._granted.append(match)
        match.granted += 1

    def take_matched_names(self) -> set[str]:
        """Returns the names of the rules that requests have matched since the last call."""
        matches, self._noted = self._noted, []
        names: set[str] = set()
        for match in matches:
            match.noted = False
            names.update(bucket.rule.name for bucket in match.buckets)
        return names

    def report_grants(self, telemetry: Telemetry) -> None:
        """Gives the telemetry what was granted since the last call, by rule."""
        matches, self._granted = self._granted, []
        for match in matches:
            for bucket in match.buckets:
                telemetry.count_limit_grants(bucket.rule.name, match.granted)
            match.granted = 0
