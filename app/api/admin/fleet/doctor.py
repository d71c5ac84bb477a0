"""The diagnosis of this installation, with what to do: GET /admin/v1/doctor."""

import asyncio
import logging
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain.findings import Finding
from providers.canonical.errors import Unavailable

log = logging.getLogger(__name__)

# The command judges the machine, and parts of it block: it runs beside the gateway, in the same environment.
_COMMAND = (sys.executable, "-P", "-m", "app.cli", "doctor", "--json")
_TIMEOUT_S = 60.0
_KEPT_S = 30.0
_FAILED_S = 10.0  # so long nobody begins another one after one that failed


class Diagnosis(Struct, frozen=True):
    """The findings of a diagnosis, the worst first."""

    checked_at: Annotated[str, Meta(description="When it was made; one is kept for half a minute.")]
    healthy: Annotated[bool, Meta(description="There is no error; there may be warnings.")]
    data: Annotated[Sequence[Finding], Meta(description="What was found.")]


class _Report(Struct, frozen=True):
    """The part of what the command prints that counts here."""

    healthy: bool
    findings: list[Finding]


class _KeptDiagnosis:
    """A diagnosis that is made once for everybody who wants it meanwhile, and kept for a while."""

    def __init__(self) -> None:
        self._making = asyncio.Lock()
        self._kept: Diagnosis | None = None  # None: it failed
        self._kept_until_s = 0.0

    async def read(self) -> Diagnosis:
        """Raises Unavailable if there is none in time, or was none a moment ago."""
        async with self._making:
            if time.monotonic() >= self._kept_until_s:
                self._kept = await _diagnose()
                self._kept_until_s = time.monotonic() + (_FAILED_S if self._kept is None else _KEPT_S)
            if self._kept is None:
                raise Unavailable(
                    "The diagnosis did not end as it should: run `narthex doctor` on the machine.", retry_after_s=int(_FAILED_S)
                )
            return self._kept


async def _diagnose() -> Diagnosis | None:
    """Returns None if the command fails, or takes too long."""
    try:
        report = msgspec.json.decode(await _run_command(), type=_Report)
    except (OSError, TimeoutError, msgspec.DecodeError) as fault:  # OSError: no process can be started now
        log.warning("the diagnosis failed", extra={"reason": repr(fault)})
        return None
    return Diagnosis(datetime.now(UTC).isoformat(timespec="seconds"), report.healthy, report.findings)


async def _run_command() -> bytes:
    """Returns what the command prints. Raises OSError, and TimeoutError if it takes too long."""
    process = await asyncio.create_subprocess_exec(*_COMMAND, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, _ = await process.communicate()
        return output
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def operations() -> list[Operation[Any, Any]]:
    kept = _KeptDiagnosis()

    async def show(call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await kept.read())

    return [
        Operation(
            method="GET",
            path="/doctor",
            id="get_diagnosis",
            tag="Engines",
            summary="Find out what is wrong with this installation, and what to do",
            description="As `narthex doctor` does on the machine of the process that answers: settings, files, processes, the gateway,"
            " PostgreSQL, Redis, records that wait to be stored, every configured engine and the limits. It takes some seconds.",
            permission="config:read",
            access="memory",
            response=Diagnosis,
            commands=(Command(name="doctor"),),
            handler=show,
        )
    ]
