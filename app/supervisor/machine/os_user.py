"""The users that the embedded servers run as."""

import grp
import os
import pwd
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from app.supervisor.machine.errors import OperatorError

# Given to nobody by systemd and reserved by Debian. Source: https://systemd.io/UIDS-GIDS/ and
# https://www.debian.org/doc/debian-policy/ch-opersys.html#uid-and-gid-classes, read 2026-11.
_SERVER_NUMBERS = range(65520, 65534)
_NOBODY = 65534


class OsUser(NamedTuple):
    """A user and a group to become, as os.chown takes them."""

    uid: int
    gid: int


def server_user() -> OsUser | None:
    """Under root a user and group that nothing else runs as, because PostgreSQL refuses to run as root. None: the current user.

    Not `nobody`: whatever else runs as `nobody` could read the servers' files, connect to them and trace them. The user has no name
    and needs none. Raises OperatorError if every number has one.
    """
    if os.geteuid() != 0:
        return None
    number = next((each for each in _SERVER_NUMBERS if not has_user_name(each) and not _has_group_name(each)), None)
    if number is None:
        raise OperatorError(
            f"All users from {_SERVER_NUMBERS[0]} to {_SERVER_NUMBERS[-1]} have names on this machine; under root Narthex needs one that"
            " nobody uses. Run as another user, or set DATABASE_URL and REDIS_URL to servers of your own."
        )
    return OsUser(number, number)


def former_server_uid() -> int:
    """The user that servers under root ran as before they had their own: `nobody`."""
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return _NOBODY


def cluster_creator(os_user: OsUser | None) -> OsUser | None:
    """The user to run initdb as, which demands one with a name: `nobody`, in the servers' own group, which gives no other process access.

    A process of `nobody` in another group cannot trace it either: ptrace(2) compares groups as well.
    """
    return None if os_user is None else OsUser(former_server_uid(), os_user.gid)


def hand_over(folder: Path, os_user: OsUser) -> None:
    """Gives a folder with all that is in it to this user, if it belongs to another. No process may be using it.

    Raises OperatorError if a file in it has another name elsewhere, for it may be anybody's.
    """
    if folder.lstat().st_uid == os_user.uid:
        return
    os.chown(folder, 0, 0, follow_symlinks=False)  # closed to the former owner, and given away last: an interrupted run is repeated
    for path, folder_names, file_names, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in (*folder_names, *file_names):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                raise OperatorError(
                    f"{Path(path, name)} has another name elsewhere (a hard link), so it is not given to the servers' user."
                    " Replace it by a copy (cp, then mv), and start again."
                )
            os.chown(name, *os_user, dir_fd=descriptor, follow_symlinks=False)
    os.chown(folder, *os_user, follow_symlinks=False)


def can_enter(os_user: OsUser, path: Path) -> bool:
    """Whether this user may enter the folder or run the program: tested as that user, because access lists and mounts count too."""
    check = subprocess.run(
        ["/bin/sh", "-c", 'test -x "$0"', str(path)], cwd="/", env={}, user=os_user.uid, group=os_user.gid, extra_groups=[], check=False
    )
    return check.returncode == 0


def has_user_name(uid: int) -> bool:
    """Whether this machine knows a name for the user number."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def describe_user(uid: int) -> str:
    """The user's name, or "user N" for one without a name."""
    return pwd.getpwuid(uid).pw_name if has_user_name(uid) else f"user {uid}"


def _has_group_name(gid: int) -> bool:
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True
