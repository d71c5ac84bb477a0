"""The files of a source, read within bounds."""

import os
import stat
from pathlib import Path

from app.domain.errors import BadConfiguration

MAX_FILE_BYTES = 1_000_000
MAX_FILES = 1000
# Of all files of a source together.
MAX_CHARACTERS = 8_000_000


def read_source(path: Path) -> str:
    """The text of a file. Raises BadConfiguration for one that is missing, too large, no regular file, or no text in UTF-8."""
    try:
        # Without O_NONBLOCK the opening of a named pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is invalid"
        raise BadConfiguration(f"{str(path)!r} cannot be read: {reason}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadConfiguration(f"{str(path)!r} is not a regular file.")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BadConfiguration(f"{str(path)!r} is larger than {MAX_FILE_BYTES:,} bytes, which no configuration or template needs.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadConfiguration(f"{str(path)!r} is not text in UTF-8.") from None
    if "\0" in text:
        raise BadConfiguration(f"{str(path)!r} has a NUL character: it is no text.")
    return text
