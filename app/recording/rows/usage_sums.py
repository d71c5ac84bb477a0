"""Usage sums: what a batch of inferences adds to the usage of each key, hour, team and model."""

import datetime
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from app.store.postgres.inference_columns import INFERENCE_COLUMNS

_group_columns = itemgetter(*(INFERENCE_COLUMNS.index(name) for name in ("key_id", "received_at", "team_id", "model")))
_summed_columns = itemgetter(
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


def sum_usage(inferences: Iterable[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    """Rows of usage from rows of inferences, in the order of its columns. A key may appear twice, in two spellings of its UUID."""
    totals: dict[tuple[str, datetime.datetime, str, str], list[int]] = {}
    for inference in inferences:
        key_id, received_at, team_id, model = _group_columns(inference)
        outcome, input, output, cached, reasoning, charged_input, charged_output, cost = _summed_columns(inference)
        group = key_id, received_at.replace(minute=0, second=0, microsecond=0), team_id, model
        total = totals.get(group)
        if total is None:
            total = totals[group] = [0] * 10
        total[0] += 1
        total[1] += outcome == "failed"
        total[2] += input or 0
        total[3] += output or 0
        total[4] += cached or 0
        total[5] += reasoning or 0
        total[6] += charged_input
        total[7] += charged_output
        total[8] += cost or 0
        total[9] += cost is None
    return [(*group, *added) for group, added in totals.items()]
