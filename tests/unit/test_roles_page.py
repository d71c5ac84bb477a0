"""docs/roles.md says what each role permits, as the code has it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from app.store.access.roles import COMPANY_PERMISSIONS, ROLES, TEAM_PERMISSIONS, Permission, Role

PAGE = Path(__file__).parents[2] / "docs" / "roles.md"
ROW = re.compile(r"^\| `(\w+:\w+)` \| [^|]+ \| ([^|]*)\| ([^|]*)\|$", re.MULTILINE)


def holders(permissions: Mapping[Role, frozenset[Permission]], permission: Permission) -> str:
    return ", ".join(role for role in ROLES if permission in permissions[role])


def test_table_of_the_roles_page_is_what_roles_permit() -> None:
    written = {permission: (company.strip(), team.strip()) for permission, company, team in ROW.findall(PAGE.read_text("utf-8"))}
    expected = {each: (holders(COMPANY_PERMISSIONS, each), holders(TEAM_PERMISSIONS, each)) for each in get_args(Permission)}
    assert written == expected
