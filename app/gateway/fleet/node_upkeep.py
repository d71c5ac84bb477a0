"""Node upkeep: registered nodes are renewed by successful probes, and removed when none has succeeded for long."""

import asyncio
import time

from sqlalchemy.ext.asyncio import AsyncEngine

from app.gateway.fleet.fleet import Fleet
from app.process.background_tasks import BackgroundTask
from app.settings import Settings
from app.store.configuration import nodes
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS, QUERY_TIMEOUT_S

_ROUNDS_IN_EXPIRY = 10


class NodeUpkeep:
    """A node registers once, when it starts: as long as it answers probes it stays, whatever process is restarted in between."""

    def __init__(self, settings: Settings, fleet: Fleet, database: AsyncEngine) -> None:
        self._expiry_s = settings.node_expiry_s
        self._fleet = fleet
        self._database = database
        # When this process last found a node ready, or first knew of it: a process that has just started removes none.
        self._ready_s: dict[tuple[str, str], float] = {}
        self.task = BackgroundTask("nodes", self._keep_up)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(self._expiry_s / _ROUNDS_IN_EXPIRY)
            table = self._fleet.table
            registered = [(node.provider, node.address) for node in table.snapshot.nodes]
            ready = [key for key in registered if (endpoint := table.endpoints.get(key)) is not None and endpoint.health == "ready"]
            now = time.monotonic()
            known = self._ready_s
            self._ready_s = {key: now if key in ready else known.get(key, now) for key in registered}
            silent = [key for key, ready_s in self._ready_s.items() if now - ready_s >= self._expiry_s]
            try:
                async with asyncio.timeout(QUERY_TIMEOUT_S):
                    await nodes.renew_nodes(self._database, ready, older_than_s=self._expiry_s / _ROUNDS_IN_EXPIRY / 2)
                    await nodes.remove_expired_nodes(self._database, silent, expired_s=self._expiry_s)
            except DB_UNAVAILABLE_ERRORS:
                continue  # nothing expires while Postgres is away
