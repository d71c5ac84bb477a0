"""Time zones by name: only those that are the same on every machine."""

import datetime
import zoneinfo

# A machine's own zone, and lists beside the usual one, which other machines and Postgres may lack.
_MACHINE_LOCAL_NAMES = ("localtime", "posixrules", "posix/", "right/")


class UnknownTimeZone(ValueError):
    """There is no time zone of this name."""


def find_time_zone(name: str) -> datetime.tzinfo:
    if name == "UTC":  # works on machines without a time zone database too
        return datetime.UTC
    try:
        if not name.startswith(_MACHINE_LOCAL_NAMES):
            return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder of zones
        pass
    raise UnknownTimeZone(f"there is no time zone {name!r:.60}; an example is Europe/Berlin.")
