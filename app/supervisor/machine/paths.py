"""The paths where the embedded servers keep their data and sockets.

Under root the servers run as a user of their own. Where that user cannot reach the home (as under /root),
HOME/data is a link to a folder of ours under /var/lib: no folder of the operator's is opened to anybody.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.os_user import OsUser, can_enter, describe_user, former_server_uid, server_user


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """The servers' folders."""

    data: Path
    sockets: Path
    os_user: OsUser | None  # None: the servers run as the current user

    def server_folder(self, name: str) -> Path:
        """A folder that only the servers' user can read and write; made if it is missing."""
        path = self.data / name
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            if self.os_user is not None:
                os.chown(path, *self.os_user, follow_symlinks=False)
        return path

    def program(self, package: str, path: str) -> Path:
        """The program at `path` in an installed package; a copy under `data` where the servers' user cannot reach the installed one.

        Raises OperatorError if the package is not installed.
        """
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise OperatorError(
                f"The package {package} is not installed, so there is no server to start here."
                " Install narthex[local], or set DATABASE_URL and REDIS_URL to servers of your own."
            )
        installed = Path(spec.origin).parent
        if self.os_user is None or can_enter(self.os_user, installed / path):
            return installed / path
        return self._copy_package(installed) / path

    def _copy_package(self, package: Path) -> Path:
        # Named by what is copied, so that a newer wheel is copied again; renamed once complete, so that no partial copy ever runs.
        version_hash = hashlib.sha256(f"{package} {package.stat().st_mtime_ns}".encode()).hexdigest()[:8]
        copy = self.data / f"{package.name}-{version_hash}"
        if not copy.exists():
            for old in self.data.glob(f"{package.name}-*"):
                shutil.rmtree(old)
            partial = Path(tempfile.mkdtemp(prefix=f"{package.name}-", dir=self.data))
            # Side by side as in site-packages: a program finds the wheel's own libraries relative to itself.
            for tree in (package, package.with_name(f"{package.name}.libs")):
                if tree.exists():
                    shutil.copytree(tree, partial / tree.name, ignore=shutil.ignore_patterns("include", "*.a", "__pycache__"))
            for each in (partial, *partial.rglob("*")):  # the umask at the package's installation may have been strict
                each.chmod(0o755 if each.is_dir() or each.stat().st_mode & 0o100 else 0o644)
            partial.rename(copy)
        return copy / package.name


def prepare_paths(home: Path) -> ServerPaths:
    """Makes the folders that are missing in an existing home. Raises OperatorError where somebody else's folder is in the way."""
    os_user = server_user()
    return ServerPaths(_prepare_data_folder(home, os_user), _prepare_socket_folder(home, os_user), os_user)


def remove_socket_folder(home: Path) -> None:
    """Removes the sockets' folder if no server has a socket in it."""
    with contextlib.suppress(OSError):
        socket_folder(home).rmdir()


def socket_folder(home: Path) -> Path:
    """The folder of this home's sockets; under /tmp, because the kernel limits a socket's path to about 100 bytes."""
    return Path("/tmp") / f"narthex-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]}"


def _prepare_data_folder(home: Path, os_user: OsUser | None) -> Path:
    data = home / "data"
    if data.is_symlink() and not data.is_dir():
        raise OperatorError(
            f"{data} is a link to {data.readlink()}, which no longer exists, and neither does its database."
            f" Restore that folder, or remove {data} to start anew."
        )
    if not data.exists():
        if os_user is None or can_enter(os_user, home):
            data.mkdir(mode=0o700)
            data.chmod(0o700 if os_user is None else 0o711)  # mkdir's mode is subject to the umask
        else:
            outside_folder = Path(tempfile.mkdtemp(prefix="narthex-", dir="/var/lib"))
            outside_folder.chmod(0o711)
            data.symlink_to(outside_folder)
    if os_user is not None and not can_enter(os_user, data.resolve()):
        raise OperatorError(
            f"Under root the database runs as {describe_user(os_user.uid)}, who may not enter {data.resolve()}."
            " Allow others to pass through the folders above it (chmod o+x), or set NARTHEX_HOME to another folder."
        )
    # Resolved: a server is recognised by its working folder, which the kernel reports without links.
    return data.resolve()


def _prepare_socket_folder(home: Path, os_user: OsUser | None) -> Path:
    folder = socket_folder(home)
    owner = os.geteuid() if os_user is None else os_user.uid
    if os_user is not None and folder.is_dir() and folder.lstat().st_uid == former_server_uid():
        shutil.rmtree(folder)  # left by servers that ran as `nobody`
    # Verified below, because anybody can make a folder in /tmp before us.
    try:
        folder.mkdir(mode=0o700)
        if os_user is not None:
            os.chown(folder, *os_user, follow_symlinks=False)
    except FileExistsError:
        pass
    folder_stat = folder.lstat()
    if not stat.S_ISDIR(folder_stat.st_mode) or folder_stat.st_uid != owner or folder_stat.st_mode & 0o077:
        raise OperatorError(
            f"{folder}, where this home keeps its sockets, is not a folder of {describe_user(owner)} alone."
            " Remove it, or set NARTHEX_HOME to another folder."
        )
    return folder
