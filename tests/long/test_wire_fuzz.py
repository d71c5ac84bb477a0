"""providers.wire over a million mutated inputs: the compiled functions agree with their twins, touch no memory that is not theirs
and keep none.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from providers.wire import build
from tests.support.wire_inputs import FUNCTIONS, grown_kib, load

ROOT = Path(__file__).parents[2]
_INPUTS = 1_000_000
_SANITIZED_INPUTS = 200_000
_TIMEOUT_S = 7200


def _compare(compiled: Path, count: int, seed: int, **environment: str) -> None:
    command = [sys.executable, "-m", "tests.support.wire_inputs", str(compiled), str(count), str(seed)]
    completed = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    assert completed.returncode == 0, completed.stdout[-2000:] + completed.stderr[-4000:]


def test_compiled_functions_and_their_twins_agree_about_a_million_inputs(tmp_path: Path) -> None:
    compiled = tmp_path / "native.abi3.so"
    build.compile_native(compiled)
    _compare(compiled, _INPUTS, seed=int.from_bytes(os.urandom(4)))


def test_compiled_functions_touch_no_memory_but_their_own(tmp_path: Path) -> None:
    compiler = build.find_compiler()
    found = subprocess.run([*compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("the compiler has no AddressSanitizer")
    compiled = tmp_path / "native.abi3.so"
    flags = ("-g", "-O1", "-fPIC", "-shared", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    build.compile_native(compiled, flags)
    # Each object has an allocation of its own, whose ends are guarded. What Python itself keeps until its end is no leak.
    environment = {"LD_PRELOAD": found, "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"}
    _compare(compiled, _SANITIZED_INPUTS, seed=int.from_bytes(os.urandom(4)), **environment)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_memory_stays_flat_over_a_million_calls(name: str) -> None:
    assert grown_kib(load(str(build.COMPILED)), name, 1_000_000) < 1_000
