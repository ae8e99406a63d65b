"""Clients and servers that end by SIGKILL, at the worst moments."""

import os
import random
import threading
import time

import msgpack
import pytest
from house import INSTANCE, chunk_payload, free_ports, key_map, lookup_key, poll_until, segments, shm_name
from observe import SANITIZER, SOAK, anonymous_bytes, expect_back, footprint, settled
from zmtp import PlainClient, in_a_process_that_dies, message

from lmcached import LMCacheError

MIB = 1 << 20
TOKENS = list(range(1, 41))  # ten chunks of four
OTHER = list(range(501, 541))
# Only the disconnect lease may bring things back: the other leases outlast the test.
LEASE = ("--disconnect-lease-seconds", "2", "--session-lease-seconds", "600")
REGISTRATION = {
    "instance_id": INSTANCE, "model_name": "m", "world_size": 1, "block_size": 2, "num_layers": 2,
    "hidden_dim_size": 8, "dtype_str": "float16", "use_mla": False, "num_physical_slots": 4,
}  # fmt: skip


def key(tokens=TOKENS, request_id="dies", worker_id=0):
    return key_map(token_ids=tokens, end=len(tokens), request_id=request_id, worker_id=worker_id)


@pytest.fixture
def house(server):
    """A server that holds TOKENS' chunks, stored by a worker who lives on."""
    one = server(*LEASE, shm=True)
    worker = one.worker()
    chunks = [chunk_payload(n, worker.chunk_bytes) for n in range(10)]
    assert worker.store(worker.key(TOKENS, "store"), chunks)
    worker.client.end_session("store").result(30)
    one.status()
    yield one, worker, chunks
    one.sessions_left = 1000  # the dead ones' go by their TTL
    assert worker.retrieve(worker.key(TOKENS, "after")) == chunks, "nothing of others is lost"
    worker.client.end_session("after").result(30)
    worker.unregister()


def registered(one, instance=INSTANCE):
    client = PlainClient(one)
    assert client.call(14, {**REGISTRATION, "instance_id": instance})["error"] is None
    return client


def nothing_held(one):
    l1 = one.l1()
    return l1["read_locked_count"] == l1["staging_object_count"] == 0


def prepare_store(one, number=0):
    client = registered(one, INSTANCE + number)
    tokens = [number, *OTHER[1:]]
    reply = client.call(16, key(tokens, f"dies-{number}"), INSTANCE + number)
    assert len(reply["context"]["slots"]) == 10


def half_a_commit(one, number=0):
    """Byte copy: the connection ends within the frame that brings the chunks."""
    client = registered(one, INSTANCE + number)
    frames = [b"\x01", b"\x11", msgpack.packb(key(OTHER)), msgpack.packb(INSTANCE + number), b"\xc6" + b"\x00" * 900_000]
    client.socket.sendall(message(frames)[:-500_000])


def look_up(one, number=0):
    client = PlainClient(one)
    assert client.call(8, key(TOKENS, f"dies-{number}", None), 1) == "void"
    assert client.call(9, f"dies-{number}") == 10


def look_up_and_leave_the_answer(one, number=0):
    client = PlainClient(one)
    assert client.call(8, key(TOKENS, f"dies-{number}", None), 1) == "void"


def prepare_retrieve(one, number=0):
    client = registered(one, INSTANCE + number)
    assert client.call(8, key(TOKENS, f"dies-{number}", None), 1) == "void"
    assert client.call(9, f"dies-{number}") == 10
    assert client.call(18, key(TOKENS, f"dies-{number}"), INSTANCE + number)["success"] is True


def everything_at_once(one, number=0):
    look_up(one, 2 * number)
    prepare_retrieve(one, 2 * number + 1)
    prepare_store(one, 2 * number + 1)


MOMENTS = [
    prepare_store, half_a_commit, look_up, look_up_and_leave_the_answer, prepare_retrieve, everything_at_once,
]  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_a_client_that_dies_takes_nothing_with_it(house, moment):
    one, worker, chunks = house
    before, used = footprint(one), one.l1()["memory_used_bytes"]
    in_a_process_that_dies(lambda: moment(one))
    poll_until(lambda: nothing_held(one), "the dead client's locks and reservations are given back", 20)
    assert one.l1()["memory_used_bytes"] == used and one.l1()["total_object_count"] == 10
    expect_back(one, before)


@pytest.mark.parametrize("moment", [prepare_store, prepare_retrieve], ids=lambda moment: moment.__name__)
def test_what_a_dead_client_holds_stays_for_the_lease(house, moment):
    """A client that only lost its connection comes back and keeps all."""
    one, worker, chunks = house
    client = registered(one)
    if moment is prepare_store:
        assert len(client.call(16, key(OTHER), INSTANCE)["context"]["slots"]) == 10
    else:
        assert client.call(18, key(TOKENS), INSTANCE)["success"] is True
    client.close()
    again = PlainClient(one)
    assert again.call(22, INSTANCE) is True
    time.sleep(4)
    assert not nothing_held(one)
    if moment is prepare_store:
        assert again.call(17, key(OTHER), INSTANCE, b"") is True
    else:
        assert again.call(19, key(TOKENS), INSTANCE) is True
    assert nothing_held(one)
    again.call(15, INSTANCE)
    again.close()


def test_half_written_slots_of_the_dead_can_be_written_by_others(house):
    one, worker, chunks = house
    in_a_process_that_dies(lambda: prepare_store(one))
    tokens = [0, *OTHER[1:]]
    assert worker.client.lookup_chunks(lookup_key(tokens, "early")) == 0
    poll_until(lambda: nothing_held(one), "the reservation is given back")
    assert worker.store(worker.key(tokens, "later"), chunks)
    assert worker.retrieve(worker.key(tokens, "later")) == chunks
    for name in ("early", "later"):
        worker.client.end_session(name).result(30)


def test_fifty_deaths_in_a_row_with_locks_held(house):
    one, worker, chunks = house
    in_a_process_that_dies(lambda: everything_at_once(one, 0))  # warm: tables have their size
    poll_until(lambda: nothing_held(one), "warm")
    before, used = footprint(one), one.l1()["memory_used_bytes"]
    memory = settled(lambda: anonymous_bytes(one))
    for number in range(1, 51 if not SOAK else 501):
        in_a_process_that_dies(lambda: everything_at_once(one, number))
    start = time.monotonic()
    assert not nothing_held(one)
    poll_until(lambda: nothing_held(one), "locks and reservations are given back", 20)
    print(f"everything was given back {time.monotonic() - start:.1f} s after the last death (lease 2 s)")
    assert one.l1()["memory_used_bytes"] == used and one.l1()["total_object_count"] == 10
    expect_back(one, before, memory_before=memory, slack_bytes=(32 if SANITIZER else 4) * MIB)
    client = PlainClient(one)
    for number in range(0, 102 if not SOAK else 1002):
        client.call(15, INSTANCE + number)
    client.close()


def test_an_instance_of_a_dead_client_registers_again(server):
    """Who names the instance again keeps its reservations (D46), and then the write TTL ends them."""
    one = server(*LEASE, "--l1-write-ttl-seconds", "4", shm=True)
    one.sessions_left = 1
    in_a_process_that_dies(lambda: prepare_store(one))
    client = registered(one)
    reply = client.call(16, key([9, *OTHER[1:]]), INSTANCE)
    assert len(reply["context"]["slots"]) == 10
    assert client.call(17, key([9, *OTHER[1:]]), INSTANCE, b"") is True
    poll_until(lambda: nothing_held(one), "what the first life reserved is given back")
    client.call(13, "dies")
    client.call(15, INSTANCE)
    client.close()


# ---- the server ----


def first_reply(one):
    """Milliseconds from here to the first answered request, starting the server."""
    start = time.monotonic()
    one.baseline = None
    one.start()
    while True:
        try:
            client = PlainClient(one)
            assert client.call(24) == "OK"
            client.close()
            return (time.monotonic() - start) * 1000
        except OSError:
            assert one.process.poll() is None, one.log()
            time.sleep(0.002)


def test_a_killed_server_starts_again_at_once_on_its_port_and_pool(server):
    name, (port, http_port) = shm_name(), free_ports(2)
    one = server("--shm-name", name, "--l1-size-gb", "1", port=port, http_port=http_port)
    one.allow("prepare_retrieve: not found")
    times = []
    for _ in range(7):
        worker = one.worker()
        assert worker.store(worker.key(TOKENS, "a"), [chunk_payload(n, worker.chunk_bytes) for n in range(10)])
        one.kill()
        one.close_clients()
        times.append(first_reply(one))
        one.wait_up()
        assert len(segments()) == 1 and name in next(iter(segments()))
        worker = one.worker()
        assert worker.retrieve(worker.key(TOKENS, "b")) is None, "the new life starts empty"
        worker.client.end_session("b").result(30)
        worker.unregister()
    print(f"first reply after kill -9: {sorted(times)[3]:.0f} ms, at most {max(times):.0f} ms")


def test_stale_pools_of_many_dead_servers_are_swept_by_the_next(server):
    for _ in range(3):
        one = server(shm=True)
        one.kill()
        one.judged = True
    assert len(segments()) <= 1, "each sweeps its predecessor's"
    last = server()
    assert segments() == set()
    last.judge()


class Storm:
    """Threads that store and retrieve until the server is gone, and judge every answer: the bytes
    of a chunk are those of one store of that key in this life of the server, and never a mix."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.attempts = {}
        self.wrong = []
        self.loaded = self.stored = 0

    def run(self, one, byte_copy):
        self.attempts = {}
        self.clients = []
        threads = [
            threading.Thread(target=self._work, args=(one, self.random.random(), byte_copy and n == 0)) for n in range(2)
        ]
        for thread in threads:
            thread.start()
        time.sleep(self.random.uniform(0.005, 0.08))
        one.kill()
        for client in list(self.clients):
            client.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        for client in self.clients:
            client.close()  # also one that was opened after the kill: it would reach the next life

    def _work(self, one, seed, byte_copy):
        choose = random.Random(seed)
        try:
            client = one.client(timeout=2.0)
            self.clients.append(client)
            worker = one.worker(client, byte_copy=byte_copy)
            for number in range(10_000):
                prompt = choose.randrange(4)
                tokens = [prompt + 1] * (4 * choose.randrange(1, 6))
                (self._store if choose.random() < 0.5 else self._retrieve)(worker, prompt, tokens, f"{seed}-{number}")
        except (LMCacheError, OSError, ValueError):
            pass  # killed

    def _store(self, worker, prompt, tokens, request):
        chunks = [chunk_payload((prompt, at, request), worker.chunk_bytes) for at in range(len(tokens) // 4)]
        with self.lock:
            for at, chunk in enumerate(chunks):
                self.attempts.setdefault((prompt, at), set()).add(chunk)
        self.stored += worker.store(worker.key(tokens, request), chunks)

    def _retrieve(self, worker, prompt, tokens, request):
        found = worker.retrieve(worker.key(tokens, request))
        for at, chunk in enumerate(found or ()):
            self.loaded += 1
            with self.lock:
                if chunk not in self.attempts.get((prompt, at), ()):
                    self.wrong.append((prompt, at, chunk[:16]))


def test_a_server_killed_at_any_point_never_serves_a_mix(server):
    name, (port, http_port) = shm_name(), free_ports(2)
    rounds = int(os.environ.get("LMC_KILL_ROUNDS", 0)) or (5000 if SOAK else 50 if SANITIZER else 200)
    one = server("--shm-name", name, port=port, http_port=http_port)
    storm = Storm(7)
    slowest = 0.0
    for number in range(rounds):
        storm.run(one, byte_copy=number % 4 == 0)
        one.clients.clear()
        assert not storm.wrong, f"round {number}: {storm.wrong[:3]}"
        assert len(segments()) <= 1
        slowest = max(slowest, first_reply(one))
    one.wait_up()
    one.allow("prepare_retrieve: not found", "skipping touch")
    print(f"{rounds} kills; {storm.stored} stores, {storm.loaded} chunks loaded; slowest start {slowest:.0f} ms")
    assert storm.stored > rounds and storm.loaded > rounds
