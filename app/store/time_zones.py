"""Time zones by their names: those that mean the same on every machine."""

import datetime
import zoneinfo

# A machine's own zone, or lists of them beside the usual one, which other machines and Postgres need not have.
_MACHINE_LOCAL_NAMES = ("localtime", "posixrules", "posix/", "right/")


class UnknownTimeZone(ValueError):
    """There is none of this name; the message says so."""


def find_time_zone(name: str) -> datetime.tzinfo:
    if name == "UTC":  # also known where the machine has no list of zones
        return datetime.UTC
    try:
        if not name.startswith(_MACHINE_LOCAL_NAMES):
            return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder of zones
        pass
    raise UnknownTimeZone(f"there is no time zone {name!r:.60}; one is called Europe/Berlin.")
