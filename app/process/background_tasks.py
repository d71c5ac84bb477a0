"""Background tasks: work that lasts as long as its process. A failure is logged, counted and shown, and the work is started again.

And work that goes on to its end although the request that needs it was cancelled.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine

log = logging.getLogger(__name__)

_MIN_PAUSE_S = 0.1
_MAX_PAUSE_S = 1.0  # a revoked key is refused within two seconds
_CANCEL_AGAIN_S = 5.0
_STABLE_S = 10.0  # work that has run for so long since its last failure counts as running


class BackgroundTask:
    """Runs `work`, which should never return, from start() to cancel() or stop(); however it ends, it is called again after a pause.

    `failure` is the type of the last error, while the work does not run or has failed a moment ago; None where all is well. The log has the
    whole error: a message may hold what a server sent.
    """

    def __init__(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self.failure_count = 0  # since the start
        self._work = work
        self._last_failure: str | None = None
        self._failed_s = 0.0
        self._pause_s = _MIN_PAUSE_S
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def failure(self) -> str | None:
        if self._task is not None and self._task.done() and not self._stopping:
            return "ended"
        return self._last_failure if time.monotonic() - self._failed_s < _STABLE_S else None

    def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._keep_running(), name=self.name)

    def cancel(self) -> None:
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        self.cancel()
        while self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=_CANCEL_AGAIN_S)
            self._task.cancel()  # a library may swallow a cancellation, and go on waiting

    async def _keep_running(self) -> None:
        while not self._stopping:
            started_s = time.monotonic()
            try:
                await self._work()
                if not self._stopping:  # a library may swallow a cancellation
                    self._note_failure("returned", None)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._note_failure("CancelledError", None)  # what the work awaited was cancelled, not the work
            except Exception as error:
                self._note_failure(type(error).__name__, error)
            if self._stopping:
                return
            if time.monotonic() - started_s > _STABLE_S:
                self._pause_s = _MIN_PAUSE_S
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)

    def _note_failure(self, failure: str, error: Exception | None) -> None:
        self.failure_count += 1
        self._last_failure, self._failed_s = failure, time.monotonic()
        log.error("a background task failed: it is started again", exc_info=error, extra={"task": self.name, "failure": failure})


async def finish_despite_cancellation(work: Coroutine[None, None, None]) -> None:
    """Runs `work` to its end, and only then is cancelled if its caller was meanwhile."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])  # which does not cancel it
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    try:
        task.result()
        if cancelled is not None:
            raise cancelled
    finally:
        del task, cancelled  # an error keeps this frame, which would keep the error: and all that the caller holds until a collection
