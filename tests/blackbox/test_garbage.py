"""What strangers and broken clients send. The server goes on serving, and keeps nothing of it."""

import contextlib
import os
import socket
import struct
import time

import msgpack
import pytest
import zmq
from garbage import Mutator, bases
from house import INSTANCE, key_map, lookup_key, poll_until
from zmtp import GREETING, READY, PlainClient, message
from observe import SANITIZER, SOAK, anonymous_bytes, expect_back, footprint, settled

MIB = 1 << 20
# The ASan binary takes the full count; another build shows in fewer that it behaves the same.
COUNT = int(os.environ.get("LMC_GARBAGE", 0)) or (10**6 if SOAK else 10**5 if SANITIZER == "address" else 20000)
QUIET_ASAN = {
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=99:quarantine_size_mb=4:thread_local_quarantine_size_kb=64"
    ":malloc_context_size=4"
}


class Thrower:
    """Sends requests that need no answer, never more than the server has read of them."""

    def __init__(self, url):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(url)
        self._marks = 0

    def throw(self, requests, window=256):
        for number, frames in enumerate(requests):
            self._socket.send_multipart(frames)
            if number % window == window - 1:
                self.settle()
        self.settle()

    def settle(self):
        """Waits until a request sent now is answered; answers to garbage are passed over."""
        self._marks += 1
        mark = b"settled-%d" % self._marks
        self._socket.send_multipart([mark, b"\x18"])
        while True:
            assert self._socket.poll(60_000), "the server does not answer any more"
            if self._socket.recv_multipart()[0] == mark:
                return

    def close(self):
        self._socket.close()
        self._context.term()


def serves(one):
    """A store, a lookup and a retrieve of bytes that come back."""
    assert one.status()["is_healthy"] is True
    worker = one.worker(instance_id=4711)
    tokens = [time.monotonic_ns() & 0xFFFFFFFF, *range(11)]
    chunks = [bytes([n]) * worker.chunk_bytes for n in range(3)]
    assert worker.store(worker.key(tokens, "serves"), chunks)
    assert worker.client.lookup_chunks(lookup_key(tokens, "serves")) == 3
    assert worker.retrieve(worker.key(tokens, "serves")) == chunks
    worker.client.end_session("serves").result(30)
    worker.unregister()
    one.clients.remove(worker.client)
    worker.client.close()


def nothing_held(one):
    """Judges it now; sessions and answers that nobody asked for go by the session's TTL."""
    poll_until(lambda: one.l1()["read_locked_count"] == one.l1()["staging_object_count"] == 0, "no locks", 40)
    one.judge(calm=False)


def throw_all(one, count, seed):
    thrower = Thrower(one.url)
    source = Mutator(seed, bases())
    try:
        thrower.throw(next(source) for _ in range(count))
    finally:
        thrower.close()


def test_mutated_requests_leave_the_server_serving_and_its_memory_flat(server):
    one = server(shm=True, environment=QUIET_ASAN)
    one.allow(".")
    serves(one)
    throw_all(one, COUNT // 4, 1)  # what registrations and sessions may keep is there by now
    before, memory = footprint(one), settled(lambda: anonymous_bytes(one))
    before["threads"] += 1  # the first wait that is parked starts a timer
    for seed in range(2, 5):
        throw_all(one, COUNT // 4, seed)
        serves(one)
    grown = settled(lambda: anonymous_bytes(one)) - memory
    print(f"{COUNT} mutated requests; memory grew by {grown / MIB:.1f} MiB over the last three quarters")
    expect_back(one, before, memory_before=memory, slack_bytes=(96 if SANITIZER else 24) * MIB)
    nothing_held(one)


def test_mutated_requests_on_a_server_without_a_pool(server):
    """Byte copy: the pickle reader sees all of it."""
    one = server(environment=QUIET_ASAN)
    one.allow(".")
    thrower = Thrower(one.url)
    names = {"commit_store", "prepare_store", "prepare_retrieve"}
    from house import VECTORS

    frames = [[bytes.fromhex(f) for f in v["frames_hex"]] for v in VECTORS if v["operation"] in names]
    source = Mutator(99, frames)
    registration = bases()[[v["name"] for v in VECTORS].index("register_engine_driven_slots")]
    thrower.throw([registration])
    thrower.throw(next(source) for _ in range(COUNT // 5))
    thrower.close()
    serves(one)
    nothing_held(one)


# ---- frames ----


def test_a_request_of_a_hundred_thousand_frames_is_passed_over(server, raw):
    one = server()
    one.allow("request not answered")
    connection = raw(one)
    connection.send(b"\x01", b"\x18", *([b""] * 100_000))
    connection.expect_silence(b"\x01", b"\x18", *([b"x" * 40] * 100_000))
    memory = settled(lambda: anonymous_bytes(one))
    for _ in range(3):
        connection.send(b"\x01", b"\x18", *([b"x" * 40] * 50_000))
        assert connection.call(24) == "OK"
    expect_back(one, {}, memory_before=memory, slack_bytes=(64 if SANITIZER else 16) * MIB)


@pytest.mark.skipif(bool(SANITIZER), reason="it is the memory of the plain allocator that counts")
@pytest.mark.parametrize("peers", [1, 4])
def test_messages_without_an_end_are_cut_off_and_their_memory_goes_back(server, peers):
    """Frame after frame of one byte: each costs dozens, and libzmq keeps them until the last."""
    one = server()
    one.allow(r"messages that do not end: \d connections? shut down")
    serves(one)
    bystander = PlainClient(one)
    before, memory = footprint(one), settled(lambda: anonymous_bytes(one))
    frames, most = b"\x01\x01x" * 10_000, 0
    endless = [PlainClient(one) for _ in range(peers)]
    for client in endless:
        client.socket.settimeout(5)
    try:
        for _ in range(100_000):  # 3 GB
            for client in endless:
                client.socket.sendall(frames)
            most = max(most, anonymous_bytes(one) - memory)
        raise AssertionError("nobody stopped it")
    except OSError:
        pass
    print(f"cut off at {most / MIB:.0f} MiB")
    assert most < 4096 * MIB
    assert "shut down" in one.log()
    assert bystander.call(24) == "OK"
    for client in endless:
        client.close()
    serves(one)
    expect_back(one, before, memory_before=memory, slack_bytes=96 * MIB)
    bystander.close()


def test_a_large_message_may_take_its_time(server):
    one = server(environment=QUIET_ASAN)
    one.allow("its tensors cannot be read", "Error handling operation commit_store")
    client, size = PlainClient(one), 700 * MIB
    head = [b"\x01", b"\x11", msgpack.packb(key_map()), msgpack.packb(INSTANCE)]
    client.socket.sendall(message([*head, b""])[:-2])
    client.socket.sendall(b"\x02" + struct.pack(">Q", size + 5) + b"\xc6" + struct.pack(">I", size))
    block = bytes(MIB)
    for number in range(700):
        client.socket.sendall(block)
        if number == 620:  # two looks of the server
            time.sleep(3)
    assert client.receive()[2] == b"\xc2"
    client.close()


def test_odd_uids_come_back_as_they_were(server, raw):
    one = server()
    one.allow("request not answered")
    connection = raw(one)
    for uid in (b"", b"\xc0", b"\x90", b"\xff" * 8, b"u" * 256, b"\xcf" + b"\xff" * 8):
        assert connection.exchange(uid, b"\x18")[0] == uid
    connection.expect_silence(b"u" * 257, b"\x18")


# ---- strangers ----


def tcp(one, data=b""):
    stranger = socket.create_connection(("127.0.0.1", one.port), timeout=20)
    if data:
        with contextlib.suppress(OSError):
            stranger.sendall(data)
    return stranger


def is_shown_out(stranger):
    """Reads until the other side closes; the time limit ends a wait in vain."""
    try:
        while stranger.recv(4096):
            pass
    except ConnectionResetError:
        pass
    except socket.timeout:
        return False
    finally:
        stranger.close()
    return True


TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + os.urandom(180)
STRANGERS = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": TLS_HELLO,
    "zeros": b"\0" * 1000,
    "ones": b"\xff" * 1000,
    "noise": os.urandom(1000),
    "nothing": b"",
    "half a greeting": GREETING[:20],
    "a greeting and no more": GREETING,
    "another mechanism": GREETING.replace(b"NULL\0\0\0\0", b"CURVE\0\0\0"),
    "an endless frame instead of READY": GREETING + b"\x06" + b"\xff" * 8,
    "a READY with lying lengths": GREETING + b"\x04\x1c\x05READY\x0bSocket-Type\xff\xff\xff\xffDEALER",
    "old version": b"\x01\x00",
}


@pytest.mark.parametrize("case", STRANGERS)
def test_strangers_are_shown_out_by_the_handshake_interval(server, case):
    one = server()
    one.allow("request not answered")  # noise may be a greeting of ZMTP 1.0 and a request
    serves(one)
    before = footprint(one)
    assert is_shown_out(tcp(one, STRANGERS[case]))
    serves(one)
    expect_back(one, before)


AFTER_HANDSHAKE = {
    "a frame of 2^63 bytes": b"\x02\x80" + b"\0" * 7,
    "a frame beyond the limit": b"\x02" + struct.pack(">Q", 1 << 40),
    "an unknown command": b"\x04\x05\x04NOPE",
    "half a frame": b"\x02" + struct.pack(">Q", 1 << 20) + b"x" * 100,
    "half a message": b"\x01\x01\x00" + b"\x01\x01\x18",
    "reserved flags": b"\xf8\x01\x00",
    "noise": os.urandom(4096),
}


@pytest.mark.parametrize("case", AFTER_HANDSHAKE)
def test_damaged_zmtp_after_the_handshake_hurts_its_connection_only(server, case):
    one = server()
    one.allow("request not answered")
    serves(one)
    before = footprint(one)
    stranger = tcp(one, GREETING + READY + AFTER_HANDSHAKE[case])
    serves(one)
    stranger.close()
    expect_back(one, before)


def test_half_open_connections_make_room_for_others(server):
    """More silent ones than the listen queue holds; each is gone after the handshake interval."""
    one = server()
    serves(one)
    before = footprint(one)
    silent = [tcp(one) for _ in range(1200)]
    serves(one)
    poll_until(lambda: one.descriptors() <= before["descriptors"], "the silent ones are gone", 60)
    for stranger in silent:
        stranger.close()


@pytest.mark.parametrize("count", [2000 if not SANITIZER else 500])
def test_thousands_of_clients_are_served_at_a_time(server, count):
    one = server()
    serves(one)
    before = footprint(one)
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, count + 10)
    clients = []
    for _ in range(count):
        clients.append(context.socket(zmq.DEALER))
        clients[-1].setsockopt(zmq.LINGER, 0)
        clients[-1].connect(one.url)
    try:
        for round_number in range(3):
            for client in clients:
                client.send_multipart([b"\x07", b"\x16", b"\xc0"])
            for client in clients:
                assert client.poll(60_000), "no reply"
                assert client.recv_multipart() == [b"\x07", b"\x16", b"\xc3"]
        assert one.descriptors() >= before["descriptors"] + count
    finally:
        for client in clients:
            client.close()
        context.term()
    expect_back(one, before)
    serves(one)


# ---- pickles that lie ----


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value):
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def storage(dtype="Half", numel=128, claimed=None, key="0", tail=True):
    claimed = numel if claimed is None else claimed
    stream = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e") + b"\x80\x02M\xe9\x03."
    stream += b"\x80\x02}(" + text("protocol_version") + b"M\xe9\x03" + text("little_endian") + b"\x88u."
    stream += b"\x80\x02(" + text("storage") + b"ctorch\n" + dtype.encode() + b"Storage\n" + text(key) + text("cpu")
    stream += number(numel) + b"NtQ." + b"\x80\x02](" + text(key) + b"e."
    if tail:
        stream += struct.pack("<q", claimed) + b"\x01" * 256
    return stream


def tensor(stream, shape, strides=None, offset=0):
    strides = strides if strides is not None else [1] * len(shape)
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\n(B"
        + struct.pack("<I", len(stream)) + stream + b"tR" + number(offset)
        + b"(" + b"".join(map(number, shape)) + b"t(" + b"".join(map(number, strides)) + b"t\x89"
        + b"ccollections\nOrderedDict\n)RtR"
    )  # fmt: skip


def listing(*elements):
    return b"\x80\x03](" + b"".join(elements) + b"e."


GOOD_SHAPE, GOOD_STRIDES = [2, 2, 4, 8], [64, 32, 8, 1]
LIES = {
    "more elements than bytes": listing(tensor(storage(numel=1 << 40), GOOD_SHAPE, GOOD_STRIDES)),
    "raw length lies": listing(tensor(storage(claimed=1 << 60), GOOD_SHAPE, GOOD_STRIDES)),
    "raw length negative": listing(tensor(storage(claimed=-1), GOOD_SHAPE, GOOD_STRIDES)),
    "no raw part": listing(tensor(storage(tail=False), GOOD_SHAPE, GOOD_STRIDES)),
    "shape beyond the storage": listing(tensor(storage(), [2, 2, 4, 9], [72, 36, 9, 1])),
    "offset beyond the storage": listing(tensor(storage(), GOOD_SHAPE, GOOD_STRIDES, offset=1)),
    "offset negative": listing(tensor(storage(), GOOD_SHAPE, GOOD_STRIDES, offset=-1)),
    "offset huge": listing(tensor(storage(), GOOD_SHAPE, GOOD_STRIDES, offset=(1 << 63) - 1)),
    "strides negative": listing(tensor(storage(), GOOD_SHAPE, [-64, 32, 8, 1])),
    "strides overflow": listing(tensor(storage(), GOOD_SHAPE, [1 << 62, 1 << 62, 1 << 62, 1])),
    "dimensions of 2^60": listing(tensor(storage(), [1 << 60] * 4, [0] * 4)),
    "a negative dimension": listing(tensor(storage(), [-2, -2, 4, 8], GOOD_STRIDES)),
    "two hundred dimensions": listing(tensor(storage(), [1] * 200, [1] * 200)),
    "another dtype": listing(tensor(storage("Double"), GOOD_SHAPE, GOOD_STRIDES)),
    "unknown storage": listing(tensor(storage("Evil"), GOOD_SHAPE, GOOD_STRIDES)),
    "a global": b"\x80\x03](cos\nsystem\n(" + text("true") + b"tRe.",
    "a memo bomb": b"\x80\x03]q\x00" + b"".join(b"](h%cae" % n + b"q%c" % (n + 1) for n in range(100)) + b".",
    "a memo bomb of doubling tuples": b"\x80\x03)q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(200)) + b".",
    "memo index 2^32-1": b"\x80\x03)r\xff\xff\xff\xffj\xff\xff\xff\xff.",
    "a list in itself": b"\x80\x03]q\x00h\x00a.",
    "nested a million deep": b"\x80\x03" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
    "marks a million deep": b"\x80\x03" + b"(" * 1_000_000 + b".",
    "bytes of 2^63": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f" + b"x.",
    "a text of 2^32-1": b"\x80\x03X\xff\xff\xff\xffx.",
    "a frame of 2^64-1": b"\x80\x04\x95" + b"\xff" * 8 + b"].",
    "long of 2^31 bytes": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a stop and nothing": b".",
    "protocol 255": b"\x80\xff].",
    "no stop": b"\x80\x03](",
    "pops below the stack": b"\x80\x03tR.",
    "an int where the list should be": b"\x80\x03K\x01.",
    "an element that is no tensor": listing(b"K\x01"),
    "no elements": b"\x80\x03].",
    "ten thousand elements": listing(*[b"N"] * 10_000),
    "text": b"not a pickle",
}  # fmt: skip


@pytest.mark.parametrize("pool", [False, True], ids=["byte copy", "pool"])
def test_pickles_that_lie_store_nothing(server, raw, pool):
    one = server(shm=pool, environment=QUIET_ASAN)
    one.allow(".")
    connection = raw(one)
    from test_negatives import REGISTRATION

    assert connection.call(14, REGISTRATION)["error"] is None
    memory = None
    for name, data in LIES.items():
        key = key_map(token_ids=[hash(name) & 0xFFFF] * 4, end=4, request_id=name)
        if pool:
            assert len(connection.call(16, key, INSTANCE)["context"].get("slots", ())) in (0, 1)
        assert connection.call(17, key, INSTANCE, data) is False, name
        assert connection.call(18, key, INSTANCE)["success"] is False, name
        connection.call(13, name)
        memory = memory or settled(lambda: anonymous_bytes(one))
    key = key_map(token_ids=[1, 2, 3, 4], end=4, request_id="good")
    assert connection.call(17, key, INSTANCE, listing(tensor(storage(), GOOD_SHAPE, GOOD_STRIDES))) is True
    assert connection.call(18, key, INSTANCE)["success"] is True
    connection.call(19, key, INSTANCE)
    connection.call(13, "good")
    connection.call(15, INSTANCE)
    assert one.l1()["staging_object_count"] == 0
    expect_back(one, {}, memory_before=memory, slack_bytes=64 * MIB)


def test_huge_names_are_refused_or_kept_small(server, raw):
    """Request ids, model names and salts that nobody sane sends."""
    one = server(shm=True)
    one.allow(".")
    connection = raw(one)
    memory = None
    for size in (8 << 20, 4096, 4097, 1 << 20, 8 << 20, 64 << 20 if not SANITIZER else 8 << 20):
        name = "r" * size
        assert connection.call(8, key_map(worker_id=None, request_id=name), 1) == "void"
        assert connection.call(9, name) == 0
        assert connection.call(10, name, 0.0) == 0
        assert connection.call(13, name) == "void"
        assert connection.call(16, key_map(request_id=name), INSTANCE)["context"]["slots"] == []
        assert connection.call(8, key_map(worker_id=None, model_name=name), 1) == "void"
        connection.call(13, "cmpl-0-aa")
        memory = memory or settled(lambda: anonymous_bytes(one))
    expect_back(one, {}, memory_before=memory, slack_bytes=(160 if SANITIZER else 48) * MIB)


def test_huge_numbers_in_keys_are_answered(server, raw):
    one = server(shm=True)
    one.allow(".")
    connection = raw(one)
    from test_negatives import REGISTRATION

    assert connection.call(14, REGISTRATION)["error"] is None
    for member in ("start", "end", "world_size", "worker_id", "num_kv_readers"):
        for value in (2**31, 2**32, 2**62, 2**63 - 1, -(2**63)):
            key = key_map(**{member: value})
            assert connection.call(8, {**key, "worker_id": None}, 1) == "void"
            assert isinstance(connection.call(9, key["request_id"]), int)
            assert connection.call(12, {**key, "worker_id": None}, 2**62) == "void"
            slots = connection.call(16, key, INSTANCE)["context"]["slots"]
            assert len(slots) in (0, 2)
            assert connection.call(17, key, INSTANCE, b"") is (slots != [])
            assert connection.call(18, key, INSTANCE)["success"] in (True, False)
            assert connection.call(19, key, INSTANCE) is True
    connection.call(13, "cmpl-0-aa")
    connection.call(15, INSTANCE)
    serves(one)


def test_every_operation_in_every_wrong_arity(server, raw):
    one = server()
    one.allow(".")
    connection = raw(one)
    uid = msgpack.packb(1)
    for operation in range(1, 36):
        for count in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9):
            connection.send(uid, msgpack.packb(operation), *([b"\xc1"] * count))
    connection.send(b"end", b"\x18")
    while connection.receive()[0] != b"end":
        pass
    serves(one)
