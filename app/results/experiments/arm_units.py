"""The units of an experiment's arms: how many there are, and what of them is measured, complete or excluded."""

from collections.abc import Mapping, Sequence

from app.results.experiments.results import ArmUnits
from app.store.experiment_units.sums import CountKey

Counts = Sequence[tuple[CountKey, Mapping[str, int]]]


def count_by_arm(counts: Counts) -> dict[str, dict[str, int]]:
    by_arm: dict[str, dict[str, int]] = {}
    for key, values in counts:
        of_arm = by_arm.setdefault(key.arm, {})
        for name, value in values.items():
            of_arm[name] = of_arm.get(name, 0) + value
    return by_arm


def arm_units(
    arms: Sequence[str], weights: Mapping[int, Mapping[str, float]], units_by_arm: Mapping[str, Mapping[str, int]]
) -> list[ArmUnits]:
    """Returns the units of each arm, as the results show them."""
    newest = weights[max(weights)]
    total = sum(newest.values())
    found: list[ArmUnits] = []
    for arm in arms:
        counted = units_by_arm.get(arm, {})
        units, measured, inferences = (counted.get(name, 0) for name in ("units", "measured", "inferences"))
        episodes = counted.get("episodes", 0)
        found.append(
            ArmUnits(
                arm=arm,
                share=newest.get(arm, 0) / total,
                units=units,
                open=units - measured,
                measured=measured,
                complete=counted.get("complete", 0),
                excluded=counted.get("excluded", 0),
                inferences=inferences,
                inferences_per_episode=inferences / episodes if episodes else None,
                served_by_other_share=counted.get("served_by_other", 0) / inferences if inferences else None,
            )
        )
    return found
