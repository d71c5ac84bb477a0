"""The gateway and the sandbox engine as supervised processes: ready once they answer on their port."""

from pathlib import Path

import httpx2
from prometheus_client import multiprocess

from app.settings import Settings
from app.supervisor.machine.gateway_url import reachable_url
from app.supervisor.processes.child_process import ChildProcess
from app.supervisor.processes.process import SupervisedProcess


class GatewayProcess(SupervisedProcess):
    """One of the processes behind the shared port. It counts as ready as soon as any of them answers there."""

    def __init__(self, child: ChildProcess, settings: Settings, metrics_folder: Path) -> None:
        super().__init__(child)
        self._ready_url = f"{reachable_url(settings)}/health/ready"
        self._metrics_folder = metrics_folder
        self._last_pid: int | None = None

    def launch(self) -> None:
        if self._last_pid is not None:  # otherwise a killed gateway's requests count as in flight for ever
            multiprocess.mark_process_dead(self._last_pid, str(self._metrics_folder))  # pyright: ignore[reportUnknownMemberType]
        super().launch()
        self._last_pid = self.pid

    def ready(self) -> bool:
        return self.pid is not None and _is_ready(self._ready_url)


class SandboxProcess(SupervisedProcess):
    """The sandbox engine on a port of loopback."""

    def __init__(self, child: ChildProcess, port: int) -> None:
        super().__init__(child)
        self._port = port

    def ready(self) -> bool:
        # A request rather than a bare connection: on an ephemeral port that nobody listens on yet, a socket can connect to itself.
        return self.pid is not None and _is_ready(f"http://127.0.0.1:{self._port}/health")


def _is_ready(url: str) -> bool:
    try:
        # On this machine: without verify=False every poll would load the certificate authorities, which takes 30 ms of processor time.
        return httpx2.get(url, timeout=2.0, trust_env=False, verify=False).status_code == 200
    except httpx2.TransportError:
        return False
