"""Whether the rules of limits can be met at all, and are about somebody."""

import msgspec

from app.domain import Directory
from app.local.doctor.finding import Finding, Findings
from app.settings import Settings
from app.store.limit_checks import Known, warnings


def judge(directory: Directory, known: Known | None, settings: Settings) -> list[Finding]:
    """`known` None: Postgres cannot tell which teams and keys there are, so nothing is said of rules."""
    found = Findings("limits")
    if known is None:
        return []
    for each in warnings(directory, msgspec.structs.replace(known, output_tokens=settings.limits_output_tokens)):
        found.warn(each, "Change the rule in a file and `narthex apply` it; `--prune` also removes rules.")
    rules, number = directory.limits, len(directory.limits)
    if rules and not settings.redis_url:
        found.wrong(f"There are {number} limits, and no Redis to count them in.", "Set REDIS_URL.")
    return found.all(f"{number} limits, each of which can be met." if rules else "There is no limit, so none is in the way.")
