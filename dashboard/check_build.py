"""Checks that what is committed of the dashboard is current, without Node: its types, and what it was built from.

python -m dashboard.check_build
"""

import asyncio
import hashlib
import sys
from pathlib import Path

from app.api.dashboard.static_files import read_manifest
from dashboard.generate_types import current_files

FOLDER = Path(__file__).parent
_OTHER_SOURCES = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")


def source_hash() -> str:
    """The hash of everything that the build reads, as build.mjs makes it: names, lengths and contents, in the order of names."""
    names = [path.relative_to(FOLDER).as_posix() for path in (FOLDER / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*names, *_OTHER_SOURCES]):
        content = (FOLDER / name).read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


def faults() -> list[str]:
    found: list[str] = []
    for path, content in asyncio.run(current_files()).items():
        if not path.is_file() or path.read_text() != content:
            found.append(f"dashboard/src/generated/{path.name} is not what the API is now.")
    if read_manifest().sources != source_hash():
        found.append("app/api/dashboard/static was not built from what is in dashboard/.")
    return found


def main() -> None:
    found = faults()
    for fault in found:
        sys.stderr.write(f"{fault} Run `make dashboard` and commit what it writes.\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
