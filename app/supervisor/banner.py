"""What `narthex up` says once everything answers: an address, a key, and examples that work when they are pasted."""

import sys
from pathlib import Path

from app.settings import Settings
from app.supervisor.http_processes import reachable_url

_TEXT = """\

Narthex is up.

  Base URL    {url}/v1
  API key     {key}
  Reference   {url}/docs
  Admin key   in {home}/admin-key
  Logs        in {home}/logs

Ask something (the sandbox is a small engine of ours that answers at random; it needs no GPU):

curl {url}/v1/chat/completions \\
  -H "Authorization: Bearer {key}" \\
  -H "Content-Type: application/json" \\
  -d '{{"model": "sandbox", "messages": [{{"role": "user", "content": "Hello!"}}]}}'

Or with the official OpenAI SDK:

{python} - <<'END'
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="{key}")
answer = client.chat.completions.create(model="sandbox", messages=[{{"role": "user", "content": "Hello!"}}])
print(answer.choices[0].message.content)
END

Ctrl-C stops everything; the data stays in {home}.
"""


def banner_text(settings: Settings, key: str) -> str:
    return _TEXT.format(url=reachable_url(settings), key=key, home=settings.home, python=_shell_quote(sys.executable))


def narthex_command() -> str:
    """How the narthex command is typed from anywhere on this machine."""
    return _shell_quote(str(Path(sys.executable).with_name("narthex")))


def _shell_quote(path: str) -> str:
    return path if path.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum() else f'"{path}"'
