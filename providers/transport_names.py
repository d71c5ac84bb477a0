"""Names: the addresses of a host, looked up on threads of their own, so that a slow name server keeps nothing else waiting."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor


class Names:
    """As the machine resolves them (/etc/hosts, then DNS). More than `at_once` wait for each other; who stops waiting leaves the queue."""

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="names")

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Each once, the best first. Raises OSError where there is none, UnicodeError for what cannot be a name."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
