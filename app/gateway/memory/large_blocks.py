"""How the C library allocates large blocks of memory."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_LARGE_BLOCK_BYTES = 1024 * 1024
# Free memory at the end of the heap beyond this goes back to the system. With the 128 KiB of glibc that would happen with every request.
_MAX_FREE_BYTES = 64 * 1024 * 1024


def map_large_blocks() -> None:
    """Gives each block of a megabyte and more a mapping of its own, which grows without being copied and is returned when it is freed.

    That is how glibc begins, but it raises its threshold to up to 32 MiB as such blocks are freed. A body that grows would then be copied
    again and again, 15 ms each time for 20 MB, while nothing else is served. Where the C library has no such threshold, nothing changes.
    https://man7.org/linux/man-pages/man3/mallopt.3.html, read 2026-11
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _MAX_FREE_BYTES)
