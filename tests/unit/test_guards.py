"""The guards of tests/conftest.py notice what they are for."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from types import FunctionType
from typing import Any, cast

import pytest
import uvloop

from tests.support import guards

# Of the documentation's addresses (RFC 5737): nothing answers there.
BEYOND_LOOPBACK = "192.0.2.1"


@pytest.fixture(autouse=True)
def expected_violations(no_violations: None) -> Generator[list[str]]:
    """Those that a test caused on purpose are forgotten before the guard of all tests looks."""
    yield guards.violations
    guards.violations.clear()


def function_of_the_gateway(body: str) -> Callable[[], Any]:
    """A function that seems to stand in app/gateway."""
    module: dict[str, Any] = {}
    exec(compile(f"import time, socket\ndef run():\n    {body}", str(guards.ROOT / "app" / "gateway" / "made_up.py"), "exec"), module)
    return cast(FunctionType, module["run"])


async def test_blocking_call_in_the_event_loop_is_reported_with_its_place(expected_violations: list[str]) -> None:
    function_of_the_gateway("time.sleep(0.001)")()
    (violation,) = expected_violations
    assert "time.sleep blocks the event loop" in violation and "made_up.py:3" in violation


async def test_blocking_call_in_a_thread_is_allowed(expected_violations: list[str]) -> None:
    await asyncio.to_thread(function_of_the_gateway("time.sleep(0.001)"))
    assert expected_violations == []


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connection_beyond_loopback_is_refused_and_reported(
    new_loop: Callable[[], asyncio.AbstractEventLoop], expected_violations: list[str]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(ConnectionRefusedError, match="beyond loopback"):
        runner.run(connect())
    assert any(BEYOND_LOOPBACK in violation for violation in expected_violations)


async def connect() -> None:
    await asyncio.get_running_loop().create_connection(asyncio.Protocol, BEYOND_LOOPBACK, 80)


def test_socket_connection_beyond_loopback_is_refused_and_reported(expected_violations: list[str]) -> None:
    with socket.socket() as client, pytest.raises(ConnectionRefusedError, match="beyond loopback"):
        client.connect((BEYOND_LOOPBACK, 80))
    assert len(expected_violations) == 1


def test_gateway_processes_of_services_report_too(tmp_path: Any, expected_violations: list[str]) -> None:
    report = tmp_path / "report"
    code = f"import socket\ntry: socket.socket().connect(({BEYOND_LOOPBACK!r}, 80))\nexcept ConnectionRefusedError: pass"
    environment = {**os.environ, guards.REPORT: str(report)}
    subprocess.run([sys.executable, "-c", code, "app.supervisor.run_gateway"], env=environment, check=True)
    assert BEYOND_LOOPBACK in report.read_text() and expected_violations == []
