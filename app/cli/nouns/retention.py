"""narthex retention: how long the rows of each table are kept."""

from collections.abc import Sequence

import click

from app.cli.output import format_size, json_option, print_json, print_table
from app.cli.store_query import query_store
from app.recording.writes import retention as store
from app.recording.writes.retention import TableRetention
from app.settings import Settings
from app.store.postgres.database import transaction


@click.command()
@json_option
def retention(as_json: bool) -> None:
    """Show how long each table that grows is kept, why, and what of it is stored.

    By the settings of this command's environment: give it the writers'. What has expired is deleted by the writers, once an hour.

    \b
    Example:
      narthex retention

    With --json: {"tables": [{"table", "setting", "keep_days": null for ever, "method", "oldest", "partitions", "rows" (about),
    "size_bytes", "note"}]}.
    """
    settings = Settings.read()

    async def read(database_url: str) -> Sequence[TableRetention]:
        async with transaction(database_url) as connection:
            return await store.list_retention(connection, settings)

    tables = query_store(read)
    if as_json:
        print_json({"tables": tables})
    else:
        cells = [
            (
                each.table,
                _kept(each),
                each.setting or "",
                each.oldest or "",
                f"{each.rows:,}",
                format_size(each.size_bytes),
                each.note or "",
            )
            for each in tables
        ]
        print_table(("TABLE", "KEPT", "SETTING", "OLDEST", "ROWS", "SIZE", "NOTE"), cells)


def _kept(table: TableRetention) -> str:
    match table.method:
        case "experiments":
            return f"{table.keep_days} days after its experiment"
        case "when_done":
            return "until it is done"
        case _:
            return "for ever" if table.keep_days is None else f"{table.keep_days} days"
