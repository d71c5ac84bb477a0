"""Gateway and sandbox engine as members: ready once they answer on their port."""

from pathlib import Path

import httpx
from prometheus_client import multiprocess

from app.settings import Settings
from app.supervisor.child_process import ChildProcess
from app.supervisor.process import SupervisedProcess


class GatewayProcess(SupervisedProcess):
    """One of the processes behind the shared port; whichever of them answers there speaks for all."""

    def __init__(self, child: ChildProcess, settings: Settings, metrics_folder: Path) -> None:
        super().__init__(child)
        self._ready_url = f"{reachable_url(settings)}/health/ready"
        self._metrics_folder = metrics_folder
        self._last_pid: int | None = None

    def launch(self) -> None:
        if self._last_pid is not None:  # else a killed gateway's requests would count as in flight for ever
            multiprocess.mark_process_dead(self._last_pid, str(self._metrics_folder))  # pyright: ignore[reportUnknownMemberType]
        super().launch()
        self._last_pid = self.pid

    def ready(self) -> bool:
        return self.pid is not None and _is_ready(self._ready_url)


class SandboxProcess(SupervisedProcess):
    def __init__(self, child: ChildProcess, port: int) -> None:
        super().__init__(child)
        self._port = port

    def ready(self) -> bool:
        # Not a bare connection: to a port of the range for outgoing ones, on which nobody listens yet, a socket can connect to itself.
        return self.pid is not None and _is_ready(f"http://127.0.0.1:{self._port}/health")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2.0, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def reachable_url(settings: Settings) -> str:
    """Where this machine's own processes reach the gateway; one that listens on every address is reached on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
