"""A change that is tried, shown to a person, and then made as it was shown; and what has become of it."""

from collections.abc import Callable, Sequence

from app.domain.errors import BadConfiguration
from app.store.configuration.configuration import Changed
from app.store.configuration.difference import format_difference
from app.store.configuration.experiments.experiments import describe_new_versions
from app.store.postgres.database import transaction
from app.store.workers.applied_changes import wait_until_served

_CHANGED_MEANWHILE = "Somebody else changed the configuration in the meantime: run this again to see the new difference."


def is_confirmed(shown: Changed, warnings: Sequence[str], notes: Sequence[str], confirm: Callable[[str], bool]) -> bool:
    """Called outside of any transaction: a person may take their time, and nobody should wait for them behind a lock."""
    difference = format_difference(shown.before, shown.after)
    return confirm("\n".join([difference, *(f"Warning: {each}" for each in warnings), *notes]))


def require_as_shown(changed: Changed, shown: Changed) -> int:
    """The version of a change that was tried, shown and then made. Raises BadConfiguration if it is another one by now."""
    before, expected = changed.before, shown.before
    if changed.version is None or (before.snapshot.hash, before.teams) != (expected.snapshot.hash, expected.teams):
        raise BadConfiguration(_CHANGED_MEANWHILE)
    return changed.version


async def report(database_url: str, changed: Changed, wait_s: float) -> str:
    """Return what has become of a change that was committed: who serves it, as the end of a sentence.

    Sentences follow that say when experiments follow the change.
    """
    assert changed.version is not None
    async with transaction(database_url) as connection:
        experiments = await describe_new_versions(connection, changed.experiment_versions)
    applied = await wait_until_served(database_url, wait_s)
    return "\n".join([applied.in_words(wait_s), *experiments])
