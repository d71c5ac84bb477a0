"""How many files and connections a process may have open."""

import resource


def raise_open_file_limit() -> None:
    """Raise the limit on open files to the hard limit: a stream takes two, and the usual soft limit of 1024 is soon reached."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
