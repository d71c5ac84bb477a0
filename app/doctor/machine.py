"""Whether the machine is suitable: Python, the home and its permissions, disk space, open files, environment variables."""

import difflib
import os
import resource
import stat
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from msgspec import Struct

from app.doctor.findings import Finding, Findings
from app.settings import BadSetting, Settings, environment_name
from app.supervisor.machine.ports import listener_settings, settings_problem
from providers import wire

_MIN_PYTHON_VERSION = (3, 11)
_MIN_FREE_BYTES = 1_000_000_000
_MIN_FREE_INODES = 10_000
_MIN_OPEN_FILES = 4096
_PRIVATE_FILES = (
    *("first-key", "admin-key", "secret-key", "run/servers", "directory/*", "quarantine/*"),
    *("spool/*.spool", "spool/*.reserve", "spool/*.refusals", "spool/*.feedback"),
)
_MAX_LISTED = 3
# Variables of ours that are not settings.
_KNOWN_VARIABLES = ("NARTHEX_ADMIN_KEY", "NARTHEX_ADMIN_URL", "NARTHEX_KEY", "NARTHEX_SUPERVISED")


class ExposedFile(Struct, frozen=True):
    """A file with keys or content that users other than its owner may read or write."""

    path: str
    mode: int


class MachineFacts(Struct, frozen=True):
    """The facts about this machine, and about the home on it, that findings are made of."""

    python: tuple[int, int]
    home: str
    user: int
    home_mode: int | None  # None: there is no home yet
    home_owner: int | None  # None: there is no home yet
    exposed_files: tuple[ExposedFile, ...]
    free_bytes: int
    free_inodes: int
    max_open_files: int
    gateway_max_open_files: int | None  # None: no gateway process runs
    cores: int
    has_native_wire: bool  # whether the compiled functions are in use


def collect_facts(settings: Settings, gateway_pid: int | None) -> MachineFacts:
    home = settings.home.absolute()
    try:
        home_stat = home.stat()
    except OSError:
        home_stat = None
    disk = os.statvfs(next(each for each in (home, *home.parents) if each.exists()))
    return MachineFacts(
        python=sys.version_info[:2],
        home=str(home),
        user=os.geteuid(),
        home_mode=None if home_stat is None else stat.S_IMODE(home_stat.st_mode),
        home_owner=None if home_stat is None else home_stat.st_uid,
        exposed_files=tuple(_find_exposed_files(home)),
        free_bytes=disk.f_bavail * disk.f_frsize,
        free_inodes=disk.f_favail if disk.f_files else _MIN_FREE_INODES,  # file systems without a fixed number report 0 of 0
        max_open_files=_finite_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        gateway_max_open_files=None if gateway_pid is None else _open_file_limit(gateway_pid),
        cores=len(os.sched_getaffinity(0)),
        has_native_wire=wire.is_native,
    )


def diagnose(facts: MachineFacts, settings: Settings) -> list[Finding]:
    findings = Findings("machine")
    if facts.python < _MIN_PYTHON_VERSION:
        version = ".".join(map(str, facts.python))
        findings.add_error(
            f"This is Python {version}; Narthex needs 3.11 or newer.", "Install a newer Python and create the environment again."
        )
    _diagnose_home(facts, findings)
    if facts.free_bytes < settings.spool_reserve_bytes:
        findings.add_error(
            f"The disk of {facts.home} is full: {_format_mb(facts.free_bytes)} are free, so requests cannot be recorded.",
            "Make space, or move NARTHEX_HOME to a larger disk.",
        )
    elif facts.free_bytes < _MIN_FREE_BYTES:
        findings.add_warning(
            f"The disk of {facts.home} is nearly full: {_format_mb(facts.free_bytes)} are free.", "Make space before the spool needs it."
        )
    if facts.free_inodes < _MIN_FREE_INODES // 10:
        findings.add_error(f"The disk of {facts.home} can hold only {facts.free_inodes} more files.", "Remove files that nobody needs.")
    files = facts.gateway_max_open_files if facts.gateway_max_open_files is not None else facts.max_open_files
    if files < _MIN_OPEN_FILES:
        subject = "A gateway process" if facts.gateway_max_open_files is not None else "A process started from here"
        findings.add_warning(
            f"{subject} may open {files} files, and a stream takes two: about {files // 2} at once.",
            "Raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) and start Narthex again.",
        )
    if settings.workers > facts.cores:
        findings.add_warning(
            f"NARTHEX_WORKERS={settings.workers} is more than the {facts.cores} processor core(s).",
            f"Set NARTHEX_WORKERS to {facts.cores} or less.",
        )
    version = ".".join(map(str, facts.python))
    wire_state = "in use" if facts.has_native_wire else "not in use, so each request costs more processor time"
    return findings.finish(
        f"Python {version}, {facts.free_bytes / 1e9:.0f} GB of disk free, {files} open files allowed, and a home that others cannot read."
        f" The compiled functions are {wire_state}."
    )


def _diagnose_home(facts: MachineFacts, findings: Findings) -> None:
    if facts.home_mode is None:
        findings.add_warning(f"There is no home yet at {facts.home}.", "`narthex up` creates it; or set NARTHEX_HOME to the right folder.")
        return
    if facts.home_owner != facts.user:
        findings.add_error(
            f"{facts.home} belongs to user {facts.home_owner}, and this is user {facts.user}.",
            "Run Narthex, and this command, as the home's owner, or set NARTHEX_HOME to another folder.",
        )
    if facts.home_mode & 0o022:
        findings.add_error(f"Others may write into {facts.home} (mode {facts.home_mode:o}).", f"chmod go-w {facts.home}")
    elif facts.home_mode & 0o044:
        findings.add_warning(f"Others may list the files in {facts.home} (mode {facts.home_mode:o}).", f"chmod go-r {facts.home}")
    if facts.exposed_files:
        named = ", ".join(f"{each.path} (mode {each.mode:o})" for each in facts.exposed_files[:_MAX_LISTED])
        more = len(facts.exposed_files) - _MAX_LISTED
        paths = " ".join(each.path for each in facts.exposed_files[:_MAX_LISTED])
        findings.add_error(
            f"Others may read keys or content: {named}{f' and {more} more' if more > 0 else ''}.",
            f"chmod 600 {paths}, and replace the keys that may have been read.",
        )


def read_settings(environ: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """The settings, invalid ones at their defaults, and a finding for each invalid setting and each likely misspelling."""
    findings = Findings("settings")
    names = {environment_name(each) for each in fields(Settings)}
    valid: dict[str, str] = {}
    for name in (*(names & environ.keys()), *({"CREDENTIALS_DIRECTORY"} & environ.keys())):
        try:
            Settings.read({name: environ[name]})
            valid[name] = environ[name]
        except BadSetting as fault:
            findings.add_error(str(fault), f"Set {name} to a valid value; docs/settings.md lists all settings.")
    settings = Settings.read(valid)
    for name in sorted(environ.keys() - names - {*_KNOWN_VARIABLES}):
        similar = difflib.get_close_matches(name, names, 1, 0.85) if name.startswith("NARTHEX_") else []
        if similar:
            findings.add_warning(f"{name} is set, but there is no such setting.", f"Did you mean {similar[0]}?")
    for address in listener_settings(settings):
        if address.port > 65535:
            findings.add_error(f"{address.port_name}={address.port}: there is no such port.", "Ports go up to 65535.")
    if (problem := settings_problem(settings)) is not None:
        findings.add_error(*problem)
    if settings.spool_max_bytes < settings.spool_reserve_bytes:
        findings.add_warning("NARTHEX_SPOOL_MAX_BYTES is less than NARTHEX_SPOOL_RESERVE_BYTES.", "Make it many times the reserve.")
    if 0 < settings.keep_inferences_days < settings.keep_content_days:
        findings.add_warning(
            "NARTHEX_KEEP_CONTENT_DAYS is more than NARTHEX_KEEP_INFERENCES_DAYS: content would outlive the rows that it belongs to.",
            "Keep content no longer than inferences.",
        )
    return settings, findings.finish("Every setting is valid.")


def _find_exposed_files(home: Path) -> list[ExposedFile]:
    exposed: list[ExposedFile] = []
    for pattern in _PRIVATE_FILES:
        for path in sorted(home.glob(pattern)):
            try:
                mode = stat.S_IMODE(path.stat().st_mode)
            except OSError:  # removed meanwhile, or not visible to us either
                continue
            if mode & 0o077:
                exposed.append(ExposedFile(str(path), mode))
    return exposed


def _open_file_limit(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return None
    soft = next((line.split()[3] for line in lines if line.startswith("Max open files")), "")
    return int(soft) if soft.isdigit() else None


def _finite_limit(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit


def _format_mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
