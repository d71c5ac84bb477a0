"""The units in infra/systemd: systemd accepts them, they are hardened, and what they name exists."""

import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from app.settings import Settings, environment_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
MAX_EXPOSURE = 20  # tenths
SYSTEMD_ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd-analyze is not installed")


@pytest.fixture
def installed_units(tmp_path: Path) -> list[Path]:
    """The units with the `narthex` of this environment: systemd checks that the program is there."""
    narthex = str(Path(sys.executable).with_name("narthex"))
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/narthex/bin/narthex", narthex))
    return [tmp_path / unit.name for unit in UNITS]


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert SYSTEMD_ANALYZE is not None
    return subprocess.run([SYSTEMD_ANALYZE, *arguments], capture_output=True, text=True, check=False, timeout=60)


@needs_systemd
def test_systemd_accepts_the_units_without_a_warning(installed_units: list[Path]):
    assert len(installed_units) == 3
    done = analyze("verify", "--man=no", *map(str, installed_units))
    complaints = [line for line in done.stderr.splitlines() if "narthex" in line]
    assert (done.returncode, complaints) == (0, [])


@needs_systemd
@pytest.mark.parametrize("name", [unit.name for unit in UNITS])
def test_units_stay_hardened(installed_units: list[Path], name: str):
    [unit] = [each for each in installed_units if each.name == name]
    done = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", str(unit))
    assert done.returncode == 0 and "Overall exposure level" in done.stdout, done.stdout[-200:] + done.stderr


def test_every_setting_and_secret_that_they_name_exists():
    known = {environment_name(each) for each in fields(Settings)}
    named: set[str] = set()
    for path in (*UNITS, FOLDER / "narthex.env"):
        text = path.read_text()
        named |= set(re.findall(r"\b(?:NARTHEX_[A-Z_]+|DATABASE_URL|REDIS_URL)\b", text))
        for name, source in re.findall(r"^LoadCredential=(\w+):(\S+)$", text, re.MULTILINE):
            assert source == f"/etc/narthex/secrets/{name}"
    assert len(named) > 8 and named <= known, named - known


def test_gateway_and_writer_share_home_secrets_and_hardening():
    def lines(name: str) -> set[str]:
        return set((FOLDER / f"narthex-{name}.service").read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines())

    own = ("Type=", "ExecStart=", "Restart", "Timeout", "KillMode=", "LimitNOFILE=", "#")
    gateway, writer, migrate = ({each for each in lines(name) if not each.startswith(own)} for name in ("gateway", "writer", "migrate"))
    assert gateway == writer
    assert {each.partition(":")[0] for each in gateway - migrate} == {"LoadCredential=REDIS_URL", "LoadCredential=NARTHEX_SECRET_KEY"}
    stop_s = int(re.findall(r"TimeoutStopSec=(\d+)", (FOLDER / "narthex-gateway.service").read_text())[0])
    assert stop_s > 2 * Settings().drain_timeout_s


def test_the_page_installs_every_file():
    page = (ROOT / "docs" / "deploy-systemd.md").read_text()
    install = page.partition("## Install")[2].partition("## Where")[0]
    for path in FOLDER.iterdir():
        assert f"infra/systemd/{path.name}" in install, path.name
    for path in re.findall(r"infra/systemd/[\w.-]+", install):
        assert (ROOT / path).is_file(), path
