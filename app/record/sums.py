"""Sums: what a batch of inferences adds to the usage of each key, hour, team and model."""

import datetime
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from app.store.recorded import INFERENCE_COLUMNS

_of_group = itemgetter(*(INFERENCE_COLUMNS.index(name) for name in ("key_id", "received_at", "team_id", "model")))
_of_sums = itemgetter(
    *(
        INFERENCE_COLUMNS.index(name)
        for name in (
            "outcome",
            "input_tokens",
            "output_tokens",
            "cached_tokens",
            "reasoning_tokens",
            "charged_input",
            "charged_output",
            "cost_microusd",
        )
    )
)


def sums(inferences: Iterable[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    """Of rows of inferences those of usage, in the order of its columns. A key may be there twice, in two spellings."""
    found: dict[tuple[str, datetime.datetime, str, str], list[int]] = {}
    for inference in inferences:
        key_id, received_at, team_id, model = _of_group(inference)
        outcome, input, output, cached, reasoning, charged_input, charged_output, cost = _of_sums(inference)
        group = key_id, received_at.replace(minute=0, second=0, microsecond=0), team_id, model
        added = found.get(group)
        if added is None:
            added = found[group] = [0] * 10
        added[0] += 1
        added[1] += outcome == "failed"
        added[2] += input or 0
        added[3] += output or 0
        added[4] += cached or 0
        added[5] += reasoning or 0
        added[6] += charged_input
        added[7] += charged_output
        added[8] += cost or 0
        added[9] += cost is None
    return [(*group, *added) for group, added in found.items()]
