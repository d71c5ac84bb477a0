"""The user that the embedded servers run as."""

import os
import pwd
import subprocess
from pathlib import Path
from typing import NamedTuple


class OsUser(NamedTuple):
    """A user and a group to become, as os.chown takes them."""

    uid: int
    gid: int


def server_user() -> OsUser | None:
    """`nobody` under root, because PostgreSQL refuses to run as root. None: the servers run as the current user."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return OsUser(65534, 65534)
    return OsUser(entry.pw_uid, entry.pw_gid)


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
