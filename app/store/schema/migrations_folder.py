"""The folder of the migrations, and the newest one. Without Alembic, whose import takes a third of a second of every command."""

import importlib.util
from pathlib import Path


def find_migrations_folder() -> Path:
    # Found without importing it: migrations import the store.
    spec = importlib.util.find_spec("migrations")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("The package `migrations` is not installed beside `app`.")
    return Path(spec.origin).parent


def newest_revision() -> str:
    """The revision of the tables that this version needs: the number with which the last migration's file name begins."""
    return max(file.name.partition("_")[0] for file in (find_migrations_folder() / "versions").glob("[0-9]*_*.py"))
