"""What native server modules answer: overrides, envelopes, sidecars. Numbers in names are those of the
conformance statements."""

import re
import signal
import socket
import threading
import time

import pytest
import zmq

from house import RawClient, free_ports, key_map, poll_until
from modules import SOURCES, answer, broken, build, envelope, error_of, failed_start, flags, probe, spec


# ---- handlers ----


@pytest.mark.parametrize("scheduling", ["LMC_SYNC", "LMC_NORMAL", "LMC_AFFINITY"])
@pytest.mark.parametrize("operation", ["clear", "noop", "prepare_store"])
def test_18_any_scheduling_class_may_replace_any_other(server, raw, scheduling, operation):
    path = probe("OverModule", override=operation, scheduling=scheduling)
    one = server(*flags(spec(path)))
    client = raw(one)
    if operation == "prepare_store":
        expected = client.call(operation, key_map(worker_id=0), 1)
        assert expected == {"context": {"slots": [], "chunk_indices": []}}
        one.allow("Error handling operation prepare_store")
    else:
        assert client.call(operation) == ("OK" if operation == "noop" else "void")
    assert one.status()["over"]["calls"] == 1
    one.wait_log(f"OverModule replaces \\w+ as the handler of '{operation}'")


def test_an_outside_handler_beats_a_built_in_and_a_later_one_an_earlier(server, raw, trace):
    a = probe("AModule", override="clear")
    b = probe("BModule", depends=["AModule"], override="clear", scheduling="LMC_NORMAL")
    one = server(*flags(spec(b, trace=str(trace.path)), spec(a, trace=str(trace.path))))
    assert raw(one).call("clear") == "void"
    assert [line.split()[1] for line in trace.lines() if line.startswith("override")] == ["BModule", "AModule"]
    calls = {name: row["calls"] for name, row in one.status()["server_modules"].items()}
    assert calls["AModule"] == calls["BModule"] == calls["ManagementModule"] == 1


@pytest.mark.parametrize("scheduling", ["LMC_SYNC", "LMC_NORMAL", "LMC_AFFINITY"])
@pytest.mark.parametrize("operation", ["noop", "clear"])
def test_a_call_comes_back_to_the_handler_that_wants_it_after_the_built_in(server, raw, scheduling, operation):
    path = probe("OverModule", override=operation, scheduling=scheduling)
    one = server(*flags(spec(path, override="after")))
    client = raw(one)
    for _ in range(5):
        assert client.call(operation) == ("OK" if operation == "noop" else "void")
    status = one.status()
    assert status["over"]["calls"] == 5 and status["over"]["afters"] == 5
    assert status["server_modules"]["OverModule"]["in_flight"] == 0


def test_a_failing_override_gives_the_negative_and_counts_as_an_error(server, raw):
    one = server(*flags(spec(probe("OverModule", override="clear"), override="fail")))
    one.allow("Error handling operation clear: failed: it was told to fail; answered with its negative")
    assert raw(one).call("clear") == "void"
    row = one.status()["server_modules"]["OverModule"]
    assert row["calls"] == 1 and row["errors"] == 1
    metrics = one.get("/metrics").text
    assert 'lmcached_server_module_errors_total{module="OverModule"} 1\n' in metrics
    assert 'lmcached_server_module_call_seconds_count{module="OverModule"} 1\n' in metrics


def test_a_registration_from_outside_takes_effect_before_later_requests(server, raw, trace):
    path = probe("OverModule", override="unregister_kv_cache_engine_driven_context")
    one = server(*flags(spec(path, override="sleep", trace=str(trace.path))))
    client = raw(one)
    client.send(b"\x01", b"\x0f", b"\x05")  # unregister, which sleeps half a second
    client.send(b"\x02", b"\x18")  # noop
    assert [client.receive()[0], client.receive()[0]] == [b"\x01", b"\x02"]


# ---- envelopes ----


def test_19_envelopes_give_exactly_what_the_contract_says(server, raw):
    one = server(*flags(spec(probe("FakeModule"))))
    client = raw(one)
    one.allow("server module method fake.fail failed: boom")
    assert envelope(client, "fake.echo", b"hello") == {"success": True, "payload": b"echo:hello", "error": ""}
    assert envelope(client, "fake.missing") == {
        "success": False, "payload": b"", "error": "unknown server module method: fake.missing",
    }  # fmt: skip
    assert envelope(client, "fake.fail") == {"success": False, "payload": b"", "error": "boom"}
    one.wait_log("LMCache ERROR: server module method fake.fail failed: boom")


def test_20_envelopes_travel_in_the_golden_bytes(server, raw):
    one = server(*flags(spec(probe("FakeModule"))))
    client = raw(one)
    operation = bytes.fromhex("b27365727665725f6d6f64756c655f63616c6c")
    request = bytes.fromhex("82a66d6574686f64a966616b652e6563686fa77061796c6f6164c40568656c6c6f")
    reply = bytes.fromhex("83a773756363657373c3a77061796c6f6164c40a6563686f3a68656c6c6fa56572726f72a0")
    assert client.exchange(b"\x2a", operation, request) == [b"\x2a", operation, reply]
    request = request.replace(b"fake.echo", b"fake.miss")
    reply = (
        bytes.fromhex("83a773756363657373c2a77061796c6f6164c400a56572726f72d927")
        + b"unknown server module method: fake.miss"
    )
    assert client.exchange(b"\x2b", operation, request) == [b"\x2b", operation, reply]


def test_21_a_result_that_cannot_be_sent_gives_success_false_not_a_hang(server, raw):
    one = server(*flags(spec(probe("FakeModule"))))
    client = raw(one)
    one.allow("server module method fake.strange failed", "server module method fake.silent failed")
    for kind in (b"0", b"1", b"2", b"3"):
        reply = envelope(client, "fake.strange", kind)
        assert reply["success"] is False and reply["payload"] == b"", (kind, reply)
    assert envelope(client, "fake.silent")["success"] is False
    assert answer(client, "fake.echo", b"x") == "echo:x"


def test_22_two_modules_with_one_method_do_not_start(tmp_path):
    a, b = (probe(name, more=("-DSAME_METHOD",)) for name in ("AModule", "BModule"))
    assert error_of(failed_start(tmp_path, spec(a), spec(b))) == "duplicate server module method: same.method"


def test_24_without_any_method_the_operation_still_answers(server, raw):
    one = server()
    reply = envelope(raw(one), "a.b", b"x")
    assert reply == {"success": False, "payload": b"", "error": "unknown server module method: a.b"}
    assert "server_module_plugins" not in one.status()


def test_25_envelopes_run_in_parallel_and_hold_up_nobody(server, raw):
    one = server("--max-cpu-workers", "4", *flags(spec(probe("FakeModule"))))
    clients = [raw(one) for _ in range(16)]
    threads = set()
    for i in range(64):
        clients[i % 16].send(
            b"\x01", b"\xb2server_module_call", b"\x82\xa6method\xabfake.thread\xa7payload\xc4\x0220"
        )
    for i in range(64):
        frames = clients[i % 16].receive()
        threads.add(frames[2])
    assert len(threads) == 4
    for client in clients[:8]:  # more than there are threads
        client.send(b"\x01", b"\xb2server_module_call", b"\x82\xa6method\xaafake.sleep\xa7payload\xc4\x04" + b"1000")
    bystander = raw(one)
    began = time.monotonic()
    count = 0
    while time.monotonic() - began < 0.6:
        assert bystander.call("noop") == "OK"
        assert bystander.call("query_prefetch_status", "nobody") == 0
        assert envelope(bystander, "fake.missing")["error"] == "unknown server module method: fake.missing"
        count += 1
    assert count > 50  # none of them waited for a sleeper
    for client in clients[:8]:
        assert client.receive()[0] == b"\x01"


def test_a_call_may_be_completed_later_and_lent_bytes_come_back_once(server, raw, trace):
    one = server(*flags(spec(probe(), trace=str(trace.path))))
    client = raw(one)
    assert answer(client, "probe.later") == "later"
    assert [answer(client, "probe.lend") for _ in range(3)] == ["lent"] * 3
    poll_until(lambda: trace.of("given_back") == ["Probe"] * 3, "lent bytes given back")
    connection, operation = answer(client, "probe.connection").split()
    assert operation == "server_module_call" and int(connection) > 0
    assert answer(raw(one), "probe.connection").split()[0] != connection


def test_a_second_completion_is_reported_and_changes_nothing(server, raw):
    one = server(*flags(spec(probe())))
    client = raw(one)
    one.allow("a handler of 'server_module_call' completed a call that has ended already; ignored")
    for _ in range(20):
        assert answer(client, "probe.twice") == "once"
        assert answer(client, "probe.echo", b"x") == "echo:x"
    one.wait_log("completed a call that has ended already")
    assert client.receive(0.1) is None


def test_a_call_that_is_never_completed_shows_and_ends_with_the_server(server, raw):
    one = server(*flags(spec(probe())))
    client = raw(one)
    client.send(b"\x07", b"\xb2server_module_call", b"\x82\xa6method\xabprobe.never\xa7payload\xc4\x00")
    assert answer(client, "probe.echo", b"x") == "echo:x"
    assert one.status()["server_modules"]["Probe"]["in_flight"] == 1
    assert 'lmcached_server_module_calls_in_flight{module="Probe"} 1\n' in one.get("/metrics").text
    one.process.send_signal(signal.SIGTERM)
    reply = client.receive()
    assert reply[0] == b"\x07" and b"success\xc2" in reply[2]
    assert one.process.wait(timeout=40) == 0


def test_a_handler_that_runs_long_is_named_and_left_alone(server, raw):
    one = server(*flags(spec(probe())))
    client = raw(one)
    one.allow("Probe: the handler of 'probe.sleep' has been running for")
    assert answer(client, "probe.sleep", b"3300") == "slept"
    found = re.findall(r"Probe: the handler of 'probe.sleep' has been running for (\d)\.\d s \(pool outside\)", one.log())
    assert 1 <= len(found) <= 2  # at one second, and when that had doubled
    row = one.status()["server_modules"]["Probe"]
    assert row["slow_calls"] == 1 and row["seconds"]["max"] > 3


def test_a_handler_that_still_sleeps_when_the_server_stops_is_waited_for(server, raw):
    one = server("--max-cpu-workers", "4", *flags(spec(probe())))
    client = raw(one)
    client.send(b"\x07", b"\xb2server_module_call", b"\x82\xa6method\xabprobe.sleep\xa7payload\xc4\x042500")
    assert answer(client, "probe.echo", b"x") == "echo:x"
    one.allow("Probe: the handler of 'probe.sleep' has been running for")
    assert one.stop() == 0


# ---- registrars ----


def test_26_the_registrar_runs_once_before_serving_and_its_sidecar_answers(server, trace):
    sidecar = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    every_hook = build(SOURCES.parents[1] / "examples" / "native_module" / "every_hook.c", "-lzmq")
    one = server(*flags(spec(probe(), trace=str(trace.path)), spec(every_hook, sidecar=sidecar)))
    assert trace.of("register") == ["Probe"]
    log = one.log()
    assert log.index(f"sidecar on {sidecar}") < log.index("Serving requests on")
    with zmq.Context() as context, context.socket(zmq.REQ) as socket_:
        socket_.connect(sidecar)
        socket_.send(b"are you there?")
        assert socket_.poll(10000) and socket_.recv() == b"are you there?"
        socket_.close(0)
    assert one.stop() == 0
    with socket.socket() as probe_socket:
        host, port = sidecar[6:].split(":")
        assert probe_socket.connect_ex((host, int(port))) != 0


def test_27_a_handler_without_a_pool_does_not_start_and_with_one_it_serves(server, tmp_path, raw, trace):
    path = probe("OverModule")
    assert error_of(failed_start(tmp_path, spec(path, registrar="no_pool"))) == (
        "BlockingRequestHandler for clear has no thread pool assigned. Call add_normal_thread_pool or "
        "add_affinity_thread_pool before start()."
    )
    for kind in ("pool", "affinity_pool"):
        one = server(*flags(spec(path, registrar=kind, trace=str(trace.path))))
        client = raw(one)
        assert [client.call("clear") for _ in range(4)] == ["void"] * 4
        assert one.status()["over"]["calls"] == 4
        assert 'pool="own-0"' in one.get("/metrics").text


def test_27_a_sync_handler_and_one_that_is_not_there_get_no_pool(tmp_path):
    path = probe("OverModule")
    assert error_of(failed_start(tmp_path, spec(path, registrar="sync_pool"))) == (
        "OverModule: Handler for noop is SyncRequestHandler, not BlockingRequestHandler. Only blocking handlers "
        "can use thread pools."
    )
    assert error_of(failed_start(tmp_path, spec(path, registrar="unhandled"))) == (
        "OverModule: No handler registered for operation: store_q. Register handlers before calling "
        "add_normal_thread_pool."
    )


def test_28_a_handler_that_cannot_be_called_does_not_start(tmp_path):
    log = failed_start(tmp_path, spec(probe("OverModule"), registrar="null"))
    assert error_of(log) == "OverModule: a handler needs an operation and a function"
    assert "BrokenModule has no handler for server module method broken.answer" in failed_start(
        tmp_path, spec(broken("NULL_HANDLER"))
    )


# ---- a module at its worst ----


def test_calls_of_many_kinds_at_once_are_all_answered(server, raw):
    one = server(*flags(spec(probe()), spec(probe("OverModule", override="noop"), override="after")))
    one.allow("server module method probe.(fail|strange|silent) failed", "completed a call that has ended already")
    methods = ["echo", "fail", "silent", "strange", "later", "twice", "lend", "thread", "cache", "log"]
    failures = []

    def work(seed):
        with RawClient(one.url) as client:
            for i in range(60):
                method = methods[(seed + i) % len(methods)]
                reply = envelope(client, f"probe.{method}", b"1")
                if reply["success"] != (method not in ("fail", "silent", "strange")):
                    failures.append((method, reply))
                if client.call("noop") != "OK":
                    failures.append("noop")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    poll_until(lambda: one.status()["server_modules"]["Probe"]["in_flight"] == 0, "no call in flight")
