"""Direct questions to the database of a service, to compare with what a page shows."""

from typing import Any

from app.store.postgres.database import connect
from tests.browser.apart import run_apart
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url


def rows_of(service: Service, statement: str) -> list[tuple[Any, ...]]:
    """Returns the rows that a statement finds."""

    async def fetch() -> list[tuple[Any, ...]]:
        connection = await connect(database_url(service))
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return run_apart(fetch())
