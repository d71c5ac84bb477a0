"""python -m bench: starts everything, measures in rounds, prints and saves the result."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import machine, narthex, peers
from bench.c_programs import BENCH_FOLDER, BUILD_FOLDER, compile_programs
from bench.cores import Cores, assign_cores, run_children_on
from bench.errors import BenchmarkError
from bench.load_client import LoadClient
from bench.phases import FULL, QUICK, PhaseRunner
from bench.processes import core_busy_s
from bench.report import markdown, print_report, report_tables
from bench.rounds import Rounds
from bench.system import System, free_port, start_process, wait_until_ready
from bench.targets import DIRECT, NARTHEX_LIMITS, TARGETS, Run

PEERS = ("nginx", "sglang-router", "litellm", "portkey")
QUICK_PEERS = ("nginx", "sglang-router")


def main() -> int:
    options = _parse_arguments()
    try:
        return _run_benchmark(options, assign_cores())
    except BenchmarkError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures the gateway beside a direct connection and other gateways."
    )
    parser.add_argument("--quick", action="store_true", help="one short round, about a minute; the result is not kept in bench/results")
    parser.add_argument(
        "--peers", help=f"from {', '.join(peers.PEERS)}; or none (default: {','.join(PEERS)}; quick: {','.join(QUICK_PEERS)})"
    )
    parser.add_argument("--without-narthex", action="store_true", help="measure only peers and the direct connection")
    parser.add_argument("--no-install", action="store_true", help="skip peers that are not installed")
    return parser.parse_args()


def _run_benchmark(options: argparse.Namespace, cores: Cores) -> int:
    plan = QUICK if options.quick else FULL
    chosen = _choose_peers((QUICK_PEERS if options.quick else PEERS) if options.peers is None else options.peers.split(","))
    binaries = compile_programs()
    load_before, started_at = machine.load_average(), time.strftime("%Y-%m-%dT%H%M", time.gmtime())
    not_measured: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        folder.chmod(0o711)  # under root, the gateway's Postgres runs as another user, which has to pass through
        stack.enter_context(run_children_on(cores.load))
        engine_port = free_port()
        engine = stack.enter_context(start_process([str(binaries.engine), str(engine_port)], folder / "engine.log"))
        wait_until_ready("the mock engine", engine_port, "/health", engine, folder / "engine.log", 10)
        systems = [System(DIRECT, "no proxy: only the load client and the mock engine", engine_port, [])]
        if not options.without_narthex:
            systems.append(stack.enter_context(narthex.run_narthex(engine_port, cores, folder)))
            systems.append(stack.enter_context(narthex.run_narthex(engine_port, cores, folder, limited=True)))
        for peer in chosen:
            try:
                systems.append(stack.enter_context(peers.run_peer(peer, engine_port, cores, folder, not options.no_install)))
            except BenchmarkError as error:
                not_measured[peer.name] = str(error)
                _print_progress(f"skipping {peer.name}: {error}")
        rounds = Rounds(PhaseRunner(LoadClient(binaries.load, folder), cores, plan), plan, systems, _print_progress)
        steal_before, measured_from = core_busy_s(cores.proxy)[1], time.monotonic()
        run = rounds.run()
        steal_share = (core_busy_s(cores.proxy)[1] - steal_before) / (time.monotonic() - measured_from)
    not_measured |= rounds.failures
    notes = _notes(cores, run, load_before, steal_share)
    tables = report_tables(run, {system.name: system.description for system in systems}, not_measured)
    print_report(tables, notes)
    result: dict[str, object] = {
        "started_at": started_at,
        "quick": options.quick,
        "machine": machine.machine_facts(),
        "notes": notes,
        "not_measured": not_measured,
        "figures": run,
        "targets": {
            target.title: {"measured": target.measure(run), "required": target.required, "met": target.is_met(run)} for target in TARGETS
        },
    }
    _save_result(
        BUILD_FOLDER if options.quick else BENCH_FOLDER / "results",
        f"{started_at}-{machine.machine_facts()['cores']}-cores",
        result,
        markdown(tables, notes),
    )
    return 1 if NARTHEX_LIMITS in rounds.failures else 0


def _choose_peers(names: Sequence[str]) -> Sequence[peers.Peer]:
    requested = [name for name in names if name and name != "none"]
    if unknown := [name for name in requested if name not in peers.PEERS]:
        raise BenchmarkError(f"No peer {', '.join(unknown)}. There are: {', '.join(peers.PEERS)}.")
    return [peers.PEERS[name] for name in requested]


def _notes(cores: Cores, run: Run, load_before: float, steal_share: float) -> list[str]:
    notes = [", ".join(f"{name} {value}" for name, value in machine.machine_facts().items())]
    if cores.warning:
        notes.append(cores.warning)
    if load_before > machine.MAX_LOAD_BEFORE:
        notes.append(f"The machine was busy before the run (load average {load_before:.1f}): trust ratios, not latencies.")
    others = max((figures.get("others_on_core", 0.0) for figures in run.values()), default=0.0)
    if others > machine.MAX_OTHERS_SHARE:
        notes.append(f"Other programs used up to {others * 100:.0f} % of the proxy's core during the run: trust ratios, not latencies.")
    if steal_share > machine.MAX_STEAL_SHARE:
        notes.append(f"The host withheld {steal_share * 100:.0f} % of the proxy's core (steal): trust ratios, not latencies.")
    return notes


def _save_result(folder: Path, name: str, result: dict[str, object], text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    (folder / f"{name}.md").write_text(text)
    print(f"saved in {(folder / name).relative_to(BENCH_FOLDER.parent)}.json and .md")


def _print_progress(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
