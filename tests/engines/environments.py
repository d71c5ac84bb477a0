"""One virtual environment for each real engine, because their pins conflict. Incomplete or outdated ones are made again."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment. `engine`: its common name. `import_check`: Python code that fails unless it works. `install_cost`: time and space."""

    engine: str
    venv: Path
    requirements: Path
    import_check: str
    install_cost: str

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    def is_installed(self) -> bool:
        """Returns whether it was completed with the current requirements and this Python."""
        return self._marker_file.is_file() and self._marker_file.read_text() == self._expected_marker()

    def install(self) -> str | None:
        """Install exactly its requirements. Returns what went wrong, as a sentence; None if nothing."""
        if self.is_installed():
            click.echo(f"{self.engine} is installed in {self.venv.name}.")
            return None
        click.echo(f"Installing {self.engine} into {self.venv.name}: {self.install_cost}, once.")
        shutil.rmtree(self.venv, ignore_errors=True)
        pip = [str(self.python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "-r", str(self.requirements)]
        for command, problem in (
            (
                [sys.executable, "-m", "venv", str(self.venv)],
                "Python could not make a virtual environment; Debian keeps that in python3-venv.",
            ),
            (pip, f"pip could not install what {self.engine} needs."),
            ([str(self.python), "-c", self.import_check], f"{self.engine} is installed but does not start."),
        ):
            if subprocess.run(command, check=False).returncode:
                return problem
        self._marker_file.write_text(self._expected_marker())
        return None

    @property
    def _marker_file(self) -> Path:
        return self.venv / "installed"

    def _expected_marker(self) -> str:
        return f"{hashlib.sha256(self.requirements.read_bytes()).hexdigest()} Python {sys.version}\n"


def _environment(name: str, engine: str, import_check: str, install_cost: str) -> Environment:
    return Environment(engine, _ROOT / f".venv-{name}", Path(__file__).with_name(f"requirements-{name}.txt"), import_check, install_cost)


LLAMACPP = _environment("llamacpp", "llama.cpp's server", "import xllamacpp", "half a minute and 60 MB")
LLAMACPP_PYTHON = _environment(
    "llamacpp-python", "llama-cpp-python", "import llama_cpp.server.app", "five minutes of a C++ compiler and 200 MB"
)
TRANSFORMERS = _environment("transformers", "transformers serve", "import fastapi, torch, transformers", "two minutes and 1.2 GB")


def install_all() -> None:
    """Install each engine; one that fails is reported, and its tests are skipped."""
    for each in (LLAMACPP, LLAMACPP_PYTHON, TRANSFORMERS):
        problem = each.install()
        if problem is not None:
            click.echo(f"{problem} Its tests will be skipped.", err=True)
