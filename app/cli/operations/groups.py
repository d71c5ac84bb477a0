"""The help of groups of made commands, in paragraphs."""

from collections.abc import Mapping, Sequence

GROUPS: Mapping[str, Sequence[str]] = {
    "budgets": (
        "Set budgets, and show what is spent of them.",
        "A budget is a limit on cost: so many US dollars in a day, week or month, for each member of its scope. It is exact, as all limits"
        " are: requests beyond it are refused. docs/budgets.md is a guide.",
    ),
    "datasets": (
        "Select recorded requests into datasets, and export them for training.",
        "A dataset has versions, each made by a selection and never changed; the writers build them. docs/datasets.md is a guide.",
    ),
    "erase": (
        "Erase what was recorded of somebody, and prove it.",
        "docs/privacy.md says what is erased and what remains.",
    ),
    "costs": (
        "Export costs for finance, and compare them with what providers ask.",
        "docs/cost.md has the rules by which costs are computed.",
    ),
    "episodes": ("List episodes, with the sums of their requests.",),
    "keys": (
        "Create, list, rotate, change and revoke keys.",
        "A key stands for a team. It is shown once, when it is created, and stored as a hash; after that, commands name it by its public"
        " part, such as nx-0123456789ab. A change returns once every gateway process goes by it, and says which do not after"
        " NARTHEX_APPLY_WAIT_S.",
    ),
    "experiments": (
        "List, start, change and stop experiments.",
        "An experiment of a function splits its requests between variants, one of a model between models or its own targets. It is declared"
        " in the configuration ([models.NAME.experiment]); docs/experiments.md is a guide.",
    ),
    "limits": (
        "List and set limits, override them until a time, and find those that nothing matches.",
        "Limits are part of the configuration, so `narthex apply` sets them, too, and budgets also `narthex budgets`. docs/budgets.md is a"
        " guide.",
    ),
    "models targets": ("List, add, replace and remove the targets that serve a model.",),
    "records": ("Count recorded requests, and show what was written in them as media.",),
    "roles": (
        "Give roles to users, service accounts and groups, and take them back.",
        "A role applies to the whole company or, with --team, within one team. docs/roles.md says what each one permits. Changes take"
        " effect with the next request.",
    ),
    "keys sessions": ("List where browsers are signed in with an admin key, and sign them out.",),
    "service-accounts": (
        "Create service accounts for programs, and their tokens.",
        "A program sends a token as `Authorization: Bearer nxs-...` to the admin API, and may do what the roles of its account permit."
        " Changes take effect with the next request.",
    ),
    "service-accounts tokens": ("Create, list and revoke tokens of a service account.",),
    "shadow": (
        "Compare shadows with what they repeat.",
        "A shadow answers a share of requests again by another variant or model, which no caller sees. It is declared in the configuration"
        " ([models.NAME.shadow], [functions.NAME.shadow]); docs/shadow.md is a guide.",
    ),
    "snapshots": (
        "Show the configurations that served requests.",
        "Each inference is recorded with the hash of the one that served it.",
    ),
    "teams": (
        "List teams, and set their options.",
        "A team is created with its first key (`narthex keys create --team NAME`), by `narthex teams set`, or by [teams.NAME] in a file.",
    ),
    "users": (
        "List users, and disable or enable them.",
        "A user exists from the first sign-in on. `narthex roles` gives them roles.",
    ),
    "users sessions": ("List where a user is signed in, and sign them out.",),
    "webhooks": (
        "Have addresses notified of budgets that reach a threshold.",
        "Notices are signed as Standard Webhooks says, and sent by the writers until they are taken, for about a day. docs/budgets.md has"
        " their content, and how to check a signature.",
    ),
    "workers": ("List gateway processes.",),
}


def paragraphs_of(group: str) -> Sequence[str]:
    return GROUPS.get(group) or (f"Operations of the admin API on {group.rpartition(' ')[2].replace('-', ' ')}.",)
