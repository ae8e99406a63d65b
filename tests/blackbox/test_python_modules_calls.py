"""What server modules in Python answer: operations, envelopes, services of their own. Numbers in names are those of the
conformance statements."""

import ast
import os
import re

import msgpack
import pytest
import zmq

from house import VECTORS, free_ports, key_map, poll_until
from modules import envelope
from python_packages import FAKE, TRACEBACK, needs_host, texts

pytestmark = needs_host


# ---- operations ----

KEY = "key: IPCCacheServerKey, tp_size: int"
TYPES = "from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey\n"


def test_16_an_override_of_lookup_can_call_the_built_in(host, packages, raw):
    module = packages.one_class(
        f"""
        module_dependencies = [LookupModule]
        @request_handler(HandlerType.BLOCKING)
        def lookup(self, {KEY}) -> None:
            trace("lookup", key.request_id, len(key.token_ids), tp_size)
            return self.build_ctx.require(LookupModule).lookup(key, tp_size)
        """,
        more=TYPES,
    )
    one = host(module)
    client, raw_client = one.client(), raw(one)
    key = key_map(worker_id=None, token_ids=list(range(8)), start=0, end=8, request_id="r1")
    assert raw_client.call("lookup", key, 1) == "void"
    assert packages.of("lookup") == ["r1 8 1"]
    assert client.query_prefetch_status("r1").result(20) == 0
    assert re.search(r"Probe replaces LookupModule as the handler of 'lookup'", one.log())
    raw_client.call("end_session", "r1")
    poll_until(lambda: one.status()["active_sessions"] == 0, "the session's end")


@pytest.mark.parametrize(
    "decorator, signature, text",
    [
        ("@request_handler(HandlerType.BLOCKING)", "lookup(self, key: int, tp_size: int) -> None",
         "payload annotations"),
        ("@request_handler(HandlerType.BLOCKING)", f"lookup(self, {KEY}) -> int", "return annotation"),
        ("@request_handler(HandlerType.BLOCKING)", f"no_such(self, {KEY}) -> None", "no_such"),
        ("@request_handler(HandlerType.NON_BLOCKING)", f"lookup(self, {KEY}) -> None",
         "Non-blocking handler is not supported yet"),
    ],
)  # fmt: skip
def test_17_a_handler_that_does_not_fit_ends_the_start(refused, packages, decorator, signature, text):
    module = packages.one_class(f"{decorator}\ndef {signature}: pass\n", more=TYPES)
    log = refused(module)
    assert any(text in error for error in texts(log)), log
    name = signature.partition("(")[0]
    assert any(name in error for error in texts(log)), log


@pytest.mark.parametrize(
    "declared, thread",
    [
        ("HandlerType.SYNC", "lmc-serial"),
        ("HandlerType.BLOCKING", "lmc-outside"),
        ("HandlerType.BLOCKING, requires_client_affinity=True", "lmc-affinity"),
    ],
)
def test_18_the_winner_says_where_it_runs(host, packages, raw, declared, thread):
    module = packages.one_class(
        f"""
        @request_handler({declared})
        def get_chunk_size(self) -> int:
            with open(f"/proc/self/task/{{threading.get_native_id()}}/comm") as name:
                trace("thread", name.read().strip())
            return 77
        """
    )
    one = host(module)
    assert raw(one).call("get_chunk_size") == 77
    (seen,) = packages.of("thread")
    assert seen.startswith(thread[:10]), seen


def test_18_sync_handlers_run_one_at_a_time_and_off_the_loop(host, packages, raw):
    module = packages.one_class(
        """
        inside = 0
        @request_handler(HandlerType.SYNC)
        def get_chunk_size(self) -> int:
            Probe.inside += 1
            time.sleep(0.05)
            seen, Probe.inside = Probe.inside, Probe.inside - 1
            return seen
        """
    )
    one = host(module, more=["--max-cpu-workers", "4"])
    clients = [one.client() for _ in range(4)]
    futures = [client.call("get_chunk_size") for client in clients]
    assert one.client().noop().result(20) == "OK"
    assert [future.result(20) for future in futures] == [1] * 4


# ---- envelopes ----


def test_19_the_three_calls_of_the_design(host, packages, raw):
    one = host(packages.one_class(FAKE))
    one.allow("boom", TRACEBACK)
    client = raw(one)
    assert envelope(client, "fake.echo", b"hello") == {"success": True, "payload": b"echo:hello", "error": ""}
    assert envelope(client, "fake.missing") == {
        "success": False, "payload": b"", "error": "unknown server module method: fake.missing",
    }  # fmt: skip
    assert envelope(client, "fake.fail") == {"success": False, "payload": b"", "error": "boom"}
    one.wait_log(r"ERROR: server module method fake\.fail failed: boom")
    one.wait_log("RuntimeError: boom")


def test_20_golden_bytes(host, packages, raw):
    one = host(packages.one_class(FAKE))
    client = raw(one)

    def ask(request):
        client.send(b"\x00\x01", b"\xb2server_module_call", bytes.fromhex(request))
        uid, operation, reply = client.receive()
        assert (uid, operation) == (b"\x00\x01", b"\xb2server_module_call")
        return reply.hex()

    assert ask("82a66d6574686f64a966616b652e6563686fa77061796c6f6164c40568656c6c6f") == (
        "83a773756363657373c3a77061796c6f6164c40a6563686f3a68656c6c6fa56572726f72a0"
    )
    missing = ask("82a66d6574686f64ac66616b652e6d697373696e67a77061796c6f6164c400")
    assert missing == (
        "83a773756363657373c2a77061796c6f6164c400a56572726f72d92a"
        + b"unknown server module method: fake.missing".hex()
    )


@pytest.mark.parametrize(
    "result, name",
    [('"text"', "str"), ("None", "NoneType"), ("coroutine()", "coroutine"), ("3", "int"), ("[b'x']", "list")],
)
def test_21_what_is_not_bytes_fails_the_call(host, packages, raw, result, name):
    module = packages.one_class(
        f"""
        @server_module_handler("probe.odd")
        def odd(self, payload):
            return {result}
        """,
        more="async def coroutine():\n    return b''\n",
    )
    one = host(module)
    one.allow(f"returned {name}, expected bytes")
    text = f"server module method probe.odd returned {name}, expected bytes"
    assert envelope(raw(one), "probe.odd") == {"success": False, "payload": b"", "error": text}


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 5 << 20])
@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview"])
def test_21_bytes_like_results_of_any_size_are_bytes(host, packages, raw, kind, size):
    module = packages.one_class(
        f"""
        @server_module_handler("probe.same")
        def same(self, payload):
            return {kind}(payload)
        """
    )
    payload = os.urandom(size)
    assert envelope(raw(host(module)), "probe.same", payload)["payload"] == payload


def test_22_one_method_of_two_modules_ends_the_start(refused, packages):
    first = packages.one_class(FAKE, name="First", module="first")
    second = packages.one_class(FAKE, name="Second", module="second")
    assert any("duplicate server module method: fake.echo" in e for e in texts(refused(first, second)))


def test_23_a_method_without_namespace_fails_the_import(refused, packages):
    module = packages.one_class('@server_module_handler("noname")\ndef method(self, payload): pass\n')
    log = refused(module)
    assert texts(log)[-1] == (
        "Failed to import engine module probe: server module handler method must be namespaced"
    )
    assert "Traceback (most recent call last):" in log


def test_24_without_any_handler_the_envelope_is_answered(host, packages, raw):
    one = host(packages.one_class("pass"))
    assert envelope(raw(one), "fake.echo")["error"] == "unknown server module method: fake.echo"
    assert "server_module_plugins" not in one.status()


def test_25_calls_run_on_several_threads_while_core_operations_go_on(host, packages):
    module = packages.one_class(
        """
        @server_module_handler("probe.sleep")
        def sleep(self, payload):
            time.sleep(0.05)
            return str(threading.get_native_id()).encode()
        """
    )
    one = host(module, more=["--max-cpu-workers", "4"])
    client = one.client()
    request = {"method": "probe.sleep", "payload": b""}
    futures = [client.call("server_module_call", request) for _ in range(64)]
    assert one.client().noop().result(20) == "OK"
    assert sum(future.done() for future in futures) < 64
    threads = {future.result(30).payload for future in futures}
    assert len(threads) == 4


# ---- registrars ----


def test_26_a_sidecar_on_the_servers_context(host, packages):
    (port,) = free_ports(1)
    module = packages.one_class(
        f"""
        def register_zmq_services(self, server):
            import zmq
            trace("register", isinstance(server.ctx, zmq.Context), server.ctx is zmq.Context.instance())
            self.socket = server.ctx.socket(zmq.REP)
            self.socket.bind("tcp://127.0.0.1:{port}")
            self.thread = threading.Thread(target=self.serve)
            self.thread.start()
        def serve(self):
            while (message := self.socket.recv()) != b"stop":
                self.socket.send(b"sidecar:" + message)
            self.socket.close(0)
        def close(self):
            import zmq
            with zmq.Context.instance().socket(zmq.REQ) as stop:
                stop.connect("tcp://127.0.0.1:{port}")
                stop.send(b"stop")
                self.thread.join()
            trace("close", "done")
        """
    )
    one = host(module)
    assert packages.of("register") == ["True True"]
    with zmq.Context.instance().socket(zmq.REQ) as client:
        client.linger = 0
        client.connect(f"tcp://127.0.0.1:{port}")
        client.send(b"hello")
        assert client.poll(10000) and client.recv() == b"sidecar:hello"
    one.baseline = None  # the sidecar's connections are its own
    one.baseline = one.descriptors()
    one.judge()
    assert packages.of("close") == ["done"]


ADD = """
def register_zmq_services(self, server):
    server.add_handler("get_chunk_size", HandlerType.BLOCKING, self.chunk_size)
    {pool}
def chunk_size(self) -> int:
    return 55
"""


def test_27_an_added_handler_without_a_pool_ends_the_start(refused, packages):
    log = refused(packages.one_class(ADD.format(pool="")))
    assert texts(log)[-1].endswith(
        "BlockingRequestHandler for get_chunk_size has no thread pool assigned. Call add_normal_thread_pool or "
        "add_affinity_thread_pool before start()."
    )


@pytest.mark.parametrize("kind", ["normal", "affinity"])
def test_27_with_a_pool_it_serves(host, packages, raw, kind):
    pool = f'server.add_{kind}_thread_pool(["get_chunk_size"], 2)'
    assert raw(host(packages.one_class(ADD.format(pool=pool)))).call("get_chunk_size") == 55


def test_27_pools_say_what_is_wrong_with_them(host, packages):
    module = packages.one_class(
        """
        def register_zmq_services(self, server):
            for operations in (["cb_register_rope"], ["noop"], []):
                try:
                    server.add_normal_thread_pool(operations, 1)
                except Exception as failure:
                    trace("error", type(failure).__name__, failure)
        """
    )
    host(module)
    assert packages.of("error") == [
        "ValueError No handler registered for operation: cb_register_rope. Register handlers before calling "
        "add_normal_thread_pool.",
        "TypeError Handler for noop is SyncRequestHandler, not BlockingRequestHandler. Only blocking handlers can "
        "use thread pools.",
    ]


def test_28_a_registrar_that_cannot_be_called_ends_the_start(refused, packages):
    log = refused(packages.one_class("register_zmq_services = 3"))
    assert texts(log)[-1].endswith("Probe.register_zmq_services must be callable")


def test_grpc_services_wait_for_their_transport_and_say_so(host, packages):
    one = host(packages.one_class("def register_grpc_services(self, server):\n    trace('grpc')\n"))
    assert packages.of("grpc") == []
    assert one.log().count("register_grpc_services") == 1
    assert (
        "LMCache INFO: Probe: register_grpc_services() is not called: the transport of this server is zmq, and the gRPC "
        "transport is not built yet ("
    ) in one.log()


# ---- every operation, there and back ----

# Takes over every operation but the envelope, and answers each with the reply that the test left
# for it. What came in is traced as it is; values that repr() shows are what Python code sees.
EVERYTHING = """
def register_zmq_services(self, server):
    import _lmcache_host as host
    host.set_message_types({})
    for name in host.operations():
        if name != "server_module_call":
            host.zmq_add_handler(name, "BLOCKING", False, self.make(name), 99)
            host.zmq_add_pool([name], 1, False)
def make(self, name):
    import json, msgpack
    def answer(*arguments):
        with open(os.environ["TRACE"], "w") as out:
            out.write(repr(arguments))
        with open(os.environ["TRACE"] + ".reply", "rb") as left:
            reply = msgpack.unpackb(left.read(), strict_map_key=False)
        return tuple(reply) if isinstance(reply, list) and name in ("store", "retrieve") else reply
    return answer
"""


def plain(value):
    """A value of a vector as Python handlers get it: extension type 1 is its bytes."""
    if isinstance(value, msgpack.ExtType):
        return value.data
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def covers(seen, sent):
    """Whether what a handler got says all that was sent; members that were not get a default."""
    if isinstance(sent, dict) and isinstance(seen, dict):
        return all(covers(seen.get(name), value) for name, value in sent.items())
    if isinstance(sent, list) and isinstance(seen, list) and len(sent) == len(seen):
        return all(covers(a, b) for a, b in zip(seen, sent))
    return seen == sent or (sent is None and not seen) or seen == str(sent)  # an engine type's number


def test_every_golden_request_reaches_python_and_its_reply_comes_back(host, packages, raw):
    one = host(packages.one_class(EVERYTHING))
    client = raw(one)
    tried = 0
    for vector in VECTORS:
        if not vector["reply"] or vector["operation"] == "server_module_call":
            continue
        frames = [bytes.fromhex(frame) for frame in vector["frames_hex"]]
        expected = [bytes.fromhex(frame) for frame in vector["response_frames_hex"]]
        packages.trace_path.with_suffix(".reply").write_bytes(expected[2] if len(expected) > 2 else b"\xc0")
        reply = client.exchange(*frames)
        assert reply[:2] == expected[:2] and len(reply) == len(expected), vector["name"]
        if len(reply) > 2 and reply[2] != expected[2]:  # of an older server, with fewer members
            assert covers(msgpack.unpackb(reply[2]), msgpack.unpackb(expected[2])), vector["name"]
        seen = ast.literal_eval(packages.trace_path.read_text())
        sent = [plain(msgpack.unpackb(frame, strict_map_key=False)) for frame in frames[2:]]
        for got, value in zip(seen, sent):
            assert covers(got, value), (vector["name"], got, value)
        tried += 1
    assert tried > 50
