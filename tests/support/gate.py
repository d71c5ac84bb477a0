"""Gate: a script of an engine that holds all requests until it is opened, and notes how many run at once and in which order."""

import asyncio

from tests.support.scripted_engine import ReceivedRequest


class Gate:
    """An engine that answers once the gate is opened, and counts who waits."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0  # how many ran at once at most
        self.opened = asyncio.Event()
        self.order: list[str] = []  # the first message of each request

    async def script(self, request: ReceivedRequest) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(request.body["messages"][0]["content"])
        waits = asyncio.create_task(self.opened.wait())
        gone = asyncio.create_task(request.disconnected.wait())
        await asyncio.wait((waits, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (waits, gone):
            task.cancel()
        self.running -= 1
        if not request.disconnected.is_set():
            await request.respond_completion()
