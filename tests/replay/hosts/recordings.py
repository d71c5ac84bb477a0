"""Recordings of real hosts, as they lie beside the project: they belong to others, and without the folder nothing of them is tried.

And cases of our own, of the same form, for what the recordings lack: constructed by documents, with invented content.
"""

import base64
import json
from pathlib import Path
from typing import Any

from msgspec import Struct

FOLDER = Path(__file__).parents[3].parent / "shared" / "exchanges"
CONSTRUCTED = Path(__file__).parents[1] / "constructed"

# On the wire, or put together again from an SDK's objects: evidence of what a host does. The rest is read where a case says so.
EVIDENCE = ("recorded", "recorded-parsed")


class Recording(Struct, frozen=True):
    """One exchange. `asked`: the request's JSON; None where it was not kept. `raw`: the answer's body, byte for byte where it was text."""

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
        """The JSON of each event of a stream of text, read plainly, without any of the code that is tried here."""
        lines = [line.removeprefix("data:").strip() for line in self.raw.decode().splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def recordings(folder: str, *fidelities: str) -> list[Recording]:
    """Those of a folder with these fidelities, evidence unless it is said otherwise, where the recordings are; and those of our own."""
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
