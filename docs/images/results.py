"""The pictures of docs/results.md, from the formulas that results are computed by: `python docs/images/results.py` writes them again.

Simulated units with fixed seeds, looked at in steps: what an experiment with an effect and one without say over time.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from app.results.statistics.compare import compare
from app.results.statistics.plan import Plan
from app.results.statistics.sample_ratio import log_e_value
from app.results.statistics.sums import Stratum, UnitSums

FOLDER = Path(__file__).parent
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 300, 70, 46
STEP = 200
FIXED_Z = 1.96


def main() -> None:
    (FOLDER / "results-effect.svg").write_text(intervals(0.06, 8000, 11, "solved: +6 points"))
    (FOLDER / "results-no-effect.svg").write_text(intervals(0.0, 8000, 7, "solved: no difference"))
    (FOLDER / "results-sample-ratio.svg").write_text(sample_ratio(30_000, 3))


def intervals(effect: float, units: int, seed: int, title: str) -> str:
    """The difference and its interval at each look, and what a usual test would show at that look alone."""
    chance = random.Random(seed)
    plan = Plan("boolean", "max", 0.05, units)
    arms = {"control": [0, 0], "arm": [0, 0]}
    looks: list[tuple[int, float, float, float, float]] = []
    for number in range(1, units + 1):
        arm = chance.choice(("control", "arm"))
        arms[arm][0] += 1
        arms[arm][1] += chance.random() < 0.5 + effect * (arm == "arm")
        if number % STEP == 0:
            sums = {name: UnitSums(n, ones, ones, n - ones, ones) for name, (n, ones) in arms.items()}
            found = compare([Stratum(1, "minted", {"control": 0.5, "arm": 0.5}, sums)], "control", "arm", plan)
            if found.difference is None or found.interval is None:
                continue  # too early
            error = sum((ones / n) * (1 - ones / n) / n for n, ones in arms.values()) ** 0.5
            looks.append((number, found.difference, found.interval.low, found.interval.high, FIXED_Z * error))
    chart = Chart(units, -0.16, 0.16, title, "difference of the share of units", "units")
    chart.band([(x, low, high) for x, _, low, high, _ in looks], "#9ec5e8")
    chart.line([(x, difference - half) for x, difference, _, _, half in looks], "#c0392b", dashed=True)
    chart.line([(x, difference + half) for x, difference, _, _, half in looks], "#c0392b", dashed=True)
    chart.line([(x, difference) for x, difference, *_ in looks], "#1f4e79")
    if effect:
        chart.line([(0, effect), (units, effect)], "#2e7d32")
    chart.legend([("holds at all looks", "#9ec5e8"), ("usual 95 % interval, of one look", "#c0392b"), ("difference seen", "#1f4e79")])
    return chart.svg()


def sample_ratio(units: int, seed: int) -> str:
    """The evidence of a mismatch, with units of one arm lost, and without."""
    chance = random.Random(seed)
    chart = Chart(units, -5, 15, "units assigned 50:50", "ln of the evidence", "units")
    for lost, color in ((0.0, "#2e7d32"), (0.06, "#c0392b")):
        counts = {"control": 0, "arm": 0}
        points: list[tuple[int, float]] = []
        for number in range(1, units + 1):
            arm = chance.choice(("control", "arm"))
            counts[arm] += arm == "control" or chance.random() >= lost
            if number % (2 * STEP) == 0:
                points.append((number, min(15.0, log_e_value(counts, {"control": 0.5, "arm": 0.5}))))
        chart.line(points, color)
    chart.line([(0, 4.605), (units, 4.605)], "#555555", dashed=True)
    chart.legend(
        [("all units are counted", "#2e7d32"), ("6 % of one arm's units are lost", "#c0392b"), ("mismatch (p = 0.01)", "#555555")],
        corner=(LEFT + 14, 44),
    )
    return chart.svg()


class Chart:
    def __init__(self, most: int, low: float, high: float, title: str, of_y: str, of_x: str) -> None:
        self._most, self._low, self._high = most, low, high
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="16" font-weight="bold">{title}</text>',
            f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">{of_y}</text>',
            f'<text x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{of_x}</text>',
        ]
        for part in range(5):
            x, y = most * part / 4, low + (high - low) * part / 4
            label = f"{y:+.2f}" if high < 1 else f"{y:.0f}"
            self._parts.append(f'<text x="{self._x(x):.0f}" y="{HEIGHT - 26}" text-anchor="middle">{x:.0f}</text>')
            self._parts.append(f'<text x="{LEFT - 6}" y="{self._y(y) + 4:.0f}" text-anchor="end">{label}</text>')
        self.line([(0, 0.0), (most, 0.0)], "#bbbbbb")

    def line(self, points: Sequence[tuple[float, float]], color: str, *, dashed: bool = False) -> None:
        drawn = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>')

    def band(self, points: Sequence[tuple[float, float, float]], color: str) -> None:
        outline = [(x, high) for x, _, high in points] + [(x, low) for x, low, _ in reversed(points)]
        drawn = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in outline)
        self._parts.append(f'<polygon points="{drawn}" fill="{color}" fill-opacity="0.5"/>')

    def legend(self, entries: Sequence[tuple[str, str]], *, corner: tuple[int, int] = (WIDTH - 240, 20)) -> None:
        """`corner`: where no line is."""
        left, top = corner
        for at, (text, color) in enumerate(entries):
            y = top + 16 * at
            self._parts.append(f'<rect x="{left}" y="{y - 8}" width="18" height="8" fill="{color}"/>')
            self._parts.append(f'<text x="{left + 24}" y="{y}">{text}</text>')

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])

    def _x(self, x: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * x / self._most

    def _y(self, y: float) -> float:
        bounded = min(self._high, max(self._low, y))
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 28) * (bounded - self._low) / (self._high - self._low)


if __name__ == "__main__":
    main()
