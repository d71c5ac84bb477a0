"""The listeners' certificate: whatever is wrong with its files is named in two lines, with the setting that fixes it."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.api.server.tls_certificate import BadCertificate, fingerprint, load_certificate
from app.cli import main
from app.doctor import certificate as doctor
from app.settings import Settings
from app.supervisor.machine import certificate as supervisor
from app.supervisor.machine.errors import OperatorError
from tests.support.processes.certificates import write_pair


def settings_of(folder: Path) -> Settings:
    return Settings(tls_cert=str(folder / "tls.crt"), tls_key=str(folder / "tls.key"))


def of_another_pair(folder: Path) -> None:
    (folder / "other").mkdir()
    _, key = write_pair(folder / "other", key_type="rsa")
    key.replace(folder / "tls.key")


def of_another_curve_key(folder: Path) -> None:
    (folder / "other").mkdir()
    _, key = write_pair(folder / "other")
    key.replace(folder / "tls.key")


def with_passphrase(folder: Path) -> None:
    write_pair(folder, passphrase=b"secret")


BROKEN: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no certificate": (lambda folder: (folder / "tls.crt").unlink(), "There is no file", "NARTHEX_TLS_CERT"),
    "no key": (lambda folder: (folder / "tls.key").unlink(), "There is no file", "NARTHEX_TLS_KEY"),
    "folder": (lambda folder: ((folder / "tls.crt").unlink(), (folder / "tls.crt").mkdir()), "Is a directory", "NARTHEX_TLS_CERT"),
    "certificate is text": (lambda folder: (folder / "tls.crt").write_text("hello"), "no certificate that can", "NARTHEX_TLS_CERT"),
    "certificate is empty": (lambda folder: (folder / "tls.crt").write_text(""), "no certificate that can", "NARTHEX_TLS_CERT"),
    "key is text": (lambda folder: (folder / "tls.key").write_text("hello"), "no private key that can", "NARTHEX_TLS_KEY"),
    "key is huge": (lambda folder: (folder / "tls.key").write_bytes(bytes(2_000_000)), "larger than a megabyte", "NARTHEX_TLS_KEY"),
    "key of another type": (of_another_pair, "does not belong to the certificate", "NARTHEX_TLS_CERT and NARTHEX_TLS_KEY"),
    "key of another pair": (of_another_curve_key, "does not belong to the certificate", "NARTHEX_TLS_CERT and NARTHEX_TLS_KEY"),
    "key with a passphrase": (with_passphrase, "encrypted with a passphrase", "openssl pkey"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_unusable_pair_is_explained_with_what_to_do(tmp_path: Path, case: str):
    break_it, problem, advice = BROKEN[case]
    write_pair(tmp_path)
    break_it(tmp_path)
    with pytest.raises(BadCertificate) as caught:
        load_certificate(settings_of(tmp_path))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 and problem in lines[0] and advice in lines[1]
    [finding] = doctor.diagnose(settings_of(tmp_path))
    assert (finding.severity, finding.message, finding.advice) == ("error", *lines)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_that_may_not_be_read_is_named_with_the_user(tmp_path: Path):
    _, key = write_pair(tmp_path)
    key.chmod(0)
    with pytest.raises(BadCertificate, match=rf"may not be read by this user \({os.geteuid()}\)"):
        load_certificate(settings_of(tmp_path))


@pytest.mark.parametrize("name", ["NARTHEX_TLS_CERT", "NARTHEX_TLS_KEY"])
def test_start_with_half_a_pair_ends_with_two_lines_and_status_1(tmp_path: Path, name: str):
    cert, key = write_pair(tmp_path)
    path = cert if name == "NARTHEX_TLS_CERT" else key
    environment = {"NARTHEX_HOME": str(tmp_path / "home"), "DATABASE_URL": "", "REDIS_URL": "", name: str(path)}
    done = CliRunner().invoke(main, ["up"], env=environment)
    assert done.exit_code == 1 and "Traceback" not in done.output
    problem, advice = done.stderr.splitlines()
    assert problem.startswith(f"Error: {name} is set without") and advice.startswith("Set NARTHEX_TLS_")


def test_certificate_that_has_ended_is_used_with_a_warning(tmp_path: Path):
    write_pair(tmp_path, days=-1)
    said: list[str] = []
    supervisor.check(settings_of(tmp_path), said.append)
    assert len(said) == 1 and "has ended" in said[0]
    assert [each.severity for each in doctor.diagnose(settings_of(tmp_path))] == ["error"]
    write_pair(tmp_path, days=3)
    assert [each.severity for each in doctor.diagnose(settings_of(tmp_path))] == ["warning"]
    write_pair(tmp_path, days=90)
    [fine] = doctor.diagnose(settings_of(tmp_path))
    assert fine.severity == "ok" and "localhost, 127.0.0.1" in fine.message
    loaded = load_certificate(settings_of(tmp_path))
    assert loaded is not None and abs(loaded.expires_at - time.time() - 90 * 86400) < 60


def test_plain_http_needs_no_certificate():
    assert load_certificate(Settings()) is None and doctor.diagnose(Settings()) == []
    supervisor.check(Settings(), pytest.fail)
    with pytest.raises(OperatorError):
        supervisor.check(Settings(tls_cert="/nowhere", tls_key="/nowhere"), pytest.fail)


def test_exchanged_links_and_rewritten_files_are_noticed(tmp_path: Path):
    """Kubernetes and ACME clients leave the paths alone and exchange a link."""
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        write_pair(tmp_path / folder)
    (tmp_path / "live").symlink_to("old")
    settings = settings_of(tmp_path / "live")
    before = fingerprint(settings)
    assert fingerprint(settings) == before
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(tmp_path / "live")
    swapped = fingerprint(settings)
    assert swapped != before
    (tmp_path / "new" / "tls.key").unlink()
    assert fingerprint(settings) not in (swapped, before)
