"""The folder in which servers of tests keep their files."""

import os
import shutil

_NEEDED_BYTES = 4 * 1024**3


def fast_folder() -> str:
    """A folder in memory where there is enough of it: the files survive a killed server, and no test cuts the power.

    Not pytest's folders: as root, the servers run as another user, who cannot read them.
    """
    return "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > _NEEDED_BYTES else "/tmp"
