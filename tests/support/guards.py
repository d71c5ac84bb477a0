"""Guards: a blocking call in an event loop, or traffic beyond loopback, fails the test that caused it.

Both are recorded when they happen, because code under test may swallow an exception, and reported by the fixture in tests/conftest.py.
Processes that tests start install the same guards (guarded_processes/sitecustomize.py) and append what they find to REPORT.
"""

import asyncio
import concurrent.futures
import inspect
import ipaddress
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import uvloop

ROOT = Path(__file__).parents[2]
# The environment variable that names the file to which guarded processes append their violations.
REPORT = "TEST_GUARD_REPORT"

violations: list[str] = []
_report_path: str | None = None
_OUR_CODE = tuple(f"{ROOT / package}{os.sep}" for package in ("app", "providers"))
# Blocking by design: what runs before or beside the loop's work. Each with its reason.
_MAY_BLOCK = (
    str(ROOT / "app" / "cli"),  # a command serves nobody else
    str(ROOT / "app" / "supervisor"),  # the supervisor has no callers
)


def install(report_path: str | None = None) -> None:
    """Installs the guards; a process calls it once.

    `report_path` is where a process that a test started reports to.
    """
    global _report_path
    _report_path = report_path
    for owner, name in (
        (time, "sleep"),
        (subprocess.Popen, "wait"),
        (subprocess.Popen, "communicate"),
        (threading.Thread, "join"),
        (concurrent.futures.Future, "result"),
        (httpx2.Client, "send"),
        (socket, "create_connection"),
        (socket, "getaddrinfo"),
    ):
        _forbid_in_event_loops(owner, name)
    for loop_class in (asyncio.base_events.BaseEventLoop, uvloop.Loop):
        _check_destination(loop_class, "create_connection", lambda args, kwargs: (*args[1:2], kwargs.get("host")))
        _check_destination(loop_class, "sock_connect", lambda args, kwargs: (*args[1:2], kwargs.get("address")))
        _check_destination(loop_class, "getaddrinfo", lambda args, kwargs: ())  # Looking a name up reaches no address of it.
    sys.addaudithook(_audit)


def _lead_to_loopback(argument: Any) -> Any:
    """Leads names such as scripted-engine.api.openai.com to loopback: adapters treat a host by its name."""
    return "127.0.0.1" if isinstance(argument, str) and argument.startswith("scripted-engine.") else argument


def _report(violation: str) -> None:
    violations.append(violation)
    if _report_path is not None:
        with open(_report_path, "a") as report:
            report.write(violation + "\n")


def _forbid_in_event_loops(owner: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if asyncio._get_running_loop() is not None and (place := _place_in_our_code()) is not None and not _returns_at_once(name, args):
            _report(f"{getattr(owner, '__name__', owner)}.{name} blocks the event loop, called at {place}")
        return original(*args, **kwargs)

    setattr(owner, name, guarded)


def _returns_at_once(name: str, args: tuple[Any, ...]) -> bool:
    return (
        (name == "result" and args[0].done())
        or (name == "join" and not args[0].is_alive())
        or (name in ("wait", "communicate") and args[0].poll() is not None)
        or (name == "sleep" and args[0] == 0)
    )


def _place_in_our_code() -> str | None:
    """Returns the place in our code that made the call.

    Returns None if no code of ours made it, or code that may block, or a test: a test that blocks its own loop delays nobody else.
    """
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_MAY_BLOCK) or (path.startswith(str(ROOT / "tests")) and path != __file__):
            return None
        if path.startswith(_OUR_CODE):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _check_destination(loop_class: type, name: str, destination: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]) -> None:
    original: Callable[..., Any] = getattr(loop_class, name)

    async def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(_lead_to_loopback, args)), {key: _lead_to_loopback(value) for key, value in kwargs.items()}
        for host in destination(args, kwargs):
            _check_host(host)
        return await original(self, *args, **kwargs)

    setattr(loop_class, name, checked)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(args[1], tuple):
        _check_host(args[1])


def _check_host(destination: Any) -> None:
    """A host, or an address as sockets take them; None and paths of Unix sockets stay on this machine."""
    host: Any = destination[0] if isinstance(destination, tuple) else destination  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(host, str) or host == "localhost" or host.endswith((".localhost", ".invalid")):
        return  # .invalid never resolves (RFC 6761)
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        _report(f"a connection to {host!r} leaves this machine")
        raise ConnectionRefusedError(f"tests do not reach beyond loopback: {host!r}")
