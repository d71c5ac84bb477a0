"""A PATH whose `narthex` is forked from the process with the imports: for pages whose shell commands call it many times."""

import contextlib
import marshal
import os
import socket
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from threading import Thread

from tests.support.processes.fork_server import ForkedProgram
from tests.support.processes.service import NARTHEX

# Starts in a hundredth of a second: it imports nothing but what is compiled into Python or small.
_SCRIPT = """#!{python} -IS
import _socket, array, marshal, os, sys
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
streams = array.array("i", [0, 1, 2])
order = marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))
server.sendmsg([len(order).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(order)
sys.exit(int(server.recv(8) or b"1"))
"""
_LENGTH_BYTES = 8


@contextlib.contextmanager
def narthex_on_path() -> Generator[str]:
    """Returns a value for PATH, on which `python` is the one of the tests."""
    with tempfile.TemporaryDirectory(prefix="narthex-path-") as folder, socket.socket(socket.AF_UNIX) as listener:
        address = str(Path(folder) / "socket")
        listener.bind(address)
        listener.listen()
        script = Path(folder) / "narthex"
        script.write_text(_SCRIPT.format(python=sys.executable, address=address))
        script.chmod(0o755)
        accepting = Thread(target=_accept, args=(listener,))
        accepting.start()
        try:
            yield os.pathsep.join((folder, str(Path(NARTHEX).parent), os.environ["PATH"]))
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is shut down
        while True:
            caller, _ = listener.accept()
            Thread(target=_carry_out, args=(caller,)).start()


def _carry_out(caller: socket.socket) -> None:
    with caller:
        length, streams, _, _ = socket.recv_fds(caller, _LENGTH_BYTES, 3)
        with caller.makefile("rb") as order:
            arguments, environment, folder = marshal.loads(order.read(int.from_bytes(length, "big")))
        try:
            stdin, stdout, stderr = streams
            process = ForkedProgram([NARTHEX, *arguments], environment, stdin=stdin, stdout=stdout, stderr=stderr, folder=folder)
        finally:
            for stream in streams:
                os.close(stream)
        caller.sendall(str(process.wait()).encode())
