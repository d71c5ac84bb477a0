"""`narthex up` and `narthex serve`: what runs on this machine, started in order, kept alive, ended in order."""

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

from app.local import beginnings, greeting, leftovers, neighbours, port, secret_key, servers
from app.local.asking import ask
from app.local.child import Child
from app.local.listeners import Gateway, SandboxEngine, reachable_url
from app.local.member import Member
from app.local.place import forget_sockets, make_home
from app.local.postgres import Postgres
from app.local.supervisor import Supervisor
from app.local.trouble import Trouble
from app.local.valkey import Valkey
from app.settings import Settings
from app.store.migrate import migrate

_MARK = "NARTHEX_SUPERVISED"
_SERVER_PATIENCE_S = 30.0
_WRITER_PATIENCE_S = 30.0


def up(settings: Settings, say: Callable[[str], None]) -> None:
    """Everything. Returns when it was told to end and all has ended. Raises Trouble if something is in the way; nothing runs then."""
    with _supervised(settings, say) as (settings, supervisor, bell):
        secret_key.make(settings)
        settings = _start_servers(settings, supervisor)
        ask(settings.database_url, migrate)
        _start_sandbox(settings, supervisor)
        key = beginnings.keys(settings.home, settings.database_url)
        supervisor.start([Member(_child(settings, "writer", "app.local.run_writer"))], patience_s=_WRITER_PATIENCE_S)
        _start_gateways(settings, supervisor, bell)
        supervisor.wait()
        say(greeting.text(settings, key))
        known = ask(settings.database_url, beginnings.addresses)
        for offer in neighbours.offers(neighbours.USUAL_PORTS, besides={settings.port}, known=known):
            say(offer)
        supervisor.run()


def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """The gateways alone, on servers that run elsewhere. Returns and raises as up() does."""
    with _supervised(settings, say) as (settings, supervisor, bell):
        secret_key.vault(secret_key.found(settings))
        _start_gateways(settings, supervisor, bell)
        supervisor.wait()
        say(f"Narthex serves on {reachable_url(settings)}")
        if not settings.redis_url:
            say("REDIS_URL is not set: each process enforces its share of limits alone, and an Idempotency-Key is refused.")
        supervisor.run()


@contextlib.contextmanager
def _supervised(settings: Settings, say: Callable[[str], None]) -> Generator[tuple[Settings, Supervisor, socket.socket]]:
    home = make_home(settings.home)
    with _alone(home):
        _end_leftovers(home)
        bell = port.listen(settings.host, settings.port)
        supervisor = Supervisor(say)
        try:
            with contextlib.suppress(KeyboardInterrupt):  # told to end before everything had begun
                yield replace(settings, home=home), supervisor, bell
            say(f"Stopping: answers under way have {settings.drain_timeout_s:g} s to finish. Ctrl-C once more to hurry.")
        finally:
            bell.close()
            supervisor.stop()
            servers.withdraw(home)
            forget_sockets(home)
    say("Stopped. The data is kept.")


@contextlib.contextmanager
def _alone(home: Path) -> Generator[None]:
    """One supervisor for one home. The kernel lets the lock go with the process, however it ends."""
    pid_file = home / "run" / "supervisor.pid"
    pid_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with pid_file.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read().strip() or "of unknown number"
            raise Trouble(
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


def _end_leftovers(home: Path) -> None:
    """Processes of a supervisor that was killed. They have been told so by the kernel; the slow ones are not waited for."""
    leftovers.end(leftovers.marked(f"{_MARK}={home}".encode()), signals=[signal.SIGTERM], patience_s=3.0)


def _start_servers(settings: Settings, supervisor: Supervisor) -> Settings:
    """The settings with the addresses of servers that answer."""
    if not settings.database_url:
        postgres = Postgres(settings.home)
        supervisor.start([postgres], patience_s=_SERVER_PATIENCE_S)
        settings = replace(settings, database_url=postgres.url)
    if not settings.redis_url:
        valkey = Valkey(settings.home)
        supervisor.start([valkey], patience_s=_SERVER_PATIENCE_S)
        settings = replace(settings, redis_url=valkey.url)
    supervisor.wait()
    servers.publish(settings)
    return settings


def _start_sandbox(settings: Settings, supervisor: Supervisor) -> None:
    # The port of the last run, where it is free: then the configuration need not change.
    its_port = ask(settings.database_url, beginnings.sandbox_port) or settings.port + 1
    its_port = port.free(its_port)
    engine = SandboxEngine(_child(settings, "sandbox", "app.local.run_sandbox", "127.0.0.1", str(its_port)), its_port)
    supervisor.start([engine], patience_s=_SERVER_PATIENCE_S)
    ask(settings.database_url, lambda url: beginnings.configure_sandbox(url, its_port))


def _start_gateways(settings: Settings, supervisor: Supervisor, bell: socket.socket) -> None:
    metrics = settings.home / "run" / "metrics"  # where they keep their counts for each other: a scrape of any tells of all
    shutil.rmtree(metrics, ignore_errors=True)  # what earlier processes counted has no meaning for these
    metrics.mkdir(mode=0o700, parents=True)
    supervisor.start(
        [
            Gateway(
                _child(
                    settings,
                    name,
                    "app.local.run_gateway",
                    name,
                    str(bell.fileno()),
                    files=[bell.fileno()],
                    PROMETHEUS_MULTIPROC_DIR=str(metrics),
                ),
                settings,
                metrics,
            )
            for name in (f"gateway-{number}" for number in range(max(1, settings.workers)))
        ],
        patience_s=settings.drain_timeout_s + 5.0,
    )


def _child(settings: Settings, name: str, module: str, *arguments: str, files: Sequence[int] = (), **environment: str) -> Child:
    """A process that runs a module of ours, with these settings' servers and home."""
    given = {
        "NARTHEX_HOME": str(settings.home),
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "PYTHONUNBUFFERED": "1",
        _MARK: str(settings.home),
    }
    # -P: a folder named app where the operator happens to stand is not ours.
    command = [sys.executable, "-P", "-m", module, *arguments]
    return Child(settings.home, name, command, folder=Path.cwd(), environment={**os.environ, **given, **environment}, files=files)
