"""python -m bench: starts everything, measures in rounds, prints and keeps the result."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import machine, narthex, peers
from bench.compiled import BUILD, HERE, programs
from bench.cores import Cores, children_on, cores
from bench.load import Load
from bench.phases import FULL, QUICK, Measuring
from bench.processes import core_busy_s
from bench.report import markdown, sheets, show
from bench.rounds import Rounds
from bench.system import System, free_port, started, wait_until_ready
from bench.targets import DIRECT, NARTHEX, TARGETS, Run
from bench.trouble import Trouble

PEERS = ("nginx", "sglang-router", "litellm", "portkey")
QUICK_PEERS = ("nginx", "sglang-router")


def main() -> int:
    asked = _arguments()
    try:
        return _measured(asked, cores())
    except Trouble as trouble:
        print(f"bench: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures the gateway beside a direct connection and other gateways."
    )
    parser.add_argument("--quick", action="store_true", help="one short round, about a minute; nothing is kept")
    parser.add_argument(
        "--peers", help=f"from {', '.join(peers.PEERS)}; or none (default: {','.join(PEERS)}; quick: {','.join(QUICK_PEERS)})"
    )
    parser.add_argument("--without-narthex", action="store_true", help="peers and direct alone")
    parser.add_argument("--no-install", action="store_true", help="leave out peers that are not installed")
    return parser.parse_args()


def _measured(asked: argparse.Namespace, where: Cores) -> int:
    plan = QUICK if asked.quick else FULL
    chosen = _chosen((QUICK_PEERS if asked.quick else PEERS) if asked.peers is None else asked.peers.split(","))
    built = programs()
    busy_before, began = machine.load_average(), time.strftime("%Y-%m-%dT%H%M", time.gmtime())
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        folder.chmod(0o711)  # under root, the gateway's Postgres runs as another user and has to pass through
        stack.enter_context(children_on(where.load))
        engine_port = free_port()
        engine = stack.enter_context(started([str(built.engine), str(engine_port)], folder / "engine.log"))
        wait_until_ready("the mock engine", engine_port, "/health", engine, folder / "engine.log", 10)
        systems = [System(DIRECT, "no proxy: the load client and the mock engine alone", engine_port, [])]
        if not asked.without_narthex:
            systems.append(stack.enter_context(narthex.running(engine_port, where, folder)))
            systems.append(stack.enter_context(narthex.running(engine_port, where, folder, limited=True)))
        for peer in chosen:
            try:
                systems.append(stack.enter_context(peers.running(peer, engine_port, where, folder, not asked.no_install)))
            except Trouble as trouble:
                absent[peer.name] = str(trouble)
                _say(f"{peer.name} is left out: {trouble}")
        rounds = Rounds(Measuring(Load(built.load, folder), where, plan), plan, systems, _say)
        stolen_before, measured_from = core_busy_s(where.proxy)[1], time.monotonic()
        run = rounds.run()
        stolen = (core_busy_s(where.proxy)[1] - stolen_before) / (time.monotonic() - measured_from)
    absent |= rounds.broken
    notes = _notes(where, run, busy_before, stolen)
    pages = sheets(run, {system.name: system.what for system in systems}, absent)
    show(pages, notes)
    result: dict[str, object] = {
        "began": began,
        "quick": asked.quick,
        "machine": machine.facts(),
        "notes": notes,
        "absent": absent,
        "systems": run,
        "targets": {target.title: {"measured": target.measured(run), "first": target.first, "met": target.met(run)} for target in TARGETS},
    }
    _keep(BUILD if asked.quick else HERE / "results", f"{began}-{machine.facts()['cores']}-cores", result, markdown(pages, notes))
    return 1 if NARTHEX in rounds.broken else 0


def _chosen(names: Sequence[str]) -> Sequence[peers.Peer]:
    asked = [name for name in names if name and name != "none"]
    if unknown := [name for name in asked if name not in peers.PEERS]:
        raise Trouble(f"No peer {', '.join(unknown)}. There are: {', '.join(peers.PEERS)}.")
    return [peers.PEERS[name] for name in asked]


def _notes(where: Cores, run: Run, busy_before: float, stolen: float) -> list[str]:
    notes = [", ".join(f"{name} {value}" for name, value in machine.facts().items())]
    if where.warning:
        notes.append(where.warning)
    if busy_before > machine.BUSY_BEFORE:
        notes.append(f"The machine was not idle before the run (load average {busy_before:.1f}): trust ratios, not latencies.")
    others = max((figures.get("others_on_core", 0.0) for figures in run.values()), default=0.0)
    if others > machine.OTHERS:
        notes.append(f"Other programs used up to {others * 100:.0f} % of the proxy's core during the run: trust ratios, not latencies.")
    if stolen > machine.STOLEN:
        notes.append(f"The host kept {stolen * 100:.0f} % of the proxy's core for others: trust ratios, not latencies.")
    return notes


def _keep(folder: Path, name: str, result: dict[str, object], text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    (folder / f"{name}.md").write_text(text)
    print(f"kept in {(folder / name).relative_to(HERE.parent)}.json and .md")


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
