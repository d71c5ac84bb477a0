"""PreparedRules: the rules of a snapshot, made beside the event loop and put in force at once."""

from collections.abc import Callable

from msgspec import Struct

from app.domain.snapshot import Snapshot
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.limits.rules import RuleTable
from app.store.configuration.validation.shadows import shadow_limits
from app.store.keys.team_columns import team_limits


class PreparedRules(Struct, frozen=True):
    """The rules of a snapshot. Its fallbacks and functions decide whose records count for a rule of a model."""

    matcher: RuleMatcher
    snapshot: Snapshot


def prepare_rules(snapshot: Snapshot, current: RuleMatcher, make_matcher: Callable[[RuleTable], RuleMatcher]) -> PreparedRules:
    """The rules of a snapshot. In steps, in any thread. What limits did not change keeps its cache, which is in `current`."""
    limits = [*snapshot.limits, *team_limits(snapshot)] if snapshot.team_limits else snapshot.limits
    if snapshot.shadow_teams:
        limits = [*limits, *shadow_limits(snapshot)]
    table = RuleTable(limits, snapshot.limits_since, current.table, snapshot.overrides, snapshot.counted_as)
    return PreparedRules(current if table.rules == current.table.rules else make_matcher(table), snapshot)
