"""The narthex command as it is typed in a shell."""

import shlex
import sys
from pathlib import Path


def narthex_command() -> str:
    """The command's path, quoted: it works from any folder of this machine."""
    return shlex.quote(str(Path(sys.executable).with_name("narthex")))
