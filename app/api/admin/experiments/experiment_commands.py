"""The commands of `narthex experiments`, which operations on experiments declare."""

from typing import Any

from app.api.rest.command import Beside, Column, Command, Option

# What commands print that change an experiment: when its newest version takes effect.
_CHANGED: Any = {
    "beside": {"versions": Beside("list_experiment_versions", fixed={"limit": "1"})},
    "render": "experiments.changed",
    "shape": "experiments.changed_shape",
}

LIST = Command(
    summary="List experiments, the newest first.",
    columns=(
        *(Column("name", "EXPERIMENT"), Column("section"), Column("owner", "OF"), Column("status")),
        *(Column("unit"), Column("arms"), Column("winner"), Column("started_at", "STARTED", "time")),
    ),
    nothing="There are no experiments yet; docs/experiments.md shows how to make one.",
    data="experiments",
)

SHOW = Command(
    summary="Show experiment NAME, with the versions of its weights.",
    examples=("experiments show size",),
    beside={"versions": Beside("list_experiment_versions", fixed={"limit": "1000"})},
    render="experiments.shown",
    shape="experiments.shown_shape",
    json='{"experiment": as of list, with its settings, "versions": as of `narthex experiments versions`}',
)

VERSIONS = Command(
    name="experiments versions",
    data="versions",
    options={"limit": Option(default="1000")},
    render="experiments.versions",
)

START = Command(
    summary="Start experiment NAME, which freezes its arms.",
    help="Also its unit, its control, its salt and who is eligible. It assigns episodes from twelve seconds later on.",
    examples=("experiments start size",),
    **_CHANGED,
)

STOP = Command(
    summary="End experiment NAME, or stop one ARM of it.",
    help="A stopped arm gets no new episodes; those that are in it stay, unless --now is given: then the control serves"
    " them, while the record keeps the arm that they were assigned to. The control cannot be stopped.",
    examples=(
        "experiments stop size large",
        "experiments stop size large --now",
        "experiments stop size --winner small --yes",
    ),
    options={
        "arm": Option(is_argument=True),
        "now": Option(help="Serve the control to what is in the arm, too."),
        "winner": Option(
            metavar="ARM",
            help="End the experiment, and serve this arm to everybody; without it the control serves.",
        ),
    },
    asks=True,
    confirm=(
        "Stop the arm {arm} of {name}?",
        "End the experiment {name} for good, and serve {winner} to everybody?",
        "End the experiment {name} for good, and serve its control to everybody?",
    ),
    **_CHANGED,
)

RESUME = Command(
    name="experiments resume",
    summary="Put a stopped ARM of experiment NAME back.",
    help="New episodes get it again, and so do running ones that the control served meanwhile. If a guardrail had"
    " stopped it, it is judged by what comes from now on.",
    examples=("experiments resume size large --weight 0.5",),
    options={
        "arm": Option(is_argument=True),
        "weight": Option(metavar="W", help="Its weight from now on; needed if it is 0."),
    },
    **_CHANGED,
)

WEIGHTS = Command(
    name="experiments weights",
    summary="Set weights of arms of experiment NAME.",
    help="They are absolute: the others stay as they are, and episodes that have begun keep their arm.",
    examples=("experiments weights size large=0.2",),
    options={"arms": Option(is_argument=True, metavar="ARM=WEIGHT...")},
    **_CHANGED,
)

ENROL = Command(
    name="experiments enrol",
    summary="Set the SHARE of units that take part in experiment NAME.",
    help="From 0 to 1, or 0% to 100%; the rest of a ramp is dropped. Raising it moves no unit from one arm to another.",
    examples=("experiments enrol size 50%",),
    options={"enrolment": Option(is_argument=True, metavar="SHARE")},
    **_CHANGED,
)

LOG = Command(
    name="experiments log",
    summary="Show what guardrails, adaptive rules and promotions did to experiment NAME.",
    help="The newest first, with the reason; --json has the evidence, too: the numbers that decided, and the sums that they come from.",
    examples=("experiments log size",),
    data="acts",
    options={"limit": Option(default="1000")},
    render="experiments.log",
)

PROMOTE = Command(
    name="experiments promote",
    summary="End experiment NAME with ARM as its winner, if it is proven better.",
    help="It is refused, with every condition that is not met and its numbers, unless there are enough complete units"
    " and days, the primary metric is better at any time, every guardrail is met, and units were split as the weights"
    " say. docs/guardrails.md has the conditions.",
    examples=(
        "experiments promote size large",
        'experiments promote size large --force --reason "the control is retired by its provider"',
    ),
    options={
        "arm": Option(is_argument=True),
        "force": Option(help="Also if conditions are not met; needs --reason."),
        "reason": Option(help="Why it is promoted nevertheless; the log keeps it."),
    },
    asks=True,
    confirm="End the experiment {name} for good, with {arm} as its winner?",
    **_CHANGED,
)
