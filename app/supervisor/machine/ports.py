"""Ports: the listening sockets that all gateway processes share, and the search for a free port.

The supervisor binds each socket once, so the port accepts connections even while a gateway process restarts.
"""

import errno
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from app.settings import Settings
from app.supervisor.machine.errors import OperatorError

_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """An address to listen on, and the environment variables that set it, for messages."""

    host: str
    port: int
    host_name: str = "NARTHEX_HOST"
    port_name: str = "NARTHEX_PORT"


def listener_settings(settings: Settings) -> list[ListenerSettings]:
    """The callers' address, then that of the admin API if it has one of its own."""
    callers = ListenerSettings(settings.host, settings.port)
    if not settings.admin_port:
        return [callers]
    admin_host = settings.admin_host or settings.host
    return [callers, ListenerSettings(admin_host, settings.admin_port, "NARTHEX_ADMIN_HOST", "NARTHEX_ADMIN_PORT")]


def settings_problem(settings: Settings) -> tuple[str, str] | None:
    """Returns a contradiction in the settings of where the gateway listens, and what to do; None if there is none."""
    if settings.metrics == "admin" and not settings.admin_port:
        return "NARTHEX_METRICS=admin, but the admin API has no port of its own.", "Set NARTHEX_ADMIN_PORT, or NARTHEX_METRICS=key."
    if settings.admin_host and not settings.admin_port:
        return f"NARTHEX_ADMIN_HOST={settings.admin_host!r} is set without NARTHEX_ADMIN_PORT.", "Set both, or neither."
    if settings.admin_port == settings.port and settings.admin_host in ("", settings.host):
        return (
            f"NARTHEX_ADMIN_PORT={settings.admin_port} is NARTHEX_PORT as well.",
            "Choose another port for the admin API, or leave it unset.",
        )
    return None


def open_listeners(settings: Settings) -> list[socket.socket]:
    """A socket for each of listener_settings(). Raises OperatorError."""
    if (problem := settings_problem(settings)) is not None:
        raise OperatorError(" ".join(problem))
    listeners: list[socket.socket] = []
    try:
        listeners += (open_listener(each) for each in listener_settings(settings))
    except OperatorError:
        for each in listeners:
            each.close()
        raise
    return listeners


def open_listener(address: ListenerSettings) -> socket.socket:
    """A bound, listening, non-blocking socket. Raises OperatorError if the address is not free, with its holder where that is visible."""
    host, port = address.host, address.port
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise OperatorError(f"{address.host_name}={host!r} is not an address to listen on: {error.strerror}.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket_address)
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise OperatorError(_listen_error(address, error)) from None
    listener.setblocking(False)
    return listener


def find_free_port(preferred: int) -> int:
    """A loopback port that nobody listens on: the preferred one if it is free. Raises OperatorError if there is none."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return probe.getsockname()[1]
    raise OperatorError("This machine has no free port left.")


def exposure_warning(listener: socket.socket, address: ListenerSettings, settings: Settings) -> str | None:
    """A line for an operator whose callers reach the gateway over a network, without a TLS proxy that is known. None: there is no need."""
    host = str(listener.getsockname()[0]).partition("%")[0]
    if settings.trusted_proxies or settings.tls_cert or ip_address(host).is_loopback:
        return None
    return (
        f"Warning: Narthex listens on {address.host}:{address.port} without TLS, so keys and prompts can be read on the network."
        " Set NARTHEX_TLS_CERT and NARTHEX_TLS_KEY; or put a TLS proxy in front and name it in NARTHEX_TRUSTED_PROXIES; or listen on"
        f" 127.0.0.1 only ({address.host_name})."
    )


def _listen_error(address: ListenerSettings, error: OSError | OverflowError) -> str:
    host, port = address.host, address.port
    error_number = error.errno if isinstance(error, OSError) else None
    if error_number == errno.EADDRINUSE:
        holder = _port_holder(port)
        holder_text = f" by {holder}" if holder else " by a process that this user cannot see"
        return f"Port {port} of {host} is taken{holder_text}. End it, or choose another port: {address.port_name}={find_free_port(8787)}"
    if error_number == errno.EACCES:
        return f"Port {port} may not be opened by this user. Choose one above 1023: {address.port_name}=8787"
    if error_number == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine. Set {address.host_name} to one that is; 127.0.0.1 always is."
    return f"Cannot listen on {host}, port {port}: {error}. {address.host_name} and {address.port_name} choose another address."


def _port_holder(port: int) -> str:
    """The process that listens there, as "name (process N)"; empty if this user may not see it."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening_inodes(Path("/proc/net") / table, port)}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if any(os.readlink(each) in inodes for each in Path("/proc", pid, "fd").iterdir()):
                return f"{Path('/proc', pid, 'comm').read_text().strip()} (process {pid})"
        except OSError:
            continue
    return ""


def _listening_inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]
