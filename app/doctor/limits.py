"""Whether the rules of limits can be met, and apply to teams and keys that exist."""

import msgspec

from app.doctor.findings import Finding, Findings
from app.domain.snapshot import Snapshot
from app.settings import Settings
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.limits import find_warnings


def diagnose(snapshot: Snapshot, known: KnownNames | None, settings: Settings) -> list[Finding]:
    """Findings about rules that cannot be met, or are not counted.

    `known` is None while Postgres is unavailable: then it is not known which teams and keys exist, and rules are not judged.
    """
    findings = Findings("limits")
    if known is None:
        return []
    for each in find_warnings(snapshot, msgspec.structs.replace(known, output_tokens=settings.limits_output_tokens)):
        mends = "`narthex prices suggest` writes missing prices, for `narthex apply`; or change" if each.endswith(" a price.") else "Change"
        findings.add_warning(each, f"{mends} the rule in a file and `narthex apply` it; `--prune` also removes rules.")
    rules, number = snapshot.limits, len(snapshot.limits)
    if rules and not settings.redis_url:
        findings.add_error(f"There are {number} limits, and no Redis to count them in.", "Set REDIS_URL.")
    return findings.finish(f"{number} limits, each of which can be met." if rules else "There are no limits.")
