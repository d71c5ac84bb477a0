"""Installs the clients of tests/clients: `python -m tests.clients.install`. The first time takes some minutes and 8 GB of disk.

They have folders of their own, because their pins conflict with ours and with each other's. Incomplete or outdated ones are made again.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click

HERE = Path(__file__).parent
PYTHON_CLIENTS, LITELLM, FRAMEWORKS, CREWAI, AIDER, OPEN_WEBUI, OPENAPI_GENERATOR, SCHEMATHESIS = (
    HERE.parents[1] / f".venv-{name}"
    for name in ("clients", "litellm", "frameworks", "crewai", "aider", "open-webui", "openapi-generator", "schemathesis")
)
REQUIREMENTS = {
    PYTHON_CLIENTS: HERE / "requirements.txt",
    LITELLM: HERE / "requirements-litellm.txt",
    FRAMEWORKS: HERE / "requirements-frameworks.txt",
    CREWAI: HERE / "requirements-crewai.txt",
    AIDER: HERE / "requirements-aider.txt",
    OPEN_WEBUI: HERE / "requirements-open-webui.txt",
    OPENAPI_GENERATOR: HERE / "requirements-openapi-generator.txt",
    SCHEMATHESIS: HERE / "requirements-schemathesis.txt",
}
NODE_MODULES = HERE / "node_modules"
# Their programs come with packages for each platform, whose versions are theirs.
CODING_AGENTS = HERE / "agents" / "node_modules"
FOLDERS = (*REQUIREMENTS, NODE_MODULES, CODING_AGENTS)


def main() -> None:
    """Install every client as its lock file says; ends with a sentence and status 1 if that fails."""
    for venv, requirements in REQUIREMENTS.items():
        if not is_installed(venv):
            click.echo(f"Installing clients into {venv.name}: a minute, once.")
            _install_python(venv, requirements)
            _marker_file(venv).write_text(_expected_marker(venv))
    for node_modules in (NODE_MODULES, CODING_AGENTS):
        if not is_installed(node_modules):
            click.echo(f"Installing clients into {node_modules.relative_to(HERE.parents[1])}, once.")
            _install_javascript(node_modules)
            _marker_file(node_modules).write_text(_expected_marker(node_modules))
    click.echo("The clients are installed.")


def is_installed(folder: Path) -> bool:
    """Returns whether a folder was completed with the current lock file."""
    return _marker_file(folder).is_file() and _marker_file(folder).read_text() == _expected_marker(folder)


def _install_python(venv: Path, requirements: Path) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(venv)], "Python could not make a virtual environment; Debian keeps that in python3-venv.")
    _run(
        [str(venv / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps", "-r", str(requirements)],
        f"pip could not install {requirements.name}; its output is above.",
    )


def _install_javascript(node_modules: Path) -> None:
    if shutil.which("npm") is None:
        sys.exit("npm is needed for the JavaScript clients: Node 20 or newer.")
    command = ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--prefix", str(node_modules.parent)]
    _run(command, "npm could not install the JavaScript clients.")


def _run(command: list[str], if_it_fails: str) -> None:
    if subprocess.run(command, check=False).returncode:
        sys.exit(if_it_fails)


def _marker_file(folder: Path) -> Path:
    return folder / "installed"


def _expected_marker(folder: Path) -> str:
    if folder in REQUIREMENTS:
        return f"{_hash([REQUIREMENTS[folder]])} Python {sys.version}\n"
    return f"{_hash([folder.parent / 'package.json', folder.parent / 'package-lock.json'])}\n"


def _hash(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


if __name__ == "__main__":
    main()
