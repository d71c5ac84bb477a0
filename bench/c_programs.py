"""The two C programs, compiled if their source is newer than the binaries in bench/build."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchmarkError

BENCH_FOLDER = Path(__file__).parent
BUILD_FOLDER = BENCH_FOLDER / "build"


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of the mock engine and the load client."""

    engine: Path
    load: Path


def compile_programs() -> Programs:
    """Raises BenchmarkError without a C compiler. A mock in Python would cost as much as the gateway that is measured."""
    BUILD_FOLDER.mkdir(exist_ok=True)
    return Programs(_compile("engine"), _compile("load"))


def _compile(name: str) -> Path:
    program, sources = BUILD_FOLDER / name, [BENCH_FOLDER / "c" / f"{name}.c", BENCH_FOLDER / "c" / "http.h"]
    if program.exists() and program.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BenchmarkError(
            "The mock engine and the load client are C programs and no compiler was found. On Debian: apt-get install gcc libc6-dev"
        )
    completed = subprocess.run(
        [compiler, "-O2", "-Wall", "-D_GNU_SOURCE", "-o", str(program), str(sources[0])], capture_output=True, text=True, check=False
    )
    if completed.returncode:
        raise BenchmarkError(f"{compiler} could not compile {sources[0].name}:\n{completed.stderr}")
    return program
