"""Becomes another program that does not outlive its parent. Run as a script: launch.py PARENT SIGNAL UID GID PROGRAM [ARGUMENT ...].

It is a script of its own because its work belongs between fork and exec, where a program with threads must not run Python.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Reads the command line. UID and GID of -1 keep the parent's; with SIGNAL 0 the program outlives its parent."""
    parent, signal, uid, gid = (int(text) for text in sys.argv[1:5])
    libc = ctypes.CDLL(None, use_errno=True)
    os.umask(0o077)
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After setuid: a change of user clears the signal (prctl(2)).
    if signal and libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if signal and os.getppid() != parent:
        sys.exit("The parent ended before its child started.")
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
