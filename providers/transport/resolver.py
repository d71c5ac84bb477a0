"""Resolver: looks up the addresses of a host, on threads of its own, so that a slow name server blocks nothing else."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor


def look_up(host: str, port: int) -> tuple[str, ...]:
    """The host's addresses, each once, the preferred one first. Blocks, for as long as name servers take: for threads.

    Raises OSError if there are none, UnicodeError for an invalid name.
    """
    return tuple(dict.fromkeys(str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


class Resolver:
    """Resolves names as the machine does (/etc/hosts, then DNS), `max_threads` at a time. A cancelled lookup leaves the queue."""

    def __init__(self, max_threads: int) -> None:
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="names")

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Returns what look_up() returns, and raises what it raises, without blocking."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up, host, port)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
