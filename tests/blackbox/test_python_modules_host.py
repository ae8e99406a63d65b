"""The host of server modules in Python: what it starts, and how handlers, liveness, status and
registrars behave. Numbers in names are those of the conformance statements."""

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time

import msgpack
import pytest
import zmq

from house import BINARY, VECTORS, free_ports, key_map, poll_until, run_cli
from modules import KIT, answer, envelope, failed_start, spec
from python_packages import TRACEBACK, needs_host, texts

pytestmark = needs_host


@pytest.fixture
def refused(tmp_path, packages, monkeypatch):
    """The log of a server that must not start with these modules."""

    def start(*modules, more=(), environment=None):
        for name, value in packages.environment(**environment or {}).items():
            monkeypatch.setenv(name, value)
        return failed_start(tmp_path, *(m if isinstance(m, dict) else spec(m) for m in modules), more=more)

    return start


# ---- what is started, and when ----


def mapped(server):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return maps.read()


def test_38_without_a_python_module_there_is_no_python_library(server, host, packages):
    assert "libpython" not in mapped(server())
    assert "libpython" in mapped(host(packages.one_class("pass")))


def test_a_server_without_the_host_says_what_to_install(tmp_path):
    alone = tmp_path / "bin" / "lmcached"
    alone.parent.mkdir()
    shutil.copy(BINARY, alone)
    port, http_port = free_ports(2)
    words = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--port", str(port), "--http-port", str(http_port)]
    done = run_cli("server", *words, "--server-module", '{"module_path": "a.b"}', program=str(alone))
    assert done.returncode == 1
    (error,) = texts(done.stderr)
    assert error == (
        "--server-module a.b: the Python host is not installed (there is no lmcached-pyhost.so); "
        "install it, or build with python3-dev"
    )


INTERPRETER = """
@server_module_handler("probe.sys")
def look(self, payload):
    import json
    main = sys.modules["__main__"]
    return json.dumps({"executable": sys.executable, "prefix": sys.prefix, "argv": sys.argv, "path": sys.path,
                       "version": sys.version_info[:2], "main": main.__name__, "cwd": os.getcwd()}).encode()
"""


def test_sys_is_that_of_a_real_interpreter(host, packages, raw):
    one = host(packages.one_class(INTERPRETER))
    seen = json.loads(answer(raw(one), "probe.sys"))
    asked = subprocess.run([seen["executable"], "-c", "print(6*7)"], capture_output=True, text=True)
    assert asked.stdout.strip() == "42"
    assert seen["argv"][1] == "server" and "--server-module" in seen["argv"]
    assert seen["main"] == "__main__"
    assert os.path.isdir(f"{seen['path'][0]}/lmcache")
    assert seen["cwd"] not in seen["path"] and "" not in seen["path"]
    assert str(packages.folder) in seen["path"]


def host_python():
    """The interpreter that the host is built with."""
    return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def test_a_virtual_environment_gives_its_packages(host, packages, raw, tmp_path):
    home = tmp_path / "venv"
    subprocess.run([host_python(), "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python3*/site-packages")
    (site / "only_in_venv.py").write_text("HERE = 1\n")
    module = packages.one_class(INTERPRETER, more="import only_in_venv\n")
    seen = json.loads(answer(raw(host(module, environment={"VIRTUAL_ENV": str(home)})), "probe.sys"))
    assert seen["prefix"] == str(home)
    assert seen["executable"].startswith(str(home))


def test_an_option_names_the_interpreter(host, packages, raw, tmp_path):
    home = tmp_path / "chosen"
    subprocess.run([host_python(), "-m", "venv", "--without-pip", str(home)], check=True)
    module = packages.one_class(INTERPRETER)
    environment = {"VIRTUAL_ENV": str(tmp_path / "not there")}
    one = host(module, more=["--python-interpreter", f"{home}/bin/python3"], environment=environment)
    assert json.loads(answer(raw(one), "probe.sys"))["prefix"] == str(home)


def other_python(folder, version="3.1.4"):
    """Says that it is another version."""
    program = folder / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '{version}\\n%s\\n' \"$0\"\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_another_version_is_refused_with_one_line_that_names_both(refused, packages, tmp_path):
    program = other_python(tmp_path / "venv")
    log = refused(packages.one_class("pass"), environment={"VIRTUAL_ENV": str(tmp_path / "venv")})
    (error,) = texts(log)
    assert re.fullmatch(
        rf"VIRTUAL_ENV: {re.escape(str(program))} is Python 3\.1\.4, but this server's Python host is built with "
        r"Python 3\.\d+\.\d+\+?",
        error,
    )


def test_what_cannot_be_run_is_named(refused, packages):
    log = refused(packages.one_class("pass"), more=["--python-interpreter", "/no/such/python"])
    assert texts(log) == ["--python-interpreter: /no/such/python is no Python that can be run"]


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

FAKE = """
@server_module_handler("fake.echo")
def echo(self, payload: bytes) -> bytes:
    return b"echo:" + payload
@server_module_handler("fake.fail")
def fail(self, payload: bytes) -> bytes:
    raise RuntimeError("boom")
"""


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


# ---- liveness and status ----

FOUR = """
def touch_instance(self, instance_id): trace("touch", instance_id)
def reap_stale_instances(self, reap_timeout_s, registration_grace_s):
    trace("reap", reap_timeout_s, registration_grace_s)
    return [77]
def tracked_instance_count(self): return 3
"""
DROP = 'def drop_instance_state(self, instance_id): trace("drop", instance_id)\n'


def test_30_four_methods_make_a_target_and_three_do_not(host, packages):
    assert host(packages.one_class(FOUR + DROP)).status()["worker_liveness"]["tracked_instances"] == 3
    three = packages.one_class(FOUR, name="Three", module="three")
    assert host(three).status()["worker_liveness"]["tracked_instances"] == 0


def test_31_a_ping_touches_every_target_and_one_that_raises_loses_no_reply(host, packages, raw):
    raising = FOUR.replace('trace("touch", instance_id)', 'raise OSError("no touch")') + DROP
    first = packages.one_class(raising, name="First", module="first")
    second = packages.one_class(FOUR + DROP, name="Second", module="second")
    one = host(first, second)
    one.allow("no touch", TRACEBACK)
    client = raw(one)
    assert client.call("ping", 5) is True
    assert client.call("ping", None) is True
    poll_until(lambda: packages.of("touch") == ["5"], "the touch")
    one.wait_log(r"touch_instance\(\) of server module First failed: no touch")


def test_32_reaped_ids_are_dropped_on_every_target(host, packages):
    first = packages.one_class(FOUR + DROP, name="First", module="first")
    second = packages.one_class(FOUR.replace("[77]", '"ab"') + DROP, name="Second", module="second")
    one = host(first, second, more=["--worker-reap-timeout-seconds", "30", "--worker-registration-grace-seconds", "60"])
    one.allow("reap_stale_instances", TRACEBACK)
    poll_until(lambda: len(packages.of("drop")) >= 2, "drops", 30)
    assert packages.of("drop")[:2] == ["77", "77"]
    assert packages.of("reap")[:2] == ["30.0 60.0"] * 2


def test_33_a_later_module_wins_and_one_that_raises_is_named(host, packages):
    report = "def report_status(self):\n    return {shown}\n"
    modules = [
        packages.one_class(report.format(shown='{"a": 1, "b": {"c": 1}, 7: float("nan")}'), "A", module="a"),
        packages.one_class(report.format(shown='{"b": 2, "is_healthy": False}'), "B", module="b"),
        packages.one_class(report.format(shown="1 / 0"), "C", module="c"),
        packages.one_class(report.format(shown="[1]"), "D", module="d"),
        packages.one_class(report.format(shown='{"set": object()}'), "E", module="e"),
    ]
    one = host(*modules)
    one.allow("report_status", TRACEBACK)
    status = one.status()
    assert (status["a"], status["b"], status["7"], status["is_healthy"]) == (1, 2, None, False)
    assert status["status_errors"]["C"] == "division by zero"
    assert set(status["status_errors"]) >= {"C", "D"}
    assert "set" not in status or isinstance(status["set"], str)


def test_34_methods_are_sorted(host, packages):
    body = "".join(
        f'@server_module_handler("{name}")\ndef {name[2:]}(self, payload): pass\n' for name in ("z.b", "a.c", "z.a")
    )
    assert host(packages.one_class(body)).status()["server_module_plugins"] == {"methods": ["a.c", "z.a", "z.b"]}


# ---- the log, processes, threads ----


def test_36_a_modules_log_is_the_servers(host, packages):
    module = packages.one_class("pass", more="from lmcache.logging import init_logger\ninit_logger(__name__).info('so')\n")
    assert re.search(
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] LMCache INFO: so \(probe\.py:\d+:probe\)$", host(module).log(), re.M
    )


def test_37_multiprocessing_starts_no_second_server(host, packages, raw):
    packages.write("work", "def double(n):\n    return 2 * n\n", head="")
    module = packages.one_class(
        """
        @server_module_handler("probe.pool")
        def pool(self, payload):
            context = multiprocessing.get_context("spawn")
            with context.Pool(2) as pool:
                return str(pool.map(work.double, range(4))).encode()
        """,
        more="import multiprocessing, work\n",
    )
    one = host(module)
    assert answer(raw(one), "probe.pool") == "[0, 2, 4, 6]"
    assert one.log().count("Composed") == 1
    one.baseline = one.descriptors()  # multiprocessing keeps a resource tracker


def test_39_a_thread_that_never_ends_does_not_hold_the_stop(host, packages):
    module = packages.one_class(
        "pass",
        create="threading.Thread(target=time.sleep, args=(600,), name='for-ever').start()\nreturn cls(build_ctx)",
    )
    one = host(module)
    one.allow("thread 'for-ever' of a Python module has not ended; the server does not wait for it")
    before = time.monotonic()
    one.judge()
    assert time.monotonic() - before < 25  # the budget of the whole stop
    assert "for-ever" in one.log()


def test_40_events_are_delivered_and_a_raising_callback_hides_nothing(host, packages, raw):
    module = packages.one_class(
        """
        @server_module_handler("probe.publish")
        def publish(self, payload):
            bus = self.context.event_bus
            bus.publish(Event("probe.happened", "s1", {"n": 1, "list": [1, 2]}))
            return b""
        """,
        create="""
        bus = build_ctx.engine_context.event_bus
        def raising(event):
            raise ValueError("no event")
        bus.subscribe("probe.happened", raising)
        bus.subscribe("probe.happened", lambda e: trace("event", e.session_id, e.metadata, e.timestamp > 0))
        return cls(build_ctx)
        """,
        more="from lmcache.v1.mp_observability.event import Event\n",
    )
    one = host(module)
    one.allow("no event", TRACEBACK)
    answer(raw(one), "probe.publish")
    poll_until(lambda: packages.of("event"), "the event")
    assert packages.of("event") == ["s1 {'n': 1, 'list': [1, 2]} True"]
    one.wait_log("event subscriber of .* failed at probe.happened: no event")
    assert 'lmcache_mp_event_bus_subscriber_exceptions_total{subscriber_name="probe"} 1\n' in one.get("/metrics").text


def test_a_module_in_python_depends_on_a_native_one_and_the_order_is_that_of_the_command_line(host, packages):
    from modules import probe

    native = probe("NativeModule")
    module = packages.one_class('module_dependencies = ["NativeModule"]\n')
    free = packages.one_class("pass", name="Free", module="free")
    one = host(module, spec(native, trace=str(packages.folder / "native")), free)
    composed = re.search(r"Composed \d+ server modules: (.*) \(composition", one.log()).group(1)
    assert "NativeModule(dependencies=[]), Probe(dependencies=[NativeModule]), Free(dependencies=[])" in composed




# ---- tools of authors ----


def test_check_module_builds_and_shows_a_module_in_python(packages):
    module = packages.one_class(FAKE, create="assert build_ctx.config_for(cls) == {'a': 1}\nreturn made(cls, build_ctx)")
    environment = {**os.environ, **packages.environment()}
    done = run_cli("check-module", "--config", '{"a": 1}', module, environment=environment)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "nothing is wrong"), done.stdout + done.stderr
    assert "Probe\n  method      fake.echo\n  method      fake.fail\n" in done.stdout
    assert packages.lines() == ["create Probe", "close Probe"]
    refused = run_cli("check-module", module, environment=environment)
    assert refused.returncode == 1 and "violation: Probe: " in refused.stdout
    missing = run_cli("check-module", "no_such_module", environment=environment)
    assert missing.returncode == 1
    assert "violation: Failed to import engine module no_such_module: No module named 'no_such_module'" in missing.stdout


def test_status_says_what_is_written_in_python(host, packages):
    module = packages.one_class("pass", more="__version__ = '1.2'\n")
    shown = host(module).status()["server_modules"]
    assert (shown["Probe"]["origin"], shown["Probe"]["version"]) == ("python", "1.2")
    assert shown["LookupModule"]["origin"] == "built-in"


def test_the_conformance_kit_takes_a_module_in_python(packages):
    module = packages.one_class(FAKE.replace('raise RuntimeError("boom")', "return payload") + FOUR + DROP)
    done = subprocess.run(
        [KIT, module], env={**os.environ, **packages.environment()}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout.endswith("9 passed, 0 failed\n"), done.stdout + done.stderr
    bad = packages.one_class("def close(self):\n    pass\n", create="threading.Thread(target=time.sleep, args=(9,)).start()\nreturn cls(build_ctx)", module="bad")
    done = subprocess.run(
        [KIT, bad], env={**os.environ, **packages.environment()}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and "threads are left behind" in done.stdout, done.stdout + done.stderr


def kit(packages, *words):
    environment = {**os.environ, **packages.environment()}
    return subprocess.run([KIT, *words], env=environment, capture_output=True, text=True, timeout=300)


SIDECAR = """
def register_zmq_services(self, server):
    import zmq
    self.stop, self.socket = threading.Event(), server.ctx.socket(zmq.REP)
    self.socket.bind_to_random_port("tcp://127.0.0.1")
    self.thread = threading.Thread(target=self.serve)
    self.thread.start()
def serve(self):
    while not self.stop.is_set():
        if self.socket.poll(5):
            self.socket.send(self.socket.recv())
    {end}
def close(self):
    self.stop.set()
    self.thread.join()
"""


def test_the_kit_counts_sockets_of_a_sidecar_and_not_the_context_that_all_share(packages):
    done = kit(packages, packages.one_class(SIDECAR.format(end="self.socket.close(0)")))
    assert done.returncode == 0 and done.stdout.endswith("9 passed, 0 failed\n"), done.stdout + done.stderr
    kept = "kept = []\n"
    done = kit(packages, packages.one_class(SIDECAR.format(end="kept.append(self.socket)"), module="bad", more=kept))
    assert done.returncode == 1 and "descriptors are left behind" in done.stdout, done.stdout + done.stderr


def test_check_module_shows_what_a_module_in_python_has(packages):
    handlers = "".join(
        f"@request_handler(HandlerType.{declared})\ndef {signature}: return None\n"
        for declared, signature in (("SYNC", "noop(self) -> str"), ("BLOCKING", "ping(self, instance_id: int | None) -> bool"),
                                    ("BLOCKING, requires_client_affinity=True", "end_session(self, request_id: str) -> None"))
    )  # fmt: skip
    registrars = "def register_zmq_services(self, server): pass\ndef register_grpc_services(self, server): pass\n"
    module = packages.one_class(handlers + registrars + FOUR + DROP)
    plain = packages.one_class("pass", name="Plain", module="plain")
    done = run_cli("check-module", plain, module, environment={**os.environ, **packages.environment()})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Plain\n  hooks       create, close, report_status\n" in done.stdout
    assert (
        "Probe\n"
        "  overrides   end_session (BLOCKING with client affinity)\n"
        "  overrides   noop (SYNC)\n"
        "  overrides   ping (BLOCKING)\n"
        "  hooks       create, close, report_status, liveness, register_zmq_services, register_grpc_services\n"
    ) in done.stdout, done.stdout


FACTORY = "def make(ctx):\n    return [Probe(ctx)] if ctx.config == {'a': 1} else None\n"


def test_the_tools_take_the_name_of_a_factory(packages):
    module = packages.write(
        "old", FACTORY + "class Probe(Base):\n    def __init__(self, ctx):\n        self._context = ctx.server_context\n"
        "    create = None\n    @server_module_handler('old.echo')\n    def echo(self, payload):\n        return payload\n"
    )  # fmt: skip
    environment = {**os.environ, **packages.environment()}
    words = ["--factory", "make", "--config", '{"a": 1}', module]
    done = run_cli("check-module", *words, environment=environment)
    assert done.returncode == 0 and "  method      old.echo\n" in done.stdout, done.stdout + done.stderr
    assert kit(packages, *words).returncode == 0
    done = run_cli("check-module", "--factory", "nothing", module, environment=environment)
    assert done.returncode == 1 and "module 'old' has no attribute 'nothing'" in done.stdout
    done = run_cli("check-module", "--factory", "make", "./a.so", environment=environment)
    assert done.returncode == 2 and "argument --factory: not a module in Python: ./a.so" in done.stderr


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
