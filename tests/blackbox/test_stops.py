"""Stops in bad moments, starts that fail, and what both leave behind."""

import random
import signal
import socket
import sys
import threading
import time

import msgpack
import pytest
from house import INSTANCE, RawClient, free_ports, key_map, segments, shm_name
from observe import SANITIZER, SOAK
from test_deaths import REGISTRATION, TOKENS
from zmtp import PlainClient

NEVER_LONGER = 25.0  # seconds: the budget of the whole stop (D3)


def mixed_requests(number):
    """Requests of every scheduling class with the form of their answers."""
    key = key_map(token_ids=TOKENS, end=40, request_id=f"s-{number}")
    lookup = {**key, "worker_id": None}
    return [
        ([24], lambda v: v == "OK"),
        ([22, None], lambda v: v is True),
        ([21], lambda v: v == 4),
        ([8, lookup, 1], lambda v: v == "void"),
        ([9, key["request_id"]], lambda v: isinstance(v, int) or v == "void"),
        ([16, key, INSTANCE], lambda v: isinstance(v["context"]["slots"], list)),
        ([17, key, INSTANCE, b""], lambda v: v in (True, False)),
        ([18, key, INSTANCE], lambda v: v["success"] in (True, False)),
        ([19, key, INSTANCE], lambda v: v is True),
        ([12, lookup, 1], lambda v: v == "void"),
        ([13, key["request_id"]], lambda v: v == "void"),
    ]


def send_all(client, count):
    """Sends ``count`` requests at once; returns what is expected under each uid."""
    expected = {}
    for number in range(count):
        arguments, check = mixed_requests(number // 11)[number % 11]
        uid = msgpack.packb(number)
        expected[uid] = (arguments[0], check)
        client.send(uid, *map(msgpack.packb, arguments))
    return expected


def take_reply(client, expected):
    reply = client.receive(20)
    assert reply is not None, f"{len(expected)} requests not answered"
    operation, check = expected.pop(reply[0])
    value = msgpack.unpackb(reply[2], strict_map_key=False) if len(reply) > 2 else "void"
    assert check(value), (operation, value)


def test_a_hundred_requests_in_flight_are_all_answered_at_a_stop(server, raw):
    """With their results or their negatives; a client that goes on sending does not delay it."""
    one = server(shm=True)
    one.allow("Error handling operation", "skipping touch", "no context found", "not found", "does not read its replies")
    connection = raw(one)
    assert connection.call(14, REGISTRATION)["error"] is None
    for _ in range(50):
        expected = send_all(connection, 110)
        while expected:
            take_reply(connection, expected)
    sending = threading.Event()
    noise = threading.Thread(target=keep_sending, args=(one, sending))
    noise.start()
    assert sending.wait(20)
    expected = send_all(connection, 110)
    take_reply(connection, expected)  # the first hundred are on their way
    one.process.send_signal(signal.SIGTERM)
    start = time.monotonic()
    while expected:
        take_reply(connection, expected)
    assert one.process.wait(40) == 0
    print(f"stopped in {time.monotonic() - start:.2f} s")
    assert time.monotonic() - start < NEVER_LONGER
    noise.join(20)
    one.judge()


def keep_sending(one, sending):
    try:
        client = PlainClient(one, timeout=5)
        while True:
            client.send(b"\x01", b"\x16", b"\xc0")
            sending.set()
    except OSError:
        pass


def test_stops_at_random_moments_of_work_are_clean(server):
    rounds = 300 if SOAK else 8 if SANITIZER else 25
    name, (port, http_port) = shm_name(), free_ports(2)
    choose = random.Random(3)
    one = server("--shm-name", name, port=port, http_port=http_port)
    for number in range(rounds):
        client = RawClient(one.url)
        client.send(b"\x00", b"\x0e", msgpack.packb(REGISTRATION))
        for part in range(40):
            send_all(client, 110)
        time.sleep(choose.uniform(0, 0.02))
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(40) == 0, one.log()[-3000:]
        assert segments() == set()
        client.close()
        one.baseline = None
        one.start()
        one.wait_up()
    one.allow("Error handling operation", "skipping touch", "no context found", "not found")


def test_a_client_that_never_reads_does_not_delay_the_stop(server, raw):
    one = server()
    one.allow("does not read its replies")
    deaf = PlainClient(one)
    deaf.socket.setblocking(False)
    data = (b"\x01\x01\x01" + b"\x00\x01\x18") * 2000
    sent = 0
    while sent < 20 << 20:
        try:
            sent += deaf.socket.send(data)
        except BlockingIOError:
            break
    assert raw(one).call(24) == "OK"
    start = time.monotonic()
    one.judge(calm=False)
    assert time.monotonic() - start < NEVER_LONGER
    deaf.close()


def test_http_requests_in_flight_do_not_delay_the_stop(server):
    one = server()
    open_ones = [socket.create_connection(("127.0.0.1", one.http_port)) for _ in range(50)]
    for number, connection in enumerate(open_ones):
        connection.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n" + (b"\r\n" if number % 2 else b"X-Half: "))
    start = time.monotonic()
    one.judge(calm=False)
    assert time.monotonic() - start < NEVER_LONGER
    for connection in open_ones:
        connection.close()


def test_a_second_signal_exits_at_once_and_leaves_no_pool(server):
    """While a stop is held up; it says which signal."""
    seen = set()
    for first, second in [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)]:
        for _ in range(10):
            one = server(shm=True)
            one.judged = True
            one.process.send_signal(signal.SIGSTOP)  # both are pending when it goes on
            one.process.send_signal(first)
            one.process.send_signal(second)
            one.process.send_signal(signal.SIGCONT)
            code = one.process.wait(40)
            seen.add(code)
            assert code in ((0,) if first == second else (128 + signal.SIGTERM, 128 + signal.SIGINT)), code
            assert segments() == set()
            assert "Sanitizer" not in one.log()
    assert seen & {128 + signal.SIGTERM, 128 + signal.SIGINT}


def test_a_second_sigterm_during_a_stop_exits_143(server, raw):
    """A request that came late keeps the stop in its grace; the second signal ends that."""
    one = server(shm=True)
    one.judged = True
    one.process.send_signal(signal.SIGTERM)
    one.wait_log("Stopping after signal", 20)
    codes = set()
    try:
        for _ in range(1000):
            one.process.send_signal(signal.SIGTERM)
    except ProcessLookupError:
        pass
    codes.add(one.process.wait(40))
    assert codes <= {0, 128 + signal.SIGTERM}
    assert segments() == set()


def test_a_signal_during_the_start_ends_it_cleanly(server):
    """At every moment: before the handlers are there it is the signal's own effect."""
    name, codes = shm_name(), []
    choose = random.Random(5)
    for _ in range(400 if SOAK else 60):
        one = server("--shm-name", name, wait=False)
        one.judged = True
        time.sleep(choose.uniform(0, 0.06 if SANITIZER else 0.025))
        one.process.send_signal(signal.SIGTERM)
        codes.append(one.process.wait(40))
        assert codes[-1] in (0, -signal.SIGTERM), one.log()
        assert segments() == set()
        assert "LMCache ERROR" not in one.log() and "Sanitizer" not in one.log(), one.log()
    print(f"ended cleanly {codes.count(0)} times, before its handlers {codes.count(-signal.SIGTERM)} times")
    assert codes.count(0) > 5


SIGNALS_OFF = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
    signal.signal(ignored, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_the_parent_blocks_or_ignores_does_not_keep_the_server_running(server, tmp_path, number):
    (tmp_path / "short.sh").write_text("exit 3\n")
    one = server("--runtime-plugin-locations", str(tmp_path), launcher=[sys.executable, "-c", SIGNALS_OFF])
    one.allow("short.sh")
    one.wait_log(r"Runtime plugin short\.sh exited with code 3")
    assert one.stop(number) == 0
    one.judged = True


# ---- starts that fail ----


def refused(server, *flags, text, shm=True, **options):
    one = server(*flags, shm=shm, wait=False, **options)
    one.judged = True
    assert one.process.wait(40) == 1, one.log()
    assert segments() == set(), "a failed start leaves nothing"
    errors = [line for line in one.log().splitlines() if "LMCache ERROR" in line]
    assert len(errors) == 1, one.log()
    assert text in errors[0], errors[0]
    assert "Sanitizer" not in one.log()
    assert "HTTP server initialized" not in one.log()
    return one


def test_a_busy_port_unwinds_what_was_built(server):
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        refused(server, port=squatter.getsockname()[1], text="ddress already in use")
        refused(server, http_port=squatter.getsockname()[1], text="address already in use")
