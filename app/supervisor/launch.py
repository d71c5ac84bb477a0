"""Becomes another program that does not outlive its parent. Run as a script: launch.py PARENT SIGNAL UID GID PROGRAM [ARGUMENT ...].

A script of its own, because what it does must happen between fork and exec, where a program with threads may not run Python.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """UID and GID of -1 keep those of the parent; SIGNAL 0 lets the program live on without its parent."""
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
        sys.exit("The parent ended before its child began.")
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
