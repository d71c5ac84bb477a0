"""Time zones by name: only those that are the same on every machine."""

import datetime
import zoneinfo

_HOUR = datetime.timedelta(hours=1)
_DAY = datetime.timedelta(days=1)

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


def has_full_hours(zone: datetime.tzinfo, begin: datetime.datetime, end: datetime.datetime) -> bool:
    """Whether the days of a zone begin on full hours of UTC, all through a period: sums are kept by these."""
    days = (begin + at * _DAY for at in range((end - begin) // _DAY + 1))
    return not any((day.astimezone(zone).utcoffset() or _HOUR) % _HOUR for day in days)
