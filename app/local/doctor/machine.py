"""Whether the machine is fit: Python, the home and who may read in it, disk space, open files, what environment variables say."""

import difflib
import os
import resource
import stat
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from msgspec import Struct

from app.local.doctor.finding import Finding, Findings
from app.settings import BadSetting, Settings, environment_name

_OLDEST_PYTHON = (3, 11)
_LITTLE_SPACE_BYTES = 1_000_000_000
_FEW_INODES = 10_000
_FEW_FILES = 4096
_PRIVATE = ("first-key", "admin-key", "secret-key", "run/servers", "directory/*", "spool/*.spool", "spool/*.reserve", "quarantine/*")
_MOST_TOLD = 3
_OURS = ("NARTHEX_KEY", "NARTHEX_SUPERVISED")  # variables of ours that are no settings


class OpenFile(Struct, frozen=True):
    """A file that others than its owner may read or write, though it holds keys or what was said."""

    path: str
    mode: int


class MachineFacts(Struct, frozen=True):
    """`home_mode` and `home_owner` None: there is no home yet. `gateway_files`: most open files of a gateway process; None: none runs."""

    python: tuple[int, int]
    home: str
    user: int
    home_mode: int | None
    home_owner: int | None
    open_files: tuple[OpenFile, ...]
    free_bytes: int
    free_inodes: int
    most_files: int
    gateway_files: int | None
    cores: int


def look(settings: Settings, gateway_pid: int | None) -> MachineFacts:
    home = settings.home.absolute()
    try:
        found = home.stat()
    except OSError:
        found = None
    disk = os.statvfs(next(each for each in (home, *home.parents) if each.exists()))
    return MachineFacts(
        python=sys.version_info[:2],
        home=str(home),
        user=os.geteuid(),
        home_mode=None if found is None else stat.S_IMODE(found.st_mode),
        home_owner=None if found is None else found.st_uid,
        open_files=tuple(_open_to_others(home)),
        free_bytes=disk.f_bavail * disk.f_frsize,
        free_inodes=disk.f_favail if disk.f_files else _FEW_INODES,  # file systems without a fixed number of them tell 0 of 0
        most_files=_finite(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        gateway_files=None if gateway_pid is None else _files_of(gateway_pid),
        cores=len(os.sched_getaffinity(0)),
    )


def judge(facts: MachineFacts, settings: Settings) -> list[Finding]:
    found = Findings("machine")
    if facts.python < _OLDEST_PYTHON:
        version = ".".join(map(str, facts.python))
        found.wrong(f"This is Python {version}; Narthex needs 3.11 or newer.", "Install a newer Python and make the environment anew.")
    _judge_home(facts, found)
    if facts.free_bytes < settings.spool_reserve_bytes:
        found.wrong(
            f"The disk of {facts.home} is full: {_mb(facts.free_bytes)} are free, so requests cannot be recorded.",
            "Make space, or move NARTHEX_HOME to a larger disk.",
        )
    elif facts.free_bytes < _LITTLE_SPACE_BYTES:
        found.warn(f"The disk of {facts.home} is nearly full: {_mb(facts.free_bytes)} are free.", "Make space before the spool needs it.")
    if facts.free_inodes < _FEW_INODES // 10:
        found.wrong(f"The disk of {facts.home} can hold only {facts.free_inodes} more files.", "Remove files that nobody needs.")
    files = facts.gateway_files if facts.gateway_files is not None else facts.most_files
    if files < _FEW_FILES:
        whose = "A gateway process" if facts.gateway_files is not None else "A process started from here"
        found.warn(
            f"{whose} may open {files} files, and a stream takes two: some {files // 2} at once.",
            "Raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) and start Narthex again.",
        )
    if settings.workers > facts.cores:
        found.warn(
            f"NARTHEX_WORKERS={settings.workers} and {facts.cores} processor core(s): the processes take turns.",
            f"Set NARTHEX_WORKERS to {facts.cores} or less.",
        )
    version = ".".join(map(str, facts.python))
    return found.all(
        f"Python {version}, {facts.free_bytes / 1e9:.0f} GB of disk free, {files} open files, and a home that is closed to others."
    )


def _judge_home(facts: MachineFacts, found: Findings) -> None:
    if facts.home_mode is None:
        found.warn(f"There is no home yet at {facts.home}.", "`narthex up` makes it; or set NARTHEX_HOME to the folder that is meant.")
        return
    if facts.home_owner != facts.user:
        found.wrong(
            f"{facts.home} belongs to user {facts.home_owner}, and this is user {facts.user}.",
            "Run Narthex, and this command, as the home's owner, or set NARTHEX_HOME to another folder.",
        )
    if facts.home_mode & 0o022:
        found.wrong(f"Others may write into {facts.home} (mode {facts.home_mode:o}).", f"chmod go-w {facts.home}")
    elif facts.home_mode & 0o044:
        found.warn(f"Others may look around in {facts.home} (mode {facts.home_mode:o}).", f"chmod go-r {facts.home}")
    if facts.open_files:
        named = ", ".join(f"{each.path} (mode {each.mode:o})" for each in facts.open_files[:_MOST_TOLD])
        more = len(facts.open_files) - _MOST_TOLD
        paths = " ".join(each.path for each in facts.open_files[:_MOST_TOLD])
        found.wrong(
            f"Others may read keys or what was said: {named}{f' and {more} more' if more > 0 else ''}.",
            f"chmod 600 {paths}, and make new keys in place of those that may have been read.",
        )


def readable(environ: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """The settings, those that cannot be at their defaults, with a finding for each of these and for what looks like a slip."""
    found = Findings("settings")
    names = {environment_name(each) for each in fields(Settings)}
    good: dict[str, str] = {}
    for name in names & environ.keys():
        try:
            Settings.read({name: environ[name]})
            good[name] = environ[name]
        except BadSetting as fault:
            found.wrong(str(fault), f"Set {name} to something that it may be; docs/settings.md has them all.")
    settings = Settings.read(good)
    for name in sorted(environ.keys() - names - {*_OURS}):
        near = difflib.get_close_matches(name, names, 1, 0.85) if name.startswith("NARTHEX_") else []
        if near:
            found.warn(f"{name} is set, and there is no such setting.", f"Was {near[0]} meant?")
    if settings.port > 65535:
        found.wrong(f"NARTHEX_PORT={settings.port}: there is no such port.", "Ports go up to 65535.")
    if settings.spool_max_bytes < settings.spool_reserve_bytes:
        found.warn("NARTHEX_SPOOL_MAX_BYTES is less than NARTHEX_SPOOL_RESERVE_BYTES.", "Let the bound be many times the reserve.")
    if 0 < settings.keep_inferences_days < settings.keep_content_days:
        found.warn(
            "NARTHEX_KEEP_CONTENT_DAYS is more than NARTHEX_KEEP_INFERENCES_DAYS: words would outlive the rows they belong to.",
            "Keep content for no longer than inferences.",
        )
    return settings, found.all("Every setting is one that can be.")


def _open_to_others(home: Path) -> list[OpenFile]:
    found: list[OpenFile] = []
    for pattern in _PRIVATE:
        for path in sorted(home.glob(pattern)):
            try:
                mode = stat.S_IMODE(path.stat().st_mode)
            except OSError:  # it has gone meanwhile, or is closed to us as well
                continue
            if mode & 0o077:
                found.append(OpenFile(str(path), mode))
    return found


def _files_of(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return None
    soft = next((line.split()[3] for line in lines if line.startswith("Max open files")), "")
    return int(soft) if soft.isdigit() else None


def _finite(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
