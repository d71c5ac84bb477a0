"""Place: where the embedded servers keep their data and sockets, and as whom they run.

PostgreSQL refuses to run as root, so under root the servers run as `nobody`. Where that user cannot reach the home (as under /root),
HOME/data is a link to a folder of ours under /var/lib: no folder of the operator's is opened to anybody.
"""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from app.supervisor.errors import OperatorError


class OsUser(NamedTuple):
    """A user and group to become."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """`identity` None: the servers run as whoever runs us."""

    data: Path
    sockets: Path
    os_user: OsUser | None

    def server_folder(self, name: str) -> Path:
        """A folder of one server's, in which only that server reads and writes."""
        path = self.data / name
        path.mkdir(mode=0o700, exist_ok=True)
        if self.os_user is not None:
            os.chown(path, *self.os_user, follow_symlinks=False)
        return path

    def program(self, package: str, path: str) -> Path:
        """The program at `path` in an installed package, copied to the data where its user cannot reach it here.

        Raises Trouble if the package is not installed.
        """
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise OperatorError(
                f"The package {package} is not installed, so there is no server to start here."
                " Install narthex[local], or set DATABASE_URL and REDIS_URL to servers of your own."
            )
        installed = Path(spec.origin).parent
        if self.os_user is None or _can_enter(self.os_user, installed / path):
            return installed / path
        return self._copy_package(installed) / path

    def _copy_package(self, package: Path) -> Path:
        # Named by what is copied, so that a newer wheel is copied anew; renamed when whole, so that half a copy is never run.
        version_hash = hashlib.sha256(f"{package} {package.stat().st_mtime_ns}".encode()).hexdigest()[:8]
        copy = self.data / f"{package.name}-{version_hash}"
        if not copy.exists():
            for old in self.data.glob(f"{package.name}-*"):
                shutil.rmtree(old)
            partial = Path(tempfile.mkdtemp(prefix=f"{package.name}-", dir=self.data))
            # Side by side as in site-packages: a program looks for the wheel's own libraries from where it lies.
            for tree in (package, package.with_name(f"{package.name}.libs")):
                if tree.exists():
                    shutil.copytree(tree, partial / tree.name, ignore=shutil.ignore_patterns("include", "*.a", "__pycache__"))
            for each in (partial, *partial.rglob("*")):  # whatever mask the package was installed under
                each.chmod(0o755 if each.is_dir() or each.stat().st_mode & 0o100 else 0o644)
            partial.rename(copy)
        return copy / package.name


def prepare_paths(home: Path) -> ServerPaths:
    """Makes what is missing. `home` must exist. Raises Trouble where somebody else's folder is in the way."""
    os_user = _unprivileged_user() if os.geteuid() == 0 else None
    return ServerPaths(_prepare_data_folder(home, os_user), _prepare_socket_folder(home, os_user), os_user)


def make_home(home: Path) -> Path:
    """The home as an absolute path, made if it is new. Raises Trouble if it is another user's."""
    home = home.absolute()
    try:
        # Under root others may pass through (to the servers' folders), yet not look around.
        home.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        owner = home.stat().st_uid
    except FileExistsError:
        raise OperatorError(f"{home} is not a folder. Move it away, or set NARTHEX_HOME to another place.") from None
    except PermissionError as error:
        raise OperatorError(f"No permission for {error.filename}. Set NARTHEX_HOME to a folder that you may write.") from None
    if owner != os.geteuid():
        raise OperatorError(
            f"{home} belongs to {_describe_user(owner)}, and this is {_describe_user(os.geteuid())}."
            f" Run as {_describe_user(owner)}, or set NARTHEX_HOME to another folder."
        )
    return home


def remove_socket_folder(home: Path) -> None:
    """Removes their folder, once no server uses it."""
    with contextlib.suppress(OSError):
        _socket_folder(home).rmdir()


def erase_home(home: Path) -> None:
    """Removes a home with everything that belongs to it, also what lies elsewhere. Nothing of it may be running."""
    data = home / "data"
    if data.is_symlink():
        shutil.rmtree(data.resolve(), ignore_errors=True)
    shutil.rmtree(_socket_folder(home), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def _prepare_data_folder(home: Path, os_user: OsUser | None) -> Path:
    data = home / "data"
    if data.is_symlink() and not data.is_dir():
        raise OperatorError(
            f"{data} leads to {data.readlink()}, which is gone, and the database with it."
            f" Bring that folder back, or remove {data} to begin anew."
        )
    if not data.exists():
        if os_user is None or _can_enter(os_user, home):
            data.mkdir(mode=0o700)
            data.chmod(0o700 if os_user is None else 0o711)  # whatever the mask says
        else:
            outside_folder = Path(tempfile.mkdtemp(prefix="narthex-", dir="/var/lib"))
            outside_folder.chmod(0o711)
            data.symlink_to(outside_folder)
    if os_user is not None and not _can_enter(os_user, data.resolve()):
        raise OperatorError(
            f"Under root the database runs as {_describe_user(os_user.uid)}, who may not enter {data.resolve()}."
            " Allow others to pass through the folders above it (chmod o+x), or set NARTHEX_HOME to another folder."
        )
    # Resolved: a server's working folder tells whose it is, and the kernel tells that without links.
    return data.resolve()


def _prepare_socket_folder(home: Path, os_user: OsUser | None) -> Path:
    # Short, because the kernel allows a socket's path some 100 bytes; in /tmp anybody may have made it before us, so it is verified.
    folder = _socket_folder(home)
    owner = os.geteuid() if os_user is None else os_user.uid
    try:
        folder.mkdir(mode=0o700)
        if os_user is not None:
            os.chown(folder, *os_user, follow_symlinks=False)
    except FileExistsError:
        pass
    folder_stat = folder.lstat()
    if not stat.S_ISDIR(folder_stat.st_mode) or folder_stat.st_uid != owner or folder_stat.st_mode & 0o077:
        raise OperatorError(
            f"{folder}, where this home keeps its sockets, is not a folder of {_describe_user(owner)} alone."
            " Remove it, or set NARTHEX_HOME to another folder."
        )
    return folder


def _socket_folder(home: Path) -> Path:
    return Path("/tmp") / f"narthex-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]}"


def _unprivileged_user() -> OsUser:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return OsUser(65534, 65534)
    return OsUser(entry.pw_uid, entry.pw_gid)


def _can_enter(os_user: OsUser, path: Path) -> bool:
    """Asked of the kernel rather than computed: access lists and mounts have a say too."""
    check = subprocess.run(
        ["/bin/sh", "-c", 'test -x "$0"', str(path)], cwd="/", user=os_user.uid, group=os_user.gid, extra_groups=[], check=False
    )
    return check.returncode == 0


def has_user_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _describe_user(uid: int) -> str:
    return pwd.getpwuid(uid).pw_name if has_user_name(uid) else f"user {uid}"
