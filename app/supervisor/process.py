"""Member: one process of this machine that is started, waited for, and kept alive until it is told to end."""

import time

from app.supervisor.child_process import ChildProcess
from app.supervisor.errors import OperatorError


class SupervisedProcess:
    """A process that is ready as soon as it lives. Those with more to say for themselves override launch() and ready()."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child

    @property
    def name(self) -> str:
        return self.child.name

    @property
    def pid(self) -> int | None:
        return self.child.pid

    def launch(self) -> None:
        """Starts it and returns at once; ready() tells when it answers. Raises Trouble where starting would be in vain."""
        self.child.start()

    def ready(self) -> bool:
        return self.pid is not None

    def wait_until_ready(self, timeout_s: float = 60.0) -> None:
        """Until it answers. Raises Trouble with its last words if it does not come up."""
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            if self.child.status is not None:
                raise OperatorError(self.failure_message())
            if time.monotonic() > deadline:
                self.stop()
                raise OperatorError(f"{self.name} was not ready after {timeout_s:.0f} s. Its log: {self.child.log_path}")
            time.sleep(0.02)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Asks it to end, and kills it if it has not after this long."""
        self.child.stop(timeout_s)

    def failure_message(self) -> str:
        return f"{self.name} could not start. Its last words, from {self.child.log_path}:\n{self.child.log_tail()}"
