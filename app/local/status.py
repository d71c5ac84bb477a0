"""What runs in a home, as its pid files and the gateway itself tell."""

from pathlib import Path

import httpx

from app.local.listeners import reachable_url
from app.settings import Settings


def processes(home: Path) -> list[str]:
    """A line for each process that has ever been noted here and not ended in order."""
    return [_line(each) for each in sorted((home / "run").glob("*.pid"))]


def gateway(settings: Settings) -> tuple[str, bool]:
    """A sentence, and whether it is ready for requests."""
    url = reachable_url(settings)
    try:
        answer = httpx.get(f"{url}/health/ready", timeout=2.0, trust_env=False)
    except httpx.TransportError:
        return f"Nothing answers on {url}.", False
    if answer.status_code != 200:
        return f"The gateway on {url} is not ready: {answer.text.strip()[:500]}", False
    return f"The gateway on {url} is ready.", True


def _line(pid_file: Path) -> str:
    pid = pid_file.read_text().strip()
    lives = pid.isdigit() and Path("/proc", pid).exists()
    return f"{pid_file.stem:12} {'process ' + pid if lives else 'not running'}"
