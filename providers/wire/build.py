"""python -m providers.wire.build: compiles native.c beside itself, where there are a C compiler and Python's headers.

It has Python's stable interface, so one file serves every Python from 3.11 on. Without it all works, and costs more.
"""

import shutil
import subprocess
import sys
import sysconfig
import zlib
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "native.c"
COMPILED = SOURCE.with_suffix(".abi3.so")
FLAGS = ("-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-D_FORTIFY_SOURCE=2")
_COMPILERS = ("cc", "gcc", "clang")


class NotCompiled(Exception):
    """The message says why, in one line."""


def compile_native(target: Path = COMPILED, flags: Sequence[str] = FLAGS, command: Sequence[str] = ()) -> None:
    """Raises NotCompiled. `target` is replaced at once: a process that runs keeps the one that it has."""
    compiler, headers = [*command] or find_compiler(), sysconfig.get_path("include")
    if not (Path(headers) / "Python.h").exists():
        raise NotCompiled("Python's headers are missing")
    written = target.with_suffix(".new")
    definition = f"-DSOURCE_CRC={zlib.crc32(SOURCE.read_bytes())}L"
    arguments = [*compiler, *flags, definition, f"-I{headers}", str(SOURCE), "-o", str(written)]
    completed = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise NotCompiled((completed.stderr.strip() or f"{compiler[0]} failed").splitlines()[0])
    written.replace(target)


def find_compiler() -> list[str]:
    """The command of a C compiler. Raises NotCompiled."""
    compiler = next((path for path in map(shutil.which, _COMPILERS) if path is not None), None)
    if compiler is None:
        raise NotCompiled("there is no C compiler")
    return [compiler]


if __name__ == "__main__":
    try:
        compile_native()
    except (NotCompiled, OSError) as fault:
        sys.stderr.write(f"Without the compiled functions, so each request costs more processor time: {fault}.\n")
