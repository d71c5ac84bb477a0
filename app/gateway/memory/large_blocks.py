"""How the C library allocates large blocks of memory."""

import ctypes

_M_MMAP_THRESHOLD = -3  # of <malloc.h>
_LARGE_BLOCK_BYTES = 1024 * 1024


def map_large_blocks() -> None:
    """Gives each block of a megabyte and more a mapping of its own, which grows without being copied and is returned when it is freed.

    That is how glibc begins, but it raises its threshold to up to 32 MiB as such blocks are freed. A body that grows would then be copied
    again and again, 15 ms each time for 20 MB, while nothing else is served. Where the C library has no such threshold, nothing changes.
    https://man7.org/linux/man-pages/man3/mallopt.3.html, read 2026-11
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
