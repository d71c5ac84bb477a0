"""The standings of experiments, kept for a minute: a list of experiments reads the results of all of them."""

import time
from collections import OrderedDict
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from app.results.experiments.read import read_results
from app.results.experiments.standing import ExperimentStanding, standing_of
from app.store.experiments.queries import ExperimentRow

_KEPT_S = 60.0
_MAX_KEPT = 1000
_READ_S = 5.0  # of all experiments of a list


class Standings:
    """The standings of experiments that have started."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[float, ExperimentStanding]] = OrderedDict()

    async def read_all(self, connection: AsyncConnection, experiments: Sequence[ExperimentRow]) -> dict[str, ExperimentStanding]:
        """Returns what the results of each come to, by its id. It may be a minute old.

        Drafts have none, and what takes too long is left for the next time: what was read until then is kept.
        """
        ends_s = time.monotonic() + _READ_S
        found: dict[str, ExperimentStanding] = {}
        for experiment in experiments:
            if experiment.started_at is None:
                continue
            key = (experiment.id, experiment.status)
            kept = self._kept.get(key)
            if kept is not None and time.monotonic() < kept[0]:
                found[experiment.id] = kept[1]
            elif time.monotonic() < ends_s:
                found[experiment.id] = await self._read(connection, experiment, key)
        return found

    async def _read(self, connection: AsyncConnection, experiment: ExperimentRow, key: tuple[str, str]) -> ExperimentStanding:
        found = standing_of(await read_results(connection, experiment))
        self._kept[key] = (time.monotonic() + _KEPT_S, found)
        self._kept.move_to_end(key)
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return found
