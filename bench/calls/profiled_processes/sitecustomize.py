"""Python imports this when a process starts whose PYTHONPATH has this folder: it counts the calls of gateway processes.

SIGUSR1 begins to count, SIGUSR2 ends it and writes the calls of each function by each of its callers, as JSON, to the file CALL_COUNT_FILE.
"""

import cProfile
import json
import os
import signal
import sys
from pathlib import Path
from types import CodeType


def _install(path: Path) -> None:
    profilers: list[cProfile.Profile] = []

    def begin(_signal: int, _frame: object) -> None:
        profilers.append(cProfile.Profile())
        path.with_suffix(".begun").touch()
        profilers[-1].enable()

    def end(_signal: int, _frame: object) -> None:
        profiler = profilers.pop()
        profiler.disable()
        profiler.dump_stats(path.with_suffix(".profile"))
        written = path.with_suffix(".new")
        written.write_text(json.dumps(_calls_by_caller(profiler)))
        written.rename(path)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


def _calls_by_caller(profiler: cProfile.Profile) -> dict[str, int]:
    calls: dict[str, int] = {}
    for entry in profiler.getstats():
        own = _name(entry.code)
        calls[own] = calls.get(own, 0) + entry.callcount
        for called in entry.calls or ():
            callee = _name(called.code)
            calls[callee] = calls.get(callee, 0) - called.callcount
            calls[f"{callee} <- {own}"] = called.callcount
    return calls


def _name(code: CodeType | str) -> str:
    if isinstance(code, str):
        return code.partition(" at 0x")[0]  # of a type: its address differs from run to run
    return f"{code.co_filename}:{code.co_firstlineno} {code.co_qualname}"


if os.environ.get("CALL_COUNT_FILE") and "app.supervisor.run_gateway" in sys.orig_argv:
    _install(Path(os.environ["CALL_COUNT_FILE"]))
