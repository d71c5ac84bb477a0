"""A proxy before Postgres whose connections can stall: no byte is forwarded any more, and neither side is notified."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator


class PostgresProxy:
    """A proxy in front of Postgres whose connections can be stalled and cut."""

    def __init__(self, database_url: str) -> None:
        path, _, query = database_url.partition("?")
        self._path = path
        self._folder = query.partition("host=")[2].partition("&")[0]
        self._forwarders: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._is_cut = False
        self.database_url = ""  # the given database through this proxy

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.database_url = self._path.replace("@/", f"@127.0.0.1:{port}/") + "?sslmode=disable"
        return server

    def stall_connections(self) -> int:
        """Stalls all present connections and returns their number; new ones work."""
        for task in self._forwarders:
            task.cancel()
        return len(self._forwarders) // 2

    def cut(self) -> None:
        """Ends all connections, and refuses new ones until restore()."""
        self._is_cut = True
        self.close_connections()

    def restore(self) -> None:
        self._is_cut = False

    def close_connections(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        inner, outer = await asyncio.open_unix_connection(f"{self._folder}/.s.PGSQL.5432")
        self._writers += [writer, outer]
        for task in (asyncio.create_task(_forward(reader, outer)), asyncio.create_task(_forward(inner, writer))):
            self._forwarders.add(task)
            task.add_done_callback(self._forwarders.discard)


@contextlib.asynccontextmanager
async def proxy_to(database_url: str) -> AsyncGenerator[PostgresProxy]:
    proxy = PostgresProxy(database_url)
    server = await proxy.start()
    try:
        yield proxy
    finally:
        server.close()
        proxy.stall_connections()
        proxy.close_connections()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forwards a stream to its end, and then the end itself: a side that sends Terminate waits for the other to close."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()
