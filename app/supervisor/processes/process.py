"""SupervisedProcess: a child process that the supervisor starts, waits for and keeps alive."""

import time

from app.supervisor.machine.errors import OperatorError
from app.supervisor.processes.child_process import ChildProcess


class SupervisedProcess:
    """Counts as ready as soon as it runs. Subclasses that can tell more precisely override ready(), and launch() to prepare."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child

    @property
    def name(self) -> str:
        return self.child.name

    @property
    def pid(self) -> int | None:
        return self.child.pid

    def launch(self) -> None:
        """Starts the process and returns at once. Raises OperatorError if it cannot start."""
        self.child.start()

    def ready(self) -> bool:
        """Whether it answers."""
        return self.pid is not None

    def wait_until_ready(self, timeout_s: float = 60.0) -> None:
        """Returns once it answers. Raises OperatorError with the end of its log if it ends instead, or takes too long."""
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            if self.child.status is not None:
                raise OperatorError(self.failure_message())
            if time.monotonic() > deadline:
                self.stop()
                raise OperatorError(f"{self.name} was not ready after {timeout_s:.0f} s. Its log: {self.child.log_path}")
            time.sleep(0.02)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Sends its end signal, and kills it if it still runs after `timeout_s`."""
        self.child.stop(timeout_s)

    def failure_message(self) -> str:
        """Returns a message for the operator that says why the process ended before it was ready."""
        return f"{self.name} could not start. The end of its log, {self.child.log_path}:\n{self.child.log_tail()}"
