"""The standings of experiments, kept for a minute: a list of experiments reads the results of all of them."""

import time
from collections import OrderedDict

from sqlalchemy.ext.asyncio import AsyncConnection

from app.results.experiments.read import read_results
from app.results.experiments.standing import ExperimentStanding, standing_of
from app.store.experiments.queries import ExperimentRow

_KEPT_S = 60.0
_MAX_KEPT = 1000


class Standings:
    """The standings of experiments that have started."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[float, ExperimentStanding]] = OrderedDict()

    async def read(self, connection: AsyncConnection, experiment: ExperimentRow) -> ExperimentStanding | None:
        """Returns what the results come to, which may be a minute old; None: the experiment is a draft."""
        if experiment.started_at is None:
            return None
        key = (experiment.id, experiment.status)
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        found = standing_of(await read_results(connection, experiment))
        self._kept[key] = (time.monotonic() + _KEPT_S, found)
        self._kept.move_to_end(key)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return found
