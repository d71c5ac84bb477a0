"""Guards for every test: a blocking call in an event loop, traffic beyond loopback, or a hang fails it."""

import gc
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import guards
from tests.support.processes import watchdog

# Seven thousand collected tests and the SDKs' models stay until the end: the garbage collector need not look at them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    with watchdog.watch():
        return (yield)


guards.install()
_report = Path(tempfile.mkdtemp(prefix="narthex-guards-")) / "violations"
_report.touch()
os.environ[guards.REPORT] = str(_report)
os.environ["PYTHONPATH"] = str(Path(guards.__file__).with_name("guarded_processes"))


@pytest.fixture(autouse=True)
def no_violations() -> Generator[None]:
    """Fails the test if there were violations in this process or in services that it started.

    The next test fails at the latest for those of a service.
    """
    yield
    found = [*guards.violations, *_report.read_text().splitlines()]
    guards.violations.clear()
    _report.write_text("")
    assert found == []
