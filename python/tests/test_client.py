"""The client against a server that does what each test says."""

import threading
import time

import msgpack
import pytest
import zmq

from lmcached import (
    Client,
    ClientClosed,
    Heartbeat,
    LMCacheError,
    ProtocolError,
    RequestTimeout,
    ServerModuleCallRequest,
)
from lmcached.client import _Loop, normalize_url


def packed(value):
    return [msgpack.packb(value)]


def test_urls_are_normalized():
    assert normalize_url("localhost:5555") == "tcp://localhost:5555"
    assert normalize_url("TCP://Host:1") == "tcp://Host:1"
    assert normalize_url("ipc:///run/x") == "ipc:///run/x"
    assert normalize_url("tcp://[::1]:5555") == "tcp://[::1]:5555"
    with pytest.raises(ValueError, match="'grpc'"):
        normalize_url("grpc://h:1")
    with pytest.raises(ValueError, match="'http'"):
        normalize_url("http://localhost:8080")


@pytest.mark.parametrize("url", ["", "localhost", "tcp://", "tcp://h:", "tcp://:1", "tcp://h:0", "h:65536", "h:x", "ipc://"])
def test_what_is_no_address_is_refused_before_anything_runs(url):
    with pytest.raises(ValueError):
        Client(url)


@pytest.mark.parametrize("url", [None, 5555, b"tcp://h:1", ("h", 1)])
def test_an_address_is_a_text(url):
    with pytest.raises(TypeError):
        Client(url)


def test_a_reply_completes_its_future(fake_server):
    server = fake_server(lambda name, args: packed("OK"))
    with Client(server.url) as client:
        assert client.noop().result(5) == "OK"
        assert client.noop().result(5) == "OK"
    assert server.requests == [(24, []), (24, [])]


def test_replies_may_come_in_any_order(fake_server):
    held = []
    gate = threading.Event()

    def answer(name, args):
        if args == ["slow"]:
            held.append(args)
            return None
        return packed(7)

    server = fake_server(answer)
    with Client(server.url, timeout=5) as client:
        slow = client.query_prefetch_status("slow")
        assert client.query_prefetch_status("quick").result(5) == 7
        assert not slow.done()
    gate.set()
    with pytest.raises(ClientClosed):
        slow.result(0)


def test_void_and_pending_replies_have_no_frame(fake_server):
    server = fake_server(lambda name, args: [])
    with Client(server.url) as client:
        assert client.end_session("r").result(5) is None
        assert client.query_prefetch_status("r").result(5) is None
        with pytest.raises(ProtocolError, match="noop answered without a result"):
            client.noop().result(5)


def test_a_result_on_a_void_operation_is_a_protocol_error(fake_server):
    server = fake_server(lambda name, args: packed(1))
    with Client(server.url) as client:
        with pytest.raises(ProtocolError, match="has none"):
            client.end_session("r").result(5)


def test_bytes_that_do_not_decode_fail_that_request_only(fake_server):
    server = fake_server(lambda name, args: [b"\xc1"] if name == 24 else packed(256))
    with Client(server.url) as client:
        with pytest.raises(ProtocolError, match="undecodable"):
            client.noop().result(5)
        assert client.get_chunk_size().result(5) == 256


def test_silence_ends_at_the_deadline_and_leaves_nothing_behind(fake_server):
    server = fake_server(lambda name, args: None if name == 9 else packed("OK"))
    with Client(server.url, timeout=0.2) as client:
        future = client.query_prefetch_status("r")
        with pytest.raises(RequestTimeout):
            future.result(0.01)  # the caller's patience; the request itself goes on
        with pytest.raises(RequestTimeout, match="no reply to query_prefetch_status"):
            future.result(5)
        assert client.noop().result(5) == "OK"


def test_requests_made_while_the_server_is_away_arrive_later(fake_server, free_port):
    with Client(f"tcp://127.0.0.1:{free_port}", timeout=20) as client:
        futures = [client.noop() for _ in range(2000)]  # more than the socket's queue takes
        server = fake_server(lambda name, args: packed("OK"), endpoint=f"tcp://127.0.0.1:{free_port}")
        assert {future.result(20) for future in futures} == {"OK"}
    assert len(server.requests) == 2000


class Endless:
    """A socket that always has another reply, and no room."""

    def __init__(self):
        self.taken = 0

    def recv_multipart(self, flags, copy):
        assert not copy
        self.taken += 1
        if self.taken > 100_000:
            raise AssertionError("the loop does nothing else any more")
        return [zmq.Frame(b"\x7b"), zmq.Frame(b"\x18"), zmq.Frame(b"\xa2OK")]


def test_a_server_that_never_stops_sending_gets_a_turn_only():
    loop = _Loop(None)
    loop._socket = Endless()
    for turn in range(1, 4):
        loop._receive()
        assert 0 < loop._socket.taken <= turn * 1000


def test_closing_fails_what_is_outstanding(fake_server):
    server = fake_server(lambda name, args: None)
    client = Client(server.url)
    future = client.noop()
    client.close()
    client.close()
    with pytest.raises(ClientClosed):
        future.result(5)
    with pytest.raises(ClientClosed):
        client.noop()


def test_a_callback_may_close_the_client(fake_server):
    server = fake_server(lambda name, args: packed("OK"))
    client = Client(server.url)
    closed = threading.Event()

    def close(_):
        client.close()
        closed.set()

    client.noop().add_done_callback(close)
    assert closed.wait(5)


def test_many_threads_share_a_client(fake_server):
    server = fake_server(lambda name, args: packed(args[0]))
    with Client(server.url) as client:
        wrong = []

        def ask(base):
            for number in range(base, base + 200):
                if client.call("query_prefetch_status", number).result(10) != number:
                    wrong.append(number)

        threads = [threading.Thread(target=ask, args=(1000 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_module_calls_travel_by_name(fake_server):
    server = fake_server(lambda name, args: packed({"success": True, "payload": args[0]["payload"], "error": ""}))
    with Client(server.url) as client:
        response = client.server_module_call(ServerModuleCallRequest("my_package.echo", b"x")).result(timeout=5)
    assert (response.success, response.payload, response.error) == (True, b"x", "")
    assert server.requests == [("server_module_call", [{"method": "my_package.echo", "payload": b"x"}])]


# ---- servers of older generations ----


def old_server(name, args):
    """Knows noop, clear without argument and ping without argument."""
    if name == 24:
        return packed("OK")
    if name == 20 and not args:
        return []
    if name == 22 and not args:
        return packed(True)
    return None


def test_an_older_form_is_tried_when_a_live_server_ignores_the_newest(fake_server):
    server = fake_server(old_server)
    with Client(server.url, timeout=20, older_form_after=0.1) as client:
        assert client.clear().result(20) is None
        assert client.ping(5).result(20) is True
        before = len(server.requests)
        assert client.clear().result(20) is None  # remembered
        assert server.requests[before:] == [(20, [])]


def test_a_clear_that_must_spare_locked_objects_never_becomes_a_forced_one(fake_server):
    server = fake_server(old_server)
    with Client(server.url, timeout=0.5, older_form_after=0.1) as client:
        with pytest.raises(RequestTimeout):
            client.clear(force=False).result(20)
    assert (20, []) not in server.requests


def test_the_older_form_is_not_tried_while_the_server_is_away(free_port):
    with Client(f"tcp://127.0.0.1:{free_port}", timeout=1.0, older_form_after=0.1) as client:
        with pytest.raises(RequestTimeout):
            client.clear().result(20)
        assert client._known_form == {}


# ---- heartbeat ----


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.01)


def test_a_false_ping_registers_again(fake_server):
    answers = [True, False, True]
    registered = []
    server = fake_server(lambda name, args: packed(answers.pop(0) if answers else True))
    with Client(server.url) as client:
        with Heartbeat(client, 77, lambda: registered.append(1), interval=0.02) as heartbeat:
            wait_until(lambda: registered and heartbeat.healthy)
        assert registered == [1] and heartbeat.registrations == 1
    assert server.requests[0] == (22, [77])


def test_an_outage_ends_with_a_registration(fake_server, free_port):
    registered = []
    with Client(f"tcp://127.0.0.1:{free_port}") as client:
        with Heartbeat(client, 77, lambda: registered.append(1), interval=0.05, timeout=0.2) as heartbeat:
            wait_until(lambda: not heartbeat.healthy)
            assert registered == []
            fake_server(lambda name, args: packed(True), endpoint=f"tcp://127.0.0.1:{free_port}")
            assert heartbeat.wait_healthy(10)
        assert registered == [1]


def test_a_failed_registration_is_tried_again(fake_server):
    attempts = []

    def register():
        attempts.append(1)
        if len(attempts) < 3:
            raise [LMCacheError, OSError][len(attempts) % 2]("not yet")

    answers = [False]
    server = fake_server(lambda name, args: packed(answers.pop() if answers else True))
    with Client(server.url) as client:
        heartbeat = Heartbeat(client, 77, register)
        assert [heartbeat.beat() for _ in range(3)] == [False, False, True]
        assert heartbeat.healthy and heartbeat.registrations == 1


@pytest.mark.parametrize("wrong", [("1", None), (1, "register"), (1.0, None)], ids=repr)
def test_a_heartbeat_of_wrong_types_is_not_made(fake_server, wrong):
    server = fake_server(lambda name, args: packed(True))
    with Client(server.url) as client:
        with pytest.raises(TypeError):
            Heartbeat(client, *wrong)
        with pytest.raises(TypeError):
            Heartbeat(client, interval="10")


def test_a_scheduler_only_watches(fake_server):
    server = fake_server(lambda name, args: packed(True))
    with Client(server.url) as client:
        assert Heartbeat(client).beat()
    assert server.requests == [(22, [None])]
