"""The variants of a function that serve: arms of an experiment, the default, and the variants to fall back to."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from app.domain.experiments import ExperimentConfig
from app.imports.source_table import SourceTable

_ADAPTIVE = ("adaptive", "track_and_stop")
_ADAPTIVE_KEYS = (
    "algorithm",
    "metric",
    "epsilon",
    "delta",
    "min_prob",
    "min_samples_per_variant",
    "max_samples_per_variant",
    "update_period_s",
)


class Choice(Struct, frozen=True):
    """The choice of variants, in the fields that a function has for it."""

    experiment: ExperimentConfig | None
    default: str | None
    fallbacks: tuple[str, ...]


def choose_variants(table: SourceTable, variants: Sequence[str], weights: Mapping[str, float], left_out: Collection[str]) -> Choice:
    """Chooses the variants of the function that `table` describes.

    `variants` are those that were imported, of which there is at least one; `left_out` are the others.
    `weights` are those of variants in the older form, before there were experiments.
    """
    if "experimentation" in table:
        candidates, fallbacks = _read_experimentation(table.table("experimentation"), variants)
    elif weights:
        candidates = {name: weight for name, weight in weights.items() if weight > 0}
        fallbacks = [name for name in variants if name not in weights]
    else:
        candidates, fallbacks = dict.fromkeys(variants, 1.0), []
    lost = [name for name in (*candidates, *fallbacks) if name in left_out]
    if lost:
        table.report.changed(table.path, f"Without these variants, which are not brought: {', '.join(lost)[:500]}.")
    arms = {name: weight for name, weight in candidates.items() if name in variants and weight > 0}
    known_fallbacks = [name for name in fallbacks if name in variants]
    # Of an experiment each arm is also what the others fall back to, before the fallbacks: as in TensorZero.
    order = tuple(dict.fromkeys((*arms, *known_fallbacks)))
    if len(arms) > 1:
        return Choice(ExperimentConfig(arms), None, order)
    default = order[0] if order else variants[0]
    return Choice(None, default if len(variants) > 1 else None, order[1:])


def _read_experimentation(table: SourceTable, variants: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """The candidates with their weights, and the fallbacks."""
    kind = table.text("type")
    if kind in _ADAPTIVE:
        table.report.changed(
            table.path,
            "Weights do not adapt by themselves: they are equal, and you set new ones by the results (docs/functions.md).",
        )
    for key in _ADAPTIVE_KEYS:
        table.read(key)
    for name, each in table.named_tables("namespaces"):
        each.mark_read()
        table.report.leave_out(
            each.path, f"An experiment has one set of arms: for {name!r:.60} make another function, or restrict it with `eligible`."
        )
    fallbacks = table.texts("fallback_variants")
    if isinstance(table.read("candidate_variants"), dict):
        weighted = table.table("candidate_variants")
        return {name: weight for name in weighted.keys if (weight := weighted.number(name)) is not None}, fallbacks
    listed = table.texts("candidate_variants")
    if not listed and not fallbacks:
        listed = list(variants)
    return dict.fromkeys(listed, 1.0), fallbacks


def read_weights(tables: Mapping[str, Any]) -> dict[str, float]:
    """Reads the `weight` of variants, where they have one."""
    return {name: weight for name, table in tables.items() if (weight := cast("SourceTable", table).number("weight")) is not None}
