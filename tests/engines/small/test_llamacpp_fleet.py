"""Two real llama.cpp servers as one target: chats stay where their prompts are cached, and a stream that breaks off goes on elsewhere."""

import re
import select
import socket
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai
import pytest

from tests.engines.running_narthex import Gateway, running_narthex
from tests.engines.running_small_engines import running_llamacpp
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

CHATS, TURNS = 6, 4
TURN_CHARACTERS = 1_500  # each is a token of this model
RESUME = {"x-narthex-resume": "true"}


class CuttingRelay:
    """Forwards connections to an engine. Of the next response to a chat it passes on so many bytes, and closes the connection."""

    def __init__(self, engine: Engine) -> None:
        self.cut_after: int | None = None
        self._port = int(engine.base_url.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as engine:
            left: int | None = None
            while readable := select.select([client, engine], [], [])[0]:
                if client in readable:
                    data = client.recv(65_536)
                    if data.startswith(b"POST /v1/chat/completions"):
                        left, self.cut_after = self.cut_after, None
                    engine.sendall(data)
                else:
                    data = engine.recv(256)
                    client.sendall(data if left is None else data[:left])
                    left = None if left is None else left - len(data)
                if not data or (left is not None and left <= 0):
                    return


@pytest.fixture(scope="module")
def second() -> Iterator[Engine]:
    with running_llamacpp("server-2.log") as engine:
        yield engine


@contextmanager
def _relay_to(engine: Engine) -> Generator[CuttingRelay]:
    relay = CuttingRelay(engine)
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def relay(llamacpp: Engine) -> Iterator[CuttingRelay]:
    with _relay_to(llamacpp) as relay:
        yield relay


@pytest.fixture(scope="module")
def fleet(llamacpp: Engine, second: Engine, relay: CuttingRelay) -> Iterator[Gateway]:
    one, two, model = llamacpp.base_url, second.base_url, llamacpp.model
    configuration = f"""
        [providers]
        one = {{ adapter = "llamacpp", base_url = "{one}" }}
        two = {{ adapter = "llamacpp", base_url = "{two}" }}
        cut = {{ adapter = "llamacpp", base_url = "{relay.base_url}" }}
        [models]
        pool = {{ targets = [{{ provider = "one", model = "{model}", endpoints = ["{one}", "{two}"] }}] }}
        one = {{ targets = [{{ provider = "one", model = "{model}" }}] }}
        two = {{ targets = [{{ provider = "two", model = "{model}" }}] }}
        cut = {{ targets = [{{ provider = "cut", model = "{model}" }}, {{ provider = "two", model = "{model}" }}] }}
    """
    with running_narthex(configuration, ("pool", "one", "two", "cut")) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(fleet: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=fleet.base_url, api_key=fleet.key, max_retries=0, timeout=120) as client:
        yield client


def prompt_tokens_read(*engines: Engine) -> int:
    """Returns how many prompt tokens these engines have read, without those that were cached."""
    pages = [httpx2.get(f"{engine.base_url}/metrics", timeout=30).text for engine in engines]
    return sum(int(float(re.findall(r"^llamacpp:prompt_tokens_total (\S+)", page, re.MULTILINE)[0])) for page in pages)


def chat(client: openai.OpenAI, seed: str, model_of: Callable[[int, int], str]) -> list[float]:
    """Holds chats of several turns, one turn of each after the other.

    Returns the times to the first token, in seconds, of all turns but the first.
    """
    histories: list[list[Any]] = [[{"role": "system", "content": f"{seed} {number} " * 300}] for number in range(CHATS)]
    times: list[float] = []
    for turn in range(TURNS):
        for number, history in enumerate(histories):
            history.append({"role": "user", "content": f"{turn}{seed}{number} " * (TURN_CHARACTERS // 5)})
            started = time.monotonic()
            text = ""
            with client.chat.completions.create(
                model=model_of(turn, number), messages=history, max_tokens=4, temperature=0, stream=True
            ) as stream:
                for chunk in stream:
                    if not text and turn:
                        times.append(time.monotonic() - started)
                    text += "".join(choice.delta.content or "" for choice in chunk.choices) or " "
            history.append({"role": "assistant", "content": text})
    return times


def test_chats_stay_where_their_prompts_are_cached(client: openai.OpenAI, llamacpp: Engine, second: Engine):
    """The comparison is with chats of the same kind that are sent to both servers in turn."""
    before = prompt_tokens_read(llamacpp, second)
    in_turn = chat(client, "ab", lambda turn, number: ("one", "two")[(turn + number) % 2])
    between = prompt_tokens_read(llamacpp, second)
    together = chat(client, "yz", lambda turn, number: "pool")
    after = prompt_tokens_read(llamacpp, second)
    assert after - between < 0.7 * (between - before)  # 45,181 and 81,344
    assert statistics.median(together) < statistics.median(in_turn)  # 0.13 s and 0.23 s


def resumed_at(fleet: Gateway, id: str) -> int:
    """Returns after how many characters the last attempt of a recorded inference went on."""
    url, headers = f"{fleet.base_url.removesuffix('/v1')}/admin/v1/inferences/{id}", {"authorization": f"Bearer {fleet.admin_key}"}
    deadline = time.monotonic() + 60
    while (answer := httpx2.get(url, headers=headers, timeout=30)).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)
    return answer.json()["attempts"][-1]["resumed_at"]


@pytest.mark.parametrize("cut_after", [2_000, 6_000, 12_000])
def test_stream_that_breaks_off_goes_on_elsewhere(client: openai.OpenAI, fleet: Gateway, relay: CuttingRelay, cut_after: int):
    """It need not go on with the very same text: this model's choices are so close that it matters whether a prompt was read at once."""
    messages: Any = [{"role": "user", "content": f"Write {cut_after}"}]
    greedy: Any = {"messages": messages, "temperature": 0, "max_tokens": 120}
    completions: Any = client.chat.completions
    whole: str = completions.create(model="one", **greedy).choices[0].message.content
    relay.cut_after = cut_after
    raw = completions.with_raw_response.create(model="cut", stream=True, extra_headers=RESUME, **greedy)
    chunks: list[Any] = list(raw.parse())
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert relay.cut_after is None and chunks[-1].choices[0].finish_reason in ("length", "stop")
    joint = resumed_at(fleet, raw.headers["x-narthex-inference-id"])
    assert whole and 0 < joint < len(text) and text[:joint] == whole[:joint]
    assert not text[joint:].startswith(whole[: min(joint, 10)])


def test_prefill_is_continued_and_not_repeated(client: openai.OpenAI):
    """llama.cpp does what its adapter says of prefills, also where no stream breaks off."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    whole = client.chat.completions.create(model="one", messages=messages, temperature=0, max_tokens=60).choices[0].message.content
    assert whole
    beginning = whole[:20].rstrip()
    messages.append({"role": "assistant", "content": beginning})
    rest = client.chat.completions.create(model="one", messages=messages, temperature=0, max_tokens=40).choices[0].message.content
    assert rest and not rest.startswith(beginning[:10])
