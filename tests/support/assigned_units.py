"""Experiments and units to assign, without a service."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.callers import Caller
from app.domain.experiments import Assignment, Experiment, ExperimentVersion
from app.gateway.experiments.assignment import assign
from app.gateway.experiments.unit import RequestFacts
from app.gateway.state.episode_id import Episode

START_MS = 1_700_000_000_000
CALLER = Caller("key", "018f2b7c-0000-7000-8000-000000000001", "legal", "full", prefix="nx-0123456789ab")


def version(number: int, arms: Mapping[str, float], *, after_ms: int = 0, enrolment: float = 1.0) -> ExperimentVersion:
    return ExperimentVersion(number, START_MS + after_ms, arms, enrolment)


def experiment(*versions: ExperimentVersion, unit: str = "episode", salt: str = "a salt", **fields: Any) -> Experiment:
    return Experiment("size", salt, unit, next(iter(versions[0].arms)), versions, **fields)


def episode_born(after_ms: int, number: int) -> Episode:
    """An episode that began so long after the start. `number`: tells it apart from others of that moment."""
    digits = f"{START_MS + after_ms:012x}7000{0x8000_0000_0000_0000 + number:016x}"
    return Episode(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}", "minted")


def assigned(
    of: Experiment,
    *,
    episode: Episode | None = None,
    user: str | None = None,
    tags: Mapping[str, str] | None = None,
    at_ms: int = 3_600_000,
    age_ms: int = 0,
    pin: str | None = None,
    caller: Caller = CALLER,
) -> Assignment:
    """Assigns a request that comes `at_ms` after the start, and returns the assignment.

    `age_ms` is how long ago the snapshot was known to be the newest.
    """
    now_ms = START_MS + at_ms
    facts = RequestFacts(caller, episode or episode_born(at_ms, 0), user, tags or {}, now_ms, now_ms - age_ms)
    return assign(of, facts, pin)


def chi_square(counts: Sequence[int], expected: Sequence[float]) -> float:
    return sum((count - mean) ** 2 / mean for count, mean in zip(counts, expected, strict=True))
