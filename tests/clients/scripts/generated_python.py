"""Manages teams with the client that openapi-python-client made as `narthex_api`, and prints what it saw as the last line."""

# pyright: basic, reportMissingImports=false
import json
import os
import sys

from narthex_api.api.teams import create_team, delete_team, get_team, list_teams, patch_team
from narthex_api.client import AuthenticatedClient
from narthex_api.models import DryRun, Error, NewTeam, Team, TeamChanges

PREFIX = os.environ["PREFIX"]

with AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["ADMIN_KEY"]) as client:
    names = [f"{PREFIX}-{number}" for number in range(3)]
    created = [create_team.sync_detailed(client=client, body=NewTeam(name=name, priority=5)) for name in names]
    duplicate = create_team.sync_detailed(client=client, body=NewTeam(name=names[0]))
    listed, after = [], {}
    while True:
        page = list_teams.sync(client=client, search=PREFIX, limit=2, **after)
        listed.append([team.name for team in page.data])
        if page.next_ is None:
            break
        after = {"after": page.next_}
    shown = get_team.sync_detailed(names[0], client=client)
    etag = shown.headers["etag"]
    tried = patch_team.sync(names[0], client=client, body=TeamChanges(priority=7), if_match=etag, dry_run=True)
    patched = patch_team.sync(names[0], client=client, body=TeamChanges(priority=7), if_match=etag)
    stale = patch_team.sync_detailed(names[0], client=client, body=TeamChanges(priority=8), if_match=etag)
    deleted = [delete_team.sync_detailed(name, client=client, if_match="*") for name in names]
    missing = get_team.sync_detailed(names[0], client=client)
    assert isinstance(tried, DryRun) and isinstance(patched, Team) and isinstance(stale.parsed, Error) and isinstance(missing.parsed, Error)
    seen = {
        "created": [(int(response.status_code), response.parsed.name, response.parsed.priority) for response in created],
        "duplicate": int(duplicate.status_code),
        "pages": listed,
        "dry_run": [change.action for change in tried.changes],
        "patched": patched.priority,
        "stale": (int(stale.status_code), stale.parsed.error.type_),
        "deleted": [int(response.status_code) for response in deleted],
        "missing": (int(missing.status_code), missing.parsed.error.type_),
    }
    sys.stdout.write(json.dumps(seen) + "\n")
