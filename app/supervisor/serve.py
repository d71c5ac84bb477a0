"""Runs the gateway processes alone, as `narthex serve`. What is imported here delays each start."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path

from app.settings import Settings
from app.supervisor.http_processes import GatewayProcess
from app.supervisor.machine import certificate, orphans, ports, secret_key, server_addresses
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.gateway_url import reachable_admin_url, reachable_url
from app.supervisor.machine.home import make_home
from app.supervisor.machine.paths import remove_socket_folder
from app.supervisor.processes.child_process import ChildProcess
from app.supervisor.supervisor import Supervisor

_SUPERVISED_VARIABLE = "NARTHEX_SUPERVISED"


def serve(settings: Settings, report: Callable[[str], None]) -> None:
    """Runs the gateway alone, on servers that run elsewhere. Returns after a signal, once every process has ended.

    Raises OperatorError if something is in the way; nothing runs then.
    """
    with supervised(settings, report) as (settings, supervisor, listeners):
        secret_key.open_vault(secret_key.resolve(settings))
        start_gateways(settings, supervisor, listeners)
        supervisor.wait_until_ready()
        report(f"Narthex listens on {reachable_url(settings)}")
        if settings.admin_port:
            report(f"The admin API is on {reachable_admin_url(settings)}")
        supervisor.run()


@contextlib.contextmanager
def supervised(settings: Settings, report: Callable[[str], None]) -> Generator[tuple[Settings, Supervisor, list[socket.socket]]]:
    home = make_home(settings.home)
    with _lock_home(home):
        _end_orphans(home)
        certificate.check(settings, report)
        listeners = ports.open_listeners(settings)
        supervisor = Supervisor(report)
        for listener, address in zip(listeners, ports.listener_settings(settings), strict=True):
            if (warning := ports.exposure_warning(listener, address, settings)) is not None:
                report(warning)
        try:
            with contextlib.suppress(KeyboardInterrupt):  # a signal before everything had started
                yield replace(settings, home=home), supervisor, listeners
            report(f"Stopping: requests in progress have {settings.drain_timeout_s:g} s to finish. Ctrl-C once more to stop at once.")
        finally:
            for listener in listeners:
                listener.close()
            supervisor.stop()
            server_addresses.withdraw(home)
            remove_socket_folder(home)
    report("Stopped. The data is kept.")


@contextlib.contextmanager
def _lock_home(home: Path) -> Generator[None]:
    """Allows one supervisor per home. The kernel releases the lock with the process, however that ends."""
    pid_file = home / "run" / "supervisor.pid"
    pid_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with pid_file.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read().strip() or "unknown"
            raise OperatorError(
                f"Narthex already runs in {home} (process {pid}). Stop it with Ctrl-C where it was started, or with kill {pid};"
                " or set NARTHEX_HOME and NARTHEX_PORT to run another beside it."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _end_orphans(home: Path) -> None:
    """Ends the processes of a supervisor that was killed. The kernel has already sent them their signal, so they get little time."""
    orphans.end_processes(orphans.pids_with_variable(f"{_SUPERVISED_VARIABLE}={home}".encode()), signals=[signal.SIGTERM], timeout_s=3.0)


def start_gateways(settings: Settings, supervisor: Supervisor, listeners: Sequence[socket.socket]) -> None:
    descriptors = [listener.fileno() for listener in listeners]
    metrics_folder = settings.home / "run" / "metrics"  # shared by the processes, so that a scrape of any one reports all
    shutil.rmtree(metrics_folder, ignore_errors=True)  # counts of earlier processes
    metrics_folder.mkdir(mode=0o700, parents=True)
    supervisor.start(
        [
            GatewayProcess(
                module_process(
                    settings,
                    name,
                    "app.supervisor.run_gateway",
                    name,
                    *map(str, descriptors),
                    files=descriptors,
                    PROMETHEUS_MULTIPROC_DIR=str(metrics_folder),
                ),
                settings,
                metrics_folder,
            )
            for name in (f"gateway-{number}" for number in range(max(1, settings.workers)))
        ],
        stop_timeout_s=settings.drain_timeout_s + 5.0,
    )


def module_process(
    settings: Settings, name: str, module: str, *arguments: str, files: Sequence[int] = (), **environment: str
) -> ChildProcess:
    """A process that runs a module of ours with these settings' servers and home."""
    own_environment = {
        "NARTHEX_HOME": str(settings.home),
        "DATABASE_URL": settings.database_url,
        "DATABASE_DIRECT_URL": settings.database_direct_url,
        "REDIS_URL": settings.redis_url,
        "PYTHONUNBUFFERED": "1",
        _SUPERVISED_VARIABLE: str(settings.home),
    }
    # -P: a folder named app in the operator's working folder must not be imported instead of ours.
    command = [sys.executable, "-P", "-m", module, *arguments]
    return ChildProcess(
        settings.home, name, command, working_folder=Path.cwd(), environment={**os.environ, **own_environment, **environment}, files=files
    )
