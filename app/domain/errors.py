"""Errors of configuration, keys and tables that an administrator is shown. A module without other imports, for the CLI."""


class BadConfiguration(ValueError):
    """A configuration that cannot be applied; the message says where, what is wrong and how to fix it."""


class StillUsed(BadConfiguration):
    """A change of something that is in use, and may not change so; the message names what uses it."""


class UnknownVersion(BadConfiguration):
    """A version of the configuration that the history does not have."""


class UnknownExperiment(BadConfiguration):
    """An experiment that the configuration does not have."""


class InvalidKeyField(ValueError):
    """An invalid field of a key, a team, or a query; `field` names it, the message is a sentence."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class BoundReached(ValueError):
    """There are as many of something as there may be; the message names the bound, and says what to do."""


class UnknownRevision(Exception):
    """The database's tables are of a revision that this version does not have: a newer version created them."""


class MigrationBlocked(Exception):
    """Others hold what a migration needs for longer than it waits; the message names them, and says what to do."""


class UnsupportedServer(Exception):
    """A server of a version that is too old; the message is a sentence with the version that it has and the one that is needed."""
