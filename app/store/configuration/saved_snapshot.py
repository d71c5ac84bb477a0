"""The snapshot on this machine's disk, by which a gateway starts while Postgres is away."""

import logging
import os
from pathlib import Path

import msgspec

from app.domain.snapshot import Snapshot
from app.store.configuration.snapshots import encode_sections

log = logging.getLogger(__name__)


def save_to_disk(snapshot: Snapshot, path: Path) -> None:
    """Save the snapshot to disk, atomically. In steps."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(f".{os.getpid()}.new")
    draft.write_bytes(encode_sections(msgspec.structs.asdict(snapshot)))
    draft.chmod(0o600)
    draft.replace(path)


def load_from_disk(path: Path) -> Snapshot | None:
    """The snapshot that an earlier run saved; None if there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as fault:
        log.warning("the saved configuration cannot be read, so it is ignored", extra={"path": str(path), "fault": str(fault)})
        return None
