"""Names: the addresses of a host, looked up on threads of their own, so that a slow name server keeps nothing else waiting."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor


class Resolver:
    """As the machine resolves them (/etc/hosts, then DNS). More than `at_once` wait for each other; who stops waiting leaves the queue."""

    def __init__(self, max_threads: int) -> None:
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="names")

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Each once, the best first. Raises OSError where there is none, UnicodeError for what cannot be a name."""
        loop = asyncio.get_running_loop()
        results = await loop.run_in_executor(self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        return tuple(dict.fromkeys(str(address[0]) for *_, address in results))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
