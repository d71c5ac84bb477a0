"""Recorded exchanges with real hosts, and constructed cases in the same format.

The recordings are not part of this repository: they are in ../shared/exchanges, and without it only the constructed cases exist. These are
written from the hosts' documentation, with invented content, for what the recordings lack.
"""

import base64
import json
from pathlib import Path
from typing import Any

from msgspec import Struct

FOLDER = Path(__file__).parents[3].parent / "shared" / "exchanges"
CONSTRUCTED = Path(__file__).parents[1] / "constructed"

# Recorded on the wire, or rebuilt from an SDK's objects: evidence of what a host does. Other fidelities are replayed on request.
EVIDENCE = ("recorded", "recorded-parsed")


class Recording(Struct, frozen=True):
    """One exchange. `request_body`: JSON; None if it was not recorded. `body`: the response, as JSON or text. `raw`: its bytes."""

    folder: str
    name: str
    fidelity: str
    path: str
    request_headers: dict[str, str]
    request_body: Any
    status: int
    headers: dict[str, str]
    body: Any
    raw: bytes

    @property
    def id(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_evidence(self) -> bool:
        return self.fidelity in EVIDENCE

    @property
    def streamed(self) -> bool:
        return self.status == 200 and not isinstance(self.body, dict | list)

    @property
    def events(self) -> list[Any]:
        """The JSON of each server-sent event, read with no code of providers/."""
        lines = [line.removeprefix("data:").strip() for line in self.raw.decode().splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def recordings(folder: str, *fidelities: str) -> list[Recording]:
    """The recordings of a folder with these fidelities (default: EVIDENCE), if present, and the constructed cases."""
    found: list[Recording] = []
    for path in [*sorted((FOLDER / folder).glob("*.json")), *sorted((CONSTRUCTED / folder).glob("*.json"))]:
        recorded = json.loads(path.read_text())
        if recorded["fidelity"] not in (*(fidelities or EVIDENCE), "constructed"):
            continue
        body = recorded.get("response_body")
        if "response_body_base64" in recorded:
            raw = base64.b64decode(recorded["response_body_base64"])
            body = None
        else:
            raw = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        found.append(
            Recording(
                folder=folder,
                name=path.stem,
                fidelity=recorded["fidelity"],
                path=recorded["path"] or "",
                request_headers=recorded.get("request_headers") or {},
                request_body=recorded["request_body"],
                status=recorded["status"],
                headers=recorded.get("response_headers") or {},
                body=body,
                raw=raw,
            )
        )
    return found
