"""Direct questions to the database of a service, to compare with what a page shows."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.store.postgres.database import connect
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url


def rows_of(service: Service, statement: str) -> list[tuple[Any, ...]]:
    """Returns the rows, read in another thread: the browser's library has a loop of its own in this one."""

    async def fetch() -> list[tuple[Any, ...]]:
        connection = await connect(database_url(service))
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, fetch()).result()
