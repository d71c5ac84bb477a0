"""providers.wire: the compiled functions and their twins in Python agree, for any bytes."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.wire import build, twin
from tests.support.wire_inputs import FUNCTIONS, UNSURE_FUNCTIONS, differences, grown_kib, inputs, load

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    compiled = tmp_path_factory.mktemp("wire") / "native.abi3.so"
    try:
        build.compile_native(compiled, (*build.FLAGS, "-Wall", "-Wextra", "-Wconversion", "-Werror"))
    except build.NotCompiled as fault:
        pytest.skip(str(fault))
    return load(str(compiled))


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_compiled_function_and_its_twin_agree_about_usual_and_mutated_inputs(native: ModuleType, name: str, seed: int) -> None:
    assert differences(native, name, 200, seed) == []


@pytest.mark.parametrize("name", UNSURE_FUNCTIONS)
def test_inputs_that_are_compared_are_of_both_kinds(name: str) -> None:
    results = [getattr(twin, name)(*arguments) for arguments in inputs(name, 2_000, 1)]
    assert 200 < sum(each is None for each in results) < 1_800


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_function_keeps_no_memory(native: ModuleType, name: str) -> None:
    assert grown_kib(native, name, 100_000) < 1_000  # 20 MB, if each call kept 200 bytes


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_function_refuses_arguments_of_other_types_and_numbers(native: ModuleType, name: str) -> None:
    function = getattr(native, name)
    usual = next(inputs(name, 1, 1))
    for wrong in ((), usual[:-1], (*usual, b""), *[(*usual[:at], None, *usual[at + 1 :]) for at in range(min(4, len(usual)))]):
        with pytest.raises(TypeError):
            function(*wrong)


@pytest.mark.parametrize(("chosen", "expected"), [("python", "False"), ("native", "True")])
def test_setting_chooses_the_functions(chosen: str, expected: str) -> None:
    if not build.COMPILED.exists() or build.COMPILED.stat().st_mtime < build.SOURCE.stat().st_mtime:
        pytest.skip("it is not compiled here, or from another source")
    command = [sys.executable, "-c", "from providers import wire; print(wire.is_native)"]
    environment = {**os.environ, "NARTHEX_WIRE": chosen}
    printed = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == expected


@pytest.mark.parametrize(("command", "reason"), [(["false"], "false failed"), (["sh", "-c", "echo no memory >&2; exit 1"], "no memory")])
def test_compiler_that_fails_is_one_line_and_leaves_what_was_there(tmp_path: Path, command: list[str], reason: str) -> None:
    target = tmp_path / "native.abi3.so"
    target.write_bytes(b"before")
    with pytest.raises(build.NotCompiled, match=reason):
        build.compile_native(target, command=command)
    assert target.read_bytes() == b"before"
