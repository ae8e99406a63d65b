"""Many clients, deaf ones, slow ones, and those who come and go; and what an idle server does."""

import os
import socket
import threading
import time

import msgpack
import pytest
import zmq
from house import INSTANCE, key_map, lookup_key, poll_until
from modules import flags, probe, spec
from observe import (
    SANITIZER, SOAK, anonymous_bytes, cpu_seconds, expect_back, footprint, settled, switches, threads,
)  # fmt: skip
from test_deaths import REGISTRATION
from test_garbage import QUIET_ASAN, serves
from zmtp import PlainClient, message

MIB = 1 << 20


def send_deaf(client, data, limit):
    """Writes until ``limit`` bytes are gone or the server takes no more for a second."""
    client.socket.settimeout(1.0)
    sent = 0
    while sent < limit:
        try:
            sent += client.socket.send(data[sent % len(data) :])
        except (socket.timeout, OSError):
            break
    return sent


DEAF = {
    "small replies": message([b"\x01", b"\x18"]),
    "large uids": message([b"u" * 250, b"\x18"]),
    "large uids in large messages": message([b"u" * 250, b"\x0d", msgpack.packb("r" * 4000)]),
    "void replies": message([b"\x01", b"\x0c", msgpack.packb(key_map(start=8)), b"\x01"]),
    "middle-sized replies": message(
        [b"\x01", msgpack.packb("server_module_call"), msgpack.packb({"method": "m" * 4000, "payload": b""})]
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DEAF)
def test_clients_that_never_read_cost_only_so_much(server, kind):
    """Each sends far more than it may have unread; others are served as before."""
    one = server(environment=QUIET_ASAN)
    one.allow("does not read its replies", "not found, skipping touch", "unknown server module method", "Error handling")
    serves(one)
    before, memory = footprint(one), settled(lambda: anonymous_bytes(one))
    data = DEAF[kind] * (256_000 // len(DEAF[kind]))
    crowd = [PlainClient(one) for _ in range(4)]
    limit = (16 if len(DEAF[kind]) < 100 else 128) * MIB // (4 if SANITIZER else 1)
    pushers = [threading.Thread(target=send_deaf, args=(client, data, limit)) for client in crowd]
    for pusher in pushers:
        pusher.start()
    while any(pusher.is_alive() for pusher in pushers):
        serves(one)
        time.sleep(0.05)
    held = anonymous_bytes(one) - memory
    print(f"{kind}: {held / MIB / len(crowd):.0f} MiB for each deaf client")
    for client in crowd:
        client.close()
    # What waits for a pool or is unread is bounded for all clients together; small replies for each.
    waits = ("middle-sized replies", "void replies", "large uids in large messages")
    assert held < (1536 if kind in waits else 150 * len(crowd)) * MIB
    # A sanitizer's allocator gives nothing back; it finds leaks in its own way.
    expect_back(one, before, memory_before=None if SANITIZER else memory, slack_bytes=48 * MIB)
    serves(one)


def test_a_flood_of_block_reports_starves_nobody(server, raw):
    one = server(shm=True, environment=QUIET_ASAN)
    serves(one)
    memory = settled(lambda: anonymous_bytes(one))
    record = {"req_id": "r", "new_block_ids": list(range(64)), "new_token_ids": list(range(1024))}
    frames = [b"\x01", b"\x17", msgpack.packb(INSTANCE), msgpack.packb("m"), msgpack.packb([record] * 16)]
    stop = threading.Event()

    def flood():
        context = zmq.Context()
        client = context.socket(zmq.DEALER)
        client.setsockopt(zmq.LINGER, 0)
        client.connect(one.url)
        while not stop.is_set():
            if client.poll(50, zmq.POLLOUT):
                client.send_multipart(frames)
            while client.poll(0):
                client.recv_multipart()
        client.close()
        context.term()

    floods = [threading.Thread(target=flood) for _ in range(2)]
    for thread in floods:
        thread.start()
    client = one.client()
    for _ in range(50 if SANITIZER else 200):
        assert client.ping().result(20) is True
    serves(one)
    stop.set()
    for thread in floods:
        thread.join()
    expect_back(one, {}, memory_before=None if SANITIZER else memory, slack_bytes=48 * MIB, seconds=120.0)


@pytest.mark.skipif(bool(SANITIZER), reason="a sanitizer's allocator gives nothing back")
def test_memory_of_a_request_goes_back_however_long_it_took(server):
    """Large ones are noticed when they come; this one ends long after the heap was last trimmed."""
    one = server(*flags(spec(probe())))
    one.allow("the handler of 'probe.sleep' has been running for")
    serves(one)
    memory = settled(lambda: anonymous_bytes(one))
    call = {"method": "probe.sleep", "payload": b"7000" + bytes(96 * MIB)}
    client = PlainClient(one)
    client.socket.settimeout(60)
    assert client.call("server_module_call", call)["success"]
    assert anonymous_bytes(one) > memory + 48 * MIB
    expect_back(one, {}, memory_before=memory, slack_bytes=24 * MIB)


def test_a_thousand_waiters_are_answered(server, raw):
    one = server(shm=True)
    worker = one.worker()
    connection = raw(one)
    lookup = key_map(worker_id=None, token_ids=[1] * 8)
    for number in range(1000):
        connection.send(msgpack.packb(number), b"\x0a", msgpack.packb("nobody"), msgpack.packb(300.0))
        connection.send(msgpack.packb(number + 1000), b"\x08", msgpack.packb({**lookup, "request_id": f"w-{number}"}), b"\x01")
        connection.send(msgpack.packb(number + 2000), b"\x0a", msgpack.packb(f"w-{number}"), msgpack.packb(300.0))
        connection.send(msgpack.packb(number + 3000), b"\x0d", msgpack.packb(f"w-{number}"))
    one.allow("skipping touch")
    answers = {}
    while len(answers) < 4000:
        reply = connection.receive()
        assert reply is not None, f"{len(answers)} answers"
        answers[msgpack.unpackb(reply[0])] = reply[2:]
    assert all(answers[n] == [b"\x00"] for n in range(1000))
    assert all(answers[n] == [] for n in [*range(1000, 2000), *range(3000, 4000)])
    assert all(answers[n] in ([b"\x00"], []) for n in range(2000, 3000))
    worker.unregister()
    one.sessions_left = 1000  # an end may come before its lookup


def test_ten_thousand_sessions_stay_small(server, raw):
    """32,768 tokens each, the same prompt's prefix in different lengths and all from one client."""
    one = server("--chunk-size", "256", shm=True)
    worker = one.worker(block_size=16)
    connection = raw(one)
    count, tokens = (2000 if SANITIZER else 10_000), list(range(1, 4097))
    serves_tokens = msgpack.packb(key_map(worker_id=None, token_ids=tokens, end=4096, request_id="??????"))
    before = settled(lambda: anonymous_bytes(one))
    start = time.monotonic()
    for number in range(count):
        request = b"%06d" % number
        connection.send(request, b"\x08", serves_tokens.replace(b"??????", request), b"\x01")
        connection.send(request, b"\x09", msgpack.packb(request.decode()))
        if number % 100 == 99:
            for _ in range(200):
                assert connection.receive() is not None
    assert one.status()["active_sessions"] >= count
    grown = settled(lambda: anonymous_bytes(one)) - before
    print(f"{count} sessions of {len(tokens)} tokens: {grown / MIB:.1f} MiB, {time.monotonic() - start:.1f} s")
    assert grown < 64 * MIB * (3 if SANITIZER else 1)
    for number in range(count):
        connection.send(b"e", b"\x0d", msgpack.packb("%06d" % number))
    for _ in range(count):
        assert connection.receive() is not None
    assert one.status()["active_sessions"] == 0
    worker.unregister()


# ---- HTTP ----


def http_socket(one, data=b""):
    connection = socket.create_connection(("127.0.0.1", one.http_port), timeout=20)
    connection.sendall(data)
    return connection


def reply_of(connection):
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    except (ConnectionResetError, socket.timeout):
        pass
    return data


@pytest.mark.parametrize("kind", ["silent", "half a head", "a byte at a time", "half a body", "keep-alive"])
def test_a_thousand_http_connections_keep_no_probe_out(server, kind):
    one = server()
    serves(one)
    one.get("/metrics")
    before = footprint(one)
    data = {
        "silent": b"",
        "half a head": b"GET /healthcheck HTTP/1.1\r\nHost: x\r\nX-A: b",
        "a byte at a time": b"GET /he",
        "half a body": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        "keep-alive": b"GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n",
    }[kind]
    crowd = [http_socket(one, data) for _ in range(1000 if not SANITIZER else 700)]
    for turn in range(5):
        if kind == "a byte at a time":
            for connection in crowd:
                connection.send(b"althcheck"[turn : turn + 1])
        assert one.get("/healthcheck").status == 200
        assert one.get("/readiness").status == 200
        assert one.get("/metrics").status == 200
    serves(one)
    for connection in crowd:
        connection.close()
    expect_back(one, before)


HTTP_GARBAGE = {
    "a body longer than said": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}{}{}{}",
    "a negative length": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}",
    "a length of 2^64": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n{}",
    "a length that is none": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n{}",
    "two lengths": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunks that lie": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    "no chunks": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a huge header": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200_000 + b"\r\n\r\n",
    "ten thousand headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
    "a huge target": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target of escapes": b"GET /%00%ff%2e%2e/%zz%?a=%&&&=;=%u1234 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a climb": b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "noise": os.urandom(4000) + b"\r\n\r\n",
    "zeros": b"\0" * 4000,
    "TLS": bytes.fromhex("16030100c8010000c40303") + os.urandom(190),
    "ZMTP": b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 47,
    "deep JSON": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    "a body of 64 MiB": b"POST /cache/clear HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n" + b" " * 20_000_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", HTTP_GARBAGE)
def test_damaged_http_is_answered_or_closed(server, kind):
    one = server()
    serves(one)
    before = footprint(one)
    connection = socket.create_connection(("127.0.0.1", one.http_port), timeout=20)
    try:
        connection.sendall(HTTP_GARBAGE[kind])
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    reply = reply_of(connection)
    assert reply == b"" or reply.startswith(b"HTTP/1."), reply[:100]
    assert b" 500 " not in reply[:20]
    assert b"root:" not in reply
    connection.close()
    assert one.get("/healthcheck").status == 200
    expect_back(one, before)


def test_slow_readers_of_http_replies_cost_only_their_place(server):
    one = server()
    serves(one)
    before = footprint(one)
    crowd = []
    for _ in range(100):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", one.http_port))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        crowd.append(connection)
    for _ in range(5):
        assert one.get("/healthcheck").status == 200
        assert one.get("/status").status == 200
    for connection in crowd:
        connection.close()
    expect_back(one, before)


@pytest.mark.parametrize("path", ["/cache/clear", "/no/such/path"])
def test_half_bodies_of_a_crowd_have_a_bound_together(server, path):
    one = server(environment=QUIET_ASAN)
    serves(one)
    before, memory = footprint(one), settled(lambda: anonymous_bytes(one))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n".encode()
    crowd = [socket.create_connection(("127.0.0.1", one.http_port), timeout=30) for _ in range(300)]
    for connection in crowd:
        connection.sendall(head + b"x" * (MIB - 1))
    assert settled(lambda: anonymous_bytes(one)) - memory < 128 * MIB
    assert one.request("POST", "/cache/clear", '{"force": false}').status == 200
    large = one.request("POST", "/cache/clear", b" " * (MIB - 2) + b"{}")
    assert large.status == 503 and large.json == {"detail": "server is busy"}
    answers = set()
    for connection in crowd:
        connection.sendall(b"x")
        answers.add(connection.recv(65536).split(b" ")[1])
        connection.close()
    assert b"503" in answers and len(answers) == 2, answers
    assert one.request("POST", "/cache/clear", b" " * (MIB - 2) + b"{}").status == 200
    expect_back(one, before, memory_before=memory, slack_bytes=(96 if SANITIZER else 48) * MIB)


def test_large_replies_that_a_crowd_does_not_read_have_a_bound_together(server, raw):
    one = server(environment=QUIET_ASAN)
    client = raw(one)
    for number in range(1500):
        client.call(14, {**REGISTRATION, "instance_id": number + 1, "model_name": "m" * 4000})
    size = len(one.get("/status").body)
    assert size > 6_000_000
    memory, crowd = settled(lambda: anonymous_bytes(one)), []
    for _ in range(100):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", one.http_port))
        connection.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        crowd.append(connection)
        assert one.get("/healthcheck").status == 200
    answers = [connection.recv(12, socket.MSG_WAITALL)[9:] for connection in crowd]
    assert answers.count(b"503") + answers.count(b"200") == 100 and answers.count(b"200") * size < 160 * MIB
    assert settled(lambda: anonymous_bytes(one)) - memory < (384 if SANITIZER else 256) * MIB
    assert one.get("/metrics").status == 200
    for connection in crowd:
        connection.close()
    assert poll_until(lambda: one.get("/status").status == 200, "room again")


# ---- coming and going, and doing nothing ----


def test_ten_thousand_clients_come_and_go(server):
    one = server(shm=True, environment=QUIET_ASAN)
    serves(one)

    def cycle(number):
        client = PlainClient(one)
        if number % 4 == 0:
            instance = INSTANCE + number % 64
            assert client.call(14, {**REGISTRATION, "instance_id": instance})["error"] is None
            client.call(8, key_map(worker_id=None, request_id="cycle"), 1)
            client.call(16, key_map(token_ids=[number] * 8, request_id="cycle"), instance)
            if number % 8 == 0:
                client.call(15, instance)
        else:
            assert client.call(24) == "OK"
        client.close()

    count = 100_000 if SOAK else 3000 if SANITIZER else 10_000
    one.allow("not found")
    for number in range(count // 10):
        cycle(number)
    before, memory = footprint(one), settled(lambda: anonymous_bytes(one))
    start = time.monotonic()
    for number in range(count):
        cycle(number)
    seconds = time.monotonic() - start
    expect_back(one, before, memory_before=memory, slack_bytes=(24 if SANITIZER else 6) * MIB)
    grown = anonymous_bytes(one) - memory
    print(f"{count} connections in {seconds:.1f} s; memory grew by {grown / MIB:.1f} MiB, threads {threads(one)}")
    client = PlainClient(one)
    for number in range(64):
        client.call(15, INSTANCE + number)
    client.call(13, "cycle")
    client.close()


@pytest.mark.skipif(bool(SANITIZER), reason="sanitizers have threads of their own")
def test_an_idle_server_sleeps(server):
    """Nothing wakes but the core's timer, once a second, and what that asks for."""
    one = server(shm=True)
    worker = one.worker()
    assert worker.store(worker.key([1, 2, 3, 4], "a"), [bytes(worker.chunk_bytes)])
    worker.client.end_session("a").result(10)
    time.sleep(5)  # pages are supplied, memory is tidied
    before, cpu = switches(one), cpu_seconds(one)
    time.sleep(10)
    after = switches(one)
    woken = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    used = cpu_seconds(one) - cpu
    print(f"woken in 10 s: {woken}; CPU {used * 1000:.0f} ms")
    assert {name.rsplit("-", 1)[0] for name in woken} <= {"lmc-core", "lmc-status"}, woken
    assert sum(woken.values()) <= 10 * 30, woken  # once a second, then one step per module
    assert used <= 0.1
    worker.unregister()


def test_the_prompt_of_a_crowd_is_found_by_all(server):
    """Two hundred clients look up the same chunks at once; each holds its own, and all come back."""
    one = server(shm=True)
    worker = one.worker()
    tokens = list(range(40))
    assert worker.store(worker.key(tokens, "a"), [bytes(worker.chunk_bytes)] * 10)
    worker.client.end_session("a").result(10)
    crowd = [PlainClient(one) for _ in range(200)]
    key = lookup_key(tokens, "x").to_wire()
    for number, client in enumerate(crowd):
        client.request(8, {**key, "request_id": f"c-{number}"}, 1)
    for number, client in enumerate(crowd):
        assert len(client.receive()) == 2
        assert client.call(9, f"c-{number}") == 10
    assert one.l1()["read_locked_count"] == 10
    for number, client in enumerate(crowd):
        client.call(13, f"c-{number}")
        client.close()
    poll_until(lambda: one.l1()["read_locked_count"] == 0, "all locks come back")
    worker.unregister()
