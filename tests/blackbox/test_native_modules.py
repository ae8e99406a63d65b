"""Native server modules. Numbers in names are those of the conformance statements."""

import json
import os
import re
import signal
import socket
import threading
import time

import pytest
import zmq

from house import BINARY, RawClient, free_ports, key_map, poll_until, run_cli
from modules import (
    SOURCES, Trace, answer, broken, build, envelope, error_of, failed_start, flags, probe, spec,
)  # fmt: skip

BASE = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]

SOAK = bool(os.environ.get("LMC_SOAK"))


@pytest.fixture
def trace(tmp_path):
    return Trace(tmp_path)


def composed(server):
    return re.search(r"Composed (\d+) server modules: (.*) \(composition", server.log())


# ---- command line and discovery ----


def test_01_two_flags_give_three_specs_in_order(server, trace):
    a, b, c = (probe(name) for name in ("AModule", "BModule", "CModule"))
    one = server(
        *flags(spec(a, trace=str(trace.path))),
        "--server-module", json.dumps([spec(b, trace=str(trace.path)), spec(c, trace=str(trace.path))]),
    )  # fmt: skip
    assert trace.of("create") == ["AModule", "BModule", "CModule"]
    shown = one.get("/config").json["mp"]["server_modules"]
    assert [m["module_path"] for m in shown] == [a, b, c]


@pytest.mark.parametrize(
    "value, text",
    [
        ("{", "--server-module must be valid JSON: "),
        ("", "--server-module must be valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('"x"', "--server-module entries must be JSON objects"),
        ("3", "--server-module entries must be JSON objects"),
        ("[[]]", "--server-module entries must be JSON objects"),
        ("{}", "server module module_path must be a non-empty string"),
        ('{"module_path": ""}', "server module module_path must be a non-empty string"),
        ('{"module_path": "./a.so", "config": null}', "server module config must be a JSON object"),
        ('{"module_path": "./a.so", "config": []}', "server module config must be a JSON object"),
        ('{"module_path": "./a.so", "factory_name": 3}', "server module factory_name must be a non-empty string"),
    ],
)
def test_02_a_bad_spec_is_refused_before_any_socket_is_bound(value, text):
    port, http_port = free_ports(2)
    with socket.socket() as taken:  # binding would fail with another text
        taken.bind(("127.0.0.1", http_port))
        done = run_cli("server", *BASE, "--port", str(port), "--http-port", str(http_port), "--server-module", value)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Starting" not in done.stderr


def test_03_an_empty_list_and_unknown_members_are_accepted(server):
    path = probe()
    one = server("--server-module", "[]", "--server-module", json.dumps({"module_path": path, "colour": "red"}))
    assert "Probe(dependencies=[])" in composed(one).group(2)


def test_04_a_module_that_is_not_named_is_not_loaded(server):
    named, other = probe("NamedModule"), probe("OtherModule")
    assert os.path.dirname(named) == os.path.dirname(other)
    one = server(*flags(spec(named)))
    with open(f"/proc/{one.process.pid}/maps") as maps:
        loaded = maps.read()
    assert named in loaded and other not in loaded
    assert "libpython" not in loaded


def test_a_path_given_twice_is_loaded_once_and_not_with_two_configurations(server, tmp_path):
    path = probe()
    one = server(*flags(spec(path, class_name="a"), spec(path, class_name="a")))
    one.allow(f"server module {re.escape(path)} is named twice; loaded once")
    one.wait_log("is named twice")
    assert composed(one).group(2).count("Probe(") == 1
    log = failed_start(tmp_path, spec(path), spec(path, trace="/tmp/x"))
    assert error_of(log) == f"duplicate server module path with different config: {path}"


def test_a_path_without_a_slash_is_of_the_working_directory(tmp_path):
    path = probe()
    done = run_cli("check-module", os.path.basename(path))
    assert done.returncode == 1 and "cannot open shared object file" in done.stdout
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        done = run_cli("check-module", os.path.basename(path), program=os.path.join(here, BINARY))
    finally:
        os.chdir(here)
    assert done.returncode == 0, done.stdout


# ---- graph, construction, close ----


def test_09_a_missing_dependency_and_a_cycle_fail_before_any_create(tmp_path, trace):
    lonely = probe("LonelyModule", depends=["NobodyModule"])
    log = failed_start(tmp_path, spec(lonely, trace=str(trace.path)))
    assert error_of(log).startswith("LonelyModule depends on 'NobodyModule', which is not a discoverable module")
    chicken = probe("ChickenModule", depends=["EggModule"])
    egg = probe("EggModule", depends=["ChickenModule", "LookupModule"])
    log = failed_start(tmp_path, spec(chicken, trace=str(trace.path)), spec(egg, trace=str(trace.path)))
    assert error_of(log) == "Module dependency cycle among: ChickenModule, EggModule"
    narcissus = probe("NarcissusModule", depends=["NarcissusModule"])
    log = failed_start(tmp_path, spec(narcissus, trace=str(trace.path)))
    assert error_of(log) == "Module dependency cycle among: NarcissusModule"
    assert trace.lines() == []


def test_10_construction_follows_dependencies_not_the_command_line(server, trace):
    first = probe("AlphaModule", depends=["LookupModule"])
    second = probe("BetaModule", depends=["AlphaModule"])
    one = server(*flags(spec(second, trace=str(trace.path)), spec(first, trace=str(trace.path))))
    assert trace.of("create") == ["AlphaModule", "BetaModule"]
    order = re.findall(r"(\w+)\(dependencies", composed(one).group(2))
    assert order.index("LookupModule") < order.index("AlphaModule") < order.index("BetaModule")
    assert order[-1] == "ManagementModule"


def test_11_a_class_that_declines_is_absent_and_its_dependents_are_still_built(server, trace, raw, tmp_path):
    shy = probe("ShyModule")
    friend = probe("FriendModule", depends=["ShyModule"])
    one = server(
        *flags(spec(shy, trace=str(trace.path), create="decline"), spec(friend, trace=str(trace.path)))
    )
    assert trace.of("create") == ["ShyModule", "FriendModule"]
    assert "ShyModule(" not in composed(one).group(2)
    status = one.status()
    assert "shy" not in status and "ShyModule" not in status["server_modules"]
    assert not any(m.startswith("shy.") for m in status["server_module_plugins"]["methods"])
    assert envelope(raw(one), "shy.echo")["error"] == "unknown server module method: shy.echo"
    wanting = spec(friend, create="require", **{"class": "ShyModule"})
    log = failed_start(tmp_path, spec(shy, create="decline"), wanting)
    assert error_of(log).startswith(
        "FriendModule: Module 'ShyModule' is not built yet; built so far: ['EngineDrivenTransferModule', "
    )


def test_12_the_log_line_names_each_module_and_its_dependencies(server):
    a, b = probe("AModule", depends=["LookupModule"]), probe("BModule", depends=["AModule", "P2PController"])
    one = server(*flags(spec(a), spec(b)))
    count, text = composed(one).groups()
    assert "AModule(dependencies=[LookupModule])" in text
    assert "BModule(dependencies=[AModule, P2PController])" in text
    assert text.count("(dependencies=") == int(count)


def test_13_close_is_the_exact_reverse_once_each_after_the_reaper(server, trace):
    a = probe("AModule", live=True)
    b = probe("BModule", depends=["AModule"], live=True)
    one = server(*flags(spec(b, trace=str(trace.path)), spec(a, trace=str(trace.path))))
    assert one.stop(signal.SIGTERM) == 0
    assert trace.of("create") == ["AModule", "BModule"]
    assert trace.of("close") == ["BModule", "AModule"]
    lines = trace.lines()
    first_close = next(i for i, line in enumerate(lines) if line.startswith("close"))
    assert not any(line.startswith(("reap", "drop", "touch")) for line in lines[first_close:])


def test_13_a_failed_start_closes_what_was_built_in_reverse(tmp_path, trace):
    a, b = probe("AModule"), probe("BModule", depends=["AModule"])
    sad = probe("SadModule", depends=["BModule"])
    specs = [spec(path, trace=str(trace.path)) for path in (a, b)]
    log = failed_start(tmp_path, *specs, spec(sad, trace=str(trace.path), create="fail"))
    assert error_of(log) == "SadModule: it was told to fail with 42"
    assert trace.of("create") == ["AModule", "BModule", "SadModule"]
    assert trace.of("close") == ["BModule", "AModule"]
    log = failed_start(tmp_path, *specs, spec(sad, create="silent"))
    assert error_of(log) == "SadModule: create: no memory"
    log = failed_start(tmp_path, *specs, spec(probe("LateModule"), trace=str(trace.path), registrar="fail"))
    assert "LateModule: it was told not to register" in log
    assert trace.of("close")[-1] == "AModule"


def test_14_a_close_that_hangs_is_named_and_does_not_prevent_the_others(server, trace):
    a, stuck, c = probe("AModule"), probe("StuckModule"), probe("CModule")
    one = server(
        *flags(
            spec(a, trace=str(trace.path)), spec(stuck, trace=str(trace.path), close="hang"),
            spec(c, trace=str(trace.path)),
        )
    )  # fmt: skip
    one.allow("closing StuckModule takes longer than 10.0 s; abandoned")
    assert one.stop() == 0
    assert trace.of("close") == ["CModule", "StuckModule", "AModule"]
    assert "closing StuckModule takes longer than 10.0 s; abandoned" in one.log()


def test_14_a_close_that_hangs_in_a_failed_start_does_not_make_it_succeed(tmp_path):
    log = failed_start(
        tmp_path, spec(probe("StuckModule"), close="hang"), spec(probe("SadModule"), create="fail")
    )
    assert "closing StuckModule takes longer than 10.0 s; abandoned" in log


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


# ---- liveness ----


def test_30_four_functions_make_a_target_and_three_do_not_start(server, trace, raw, tmp_path):
    one = server(*flags(spec(probe("LiveModule", live=True), trace=str(trace.path), reap=9)))
    assert one.status()["worker_liveness"]["tracked_instances"] == 1
    log = failed_start(tmp_path, spec(broken("LIVENESS_HOLE")))
    assert error_of(log).endswith("BrokenModule has an incomplete liveness table")


def test_31_a_ping_touches_every_target_and_one_that_hangs_loses_no_reply(server, trace, raw):
    stuck = probe("StuckModule", live=True)
    others = [probe(name, live=True) for name in ("AModule", "BModule")]
    specs = [spec(stuck, trace=str(trace.path), touch="hang")]
    specs += [spec(path, trace=str(trace.path)) for path in others]
    one = server(*flags(*specs))
    client = raw(one)
    assert client.call("ping", None) is True
    for _ in range(3):
        assert client.call("ping", 5) is True
    expected = {"StuckModule": 1, "AModule": 3, "BModule": 3}
    poll_until(lambda: {n: trace.of("touch:5").count(n) for n in expected} == expected, "touches")
    assert not any(line.startswith("touch:") and not line.startswith("touch:5 ") for line in trace.lines())
    one.allow(r"StuckModule did not return from a call about a lost instance; abandoned",
              r"\w+ has not returned from a call; it is not closed")  # fmt: skip
    assert one.stop() == 0


def test_32_reaped_ids_are_dropped_on_every_target_one_that_hangs_included(server, trace):
    finder = probe("FinderModule", live=True)
    stuck = probe("StuckModule", live=True)
    other = probe("OtherModule", live=True)
    one = server(
        "--worker-reap-timeout-seconds", "30", "--worker-registration-grace-seconds", "60",
        *flags(
            spec(finder, trace=str(trace.path), reap=77), spec(stuck, trace=str(trace.path), drop="hang"),
            spec(other, trace=str(trace.path)),
        ),
    )  # fmt: skip
    began = time.monotonic()
    poll_until(lambda: len(trace.of("drop:77")) >= 3, "drops", 30)
    assert 7 < time.monotonic() - began < 20  # a quarter of the timeout
    assert sorted(trace.of("reap:30:60")) == ["FinderModule", "OtherModule", "StuckModule"]
    assert sorted(trace.of("drop:77")) == ["FinderModule", "OtherModule", "StuckModule"]
    poll_until(lambda: trace.of("drop:77").count("OtherModule") >= 2, "the next scan reaches the others", 30)
    assert trace.of("drop:77").count("StuckModule") == 1
    one.allow(r"StuckModule did not return from a call about a lost instance; abandoned",
              r"\w+ has not returned from a call; it is not closed")  # fmt: skip
    assert one.stop() == 0


@pytest.mark.skipif(not SOAK, reason="takes more than a minute: LMC_SOAK=1")
def test_32_a_drop_that_sleeps_sixty_seconds_delays_nobody_else(server, raw, trace):
    """Neither the other modules nor the other dead instances, calls, pings or the status."""
    finder, slow, other = (probe(name, live=True) for name in ("FinderModule", "SlowModule", "OtherModule"))
    one = server(
        "--worker-reap-timeout-seconds", "30", "--worker-registration-grace-seconds", "60",
        *flags(
            spec(finder, trace=str(trace.path), reap=77), spec(slow, trace=str(trace.path), drop="sleep 60"),
            spec(other, trace=str(trace.path)),
        ),
    )  # fmt: skip
    client = raw(one)
    dying = [one.worker(instance_id=1000 + n) for n in range(3)]
    for worker in dying:
        client.call("ping", worker.instance_id)
        worker.client.close()
    poll_until(lambda: trace.of("drop:77").count("SlowModule") == 1, "the call that sleeps", 30)
    began = time.monotonic()
    gone = {f"drop:{worker.instance_id}" for worker in dying}
    one.allow("has been silent for too long; its registration is dropped")
    while time.monotonic() - began < 55:
        start = time.monotonic()
        assert client.call("noop") == "OK" and client.call("ping", 5) is True
        assert one.get("/status").status == 200
        assert time.monotonic() - start < 5
        time.sleep(0.5)
    scans = trace.of("drop:77").count("OtherModule")
    assert scans >= 6 and trace.of("drop:77").count("SlowModule") == 1
    poll_until(lambda: all("OtherModule" in trace.of(what) for what in gone), "the others' deaths", 60)
    poll_until(lambda: trace.of("drop:77").count("SlowModule") >= 2, "its next call, once it is back", 60)
    assert time.monotonic() - began >= 59
    one.allow(r"SlowModule did not return from a call about a lost instance; abandoned",
              r"\w+ has not returned from a call; it is not closed")  # fmt: skip
    assert one.stop() == 0


def test_32_nothing_is_reaped_with_a_timeout_of_zero(server, trace):
    one = server(
        "--worker-reap-timeout-seconds", "0", *flags(spec(probe("LiveModule", live=True), trace=str(trace.path)))
    )
    assert one.status()["worker_liveness"]["enabled"] is False
    names = [open(f"/proc/{one.process.pid}/task/{t}/comm").read() for t in os.listdir(f"/proc/{one.process.pid}/task")]
    assert not any("reap" in name for name in names)


# ---- status ----


def test_33_status_is_merged_and_a_module_that_fails_is_named(server, trace):
    a, b = probe("AModule"), probe("BModule", depends=["AModule"])
    sad, junk, unfinished = probe("SadModule"), probe("JunkModule"), probe("OpenModule")
    one = server(
        *flags(
            spec(b, status="key"), spec(a, status="key"), spec(sad, status="fail"), spec(junk, status="junk"),
            spec(unfinished, status="open"), spec(probe("FineModule")),
        )
    )  # fmt: skip
    status = one.status()
    assert status["shared_key"] == "BModule"  # built later
    assert set(status["status_errors"]) == {"SadModule", "JunkModule", "OpenModule"}
    assert status["status_errors"]["SadModule"] == "it was told to fail"
    assert "lost" not in status and "junk" not in status and "open" not in status
    assert status["fine"]["raw"] == [1, {"x": None}]
    assert status["is_healthy"] is True and status["engine_type"] == "MPCacheServer"


def test_33_a_module_that_is_slow_to_report_is_waited_for_once(server):
    one = server(*flags(spec(probe("StuckModule"), status="hang"), spec(probe("FineModule"))))
    one.status()
    began = time.monotonic()
    status = one.status()
    assert time.monotonic() - began < 0.9
    assert "has not returned" in status["status_errors"]["StuckModule"] and "fine" in status
    one.allow("StuckModule has not returned from a call; it is not closed")
    assert one.stop() == 0


def test_33_a_module_can_only_lower_the_health(server):
    one = server(*flags(spec(probe("SickModule"), status="sick")))
    assert one.status()["is_healthy"] is False
    ready = one.get("/readiness")
    assert ready.status == 503 and "module SickModule reports that it is not healthy" in ready.text


def test_34_methods_are_listed_in_order(server):
    one = server(*flags(spec(probe("ZModule")), spec(probe("AModule"))))
    methods = one.status()["server_module_plugins"]["methods"]
    assert methods == sorted(methods) and methods[0] == "a.cache" and methods[-1] == "z.twice"


# ---- what modules may use ----


def test_a_module_sees_the_cache(server, raw):
    one = server(*flags(spec(probe())), shm=True)
    client = raw(one)
    text = answer(client, "probe.cache")
    assert "chunks=2 chained=1 there=0 present=0 opened=-5 bytes=0" in text
    assert "layout=-5" in text and "chunk_size=4 abi=0 config=1" in text
    worker = one.worker()
    tokens = list(range(1, 9))
    assert worker.store(worker.key(tokens, "session"), [bytes([7]) * worker.chunk_bytes] * 2)
    text = answer(client, "probe.cache")
    assert f"there=0 present=1 opened=0 bytes={worker.chunk_bytes} first=7 used=0 resident=2" in text
    assert f"layout=0 dims=4 dtype=float16 layout_bytes={worker.chunk_bytes} sessions=1" in text
    assert "known=2 same=1" in text
    assert answer(client, "probe.clear") == "cleared"
    assert "present=0 opened=-5" in answer(client, "probe.cache")
    worker.client.end_session("session").result(10)
    worker.unregister()
    worker.client.close()


def test_objects_left_open_are_closed_with_the_module(server, raw):
    one = server(*flags(spec(probe(), leave_object=True)), shm=True)
    worker = one.worker()
    assert worker.store(worker.key(list(range(1, 9)), "session"), [bytes([7]) * worker.chunk_bytes] * 2)
    assert "opened=0" in answer(raw(one), "probe.cache")
    assert one.l1()["read_locked_count"] == 1
    worker.client.end_session("session").result(10)
    worker.unregister()
    one.allow("Probe was closed with 1 objects open")
    assert one.stop() == 0
    assert "Probe was closed with 1 objects open" in one.log()


def test_a_module_has_a_logger_and_metrics_of_its_own(server, raw):
    one = server(*flags(spec(probe("LoudModule"), subscribe="probe.said")))
    client = raw(one)
    assert answer(client, "loud.log") == "logged"
    one.wait_log(r"LMCache INFO: a line from LoudModule \(probe.c:\d+:lmcache.module.LoudModule\)")
    assert answer(client, "loud.publish") == "published"
    poll_until(lambda: one.status()["loud"]["events"] == 1, "the event")
    metrics = one.get("/metrics").text
    assert 'lmcached_module_loud_module_events_total{event="probe.said"} 1\n' in metrics
    assert "# TYPE lmcached_module_loud_module_events_total counter" in metrics
    assert "lmcached_module_loud_module_built 1\n" in metrics
    one.request("POST", "/loglevel?logger_name=lmcache.module.LoudModule&level=ERROR")
    one.get("/loglevel?logger_name=lmcache.module.LoudModule&level=ERROR")
    assert answer(client, "loud.log") == "logged"
    assert one.log().count("a line from LoudModule") == 1


def test_an_event_without_a_subscriber_is_not_made(server, raw):
    one = server(*flags(spec(probe())))
    assert answer(raw(one), "probe.publish") == "nobody listens"


def test_events_of_the_server_reach_a_module(server, raw, trace):
    one = server(*flags(spec(probe(), trace=str(trace.path), subscribe="mp.vllm.block_allocation")))
    assert raw(one).call("report_block_allocation", 5, "m", []) == "void"
    poll_until(lambda: trace.of("event:mp.vllm.block_allocation:-1:m:") == ["Probe"], "the event")


def test_without_observability_there_is_no_bus_and_modules_are_told(server):
    one = server("--disable-observability", *flags(spec(probe(), subscribe="probe.said")))
    assert "Probe(" not in composed(one).group(2)  # it passed on LMC_DECLINED


# ---- what is refused when it is loaded ----


@pytest.mark.parametrize(
    "kind, text",
    [
        ("NO_SYMBOL", "{} is no lmcached module: it has no symbol 'lmcached_module'"),
        ("MAGIC", "{} is no lmcached module: its symbol 'lmcached_module' begins with 0x00000001, needs 0x4d434d4c"),
        ("MAJOR", "{} was built for module ABI 2.3; this server has 1.0 and needs major 1"),
        ("IMAGE_SMALL", "{}: its module data has 24 bytes, needs at least 64"),
        ("IMAGE_NEW", "{}: its module data has flags or members that this server (module ABI 1.0) does not know; "
                      "it was built for 1.3"),
        ("IMAGE_FLAGS", "{}: its module data has flags or members that this server (module ABI 1.0) does not know; "
                        "it was built for 1.3"),
        ("NO_CLASSES", "{} defines no module class"),
        ("NEEDS_FUNCTION", "{} needs the function 'lmc_from_the_future' of module ABI 1.7; this server has 1.0"),
        ("CLASS_SMALL", "{}: the struct of class 1 has 8 bytes, needs at least 40"),
        ("CLASS_NEW", "{}: BrokenModule uses members of lmc_module_class that this server does not know: its struct "
                      "has 104 bytes (module ABI 1.3), the server's 96 (1.0)"),
        ("BAD_NAME", "{}: class 1 has no valid name: 'No Name'"),
        ("CLASS_FLAGS", "{}: BrokenModule has unknown flags 0x40"),
        ("NO_CREATE", "{}: BrokenModule cannot be created: it has no create function"),
        ("TWO_METHODS", "{}: duplicate server module method: broken.answer"),
        ("UNKNOWN_OPERATION", "{}: BrokenModule: unknown operation 'brew_coffee'"),
        ("NON_BLOCKING", "{}: BrokenModule: operation 'noop': Non-blocking handler is not supported yet"),
        ("TWO_OPERATIONS", "{}: BrokenModule has multiple handlers for 'noop'"),
        ("LIVENESS_HOLE", "{}: BrokenModule has an incomplete liveness table"),
        ("RESERVED", "{}: BrokenModule: method broken.answer has members that this server does not know"),
        ("NEW_STRIDE_USED", "{}: BrokenModule: method broken.answer has members that this server does not know"),
        ("BAD_DEPENDENCY", "{}: BrokenModule has an invalid dependency: 'not a name'"),
        ("NULL_HANDLER", "{}: BrokenModule has no handler for server module method broken.answer"),
    ],
)  # fmt: skip
def test_damaged_data_is_refused_with_file_and_versions(tmp_path, kind, text):
    path = broken(kind)
    expected = "server module " + text.format(path)
    assert error_of(failed_start(tmp_path, spec(path))).startswith(expected)
    done = run_cli("check-module", path)
    assert done.returncode == 1
    assert f"violation: {expected}" in done.stdout and "      fix: " in done.stdout


def test_23_a_method_without_a_namespace_is_refused(tmp_path):
    path = broken("BARE_METHOD")
    expected = f"server module {path}: server module handler method must be namespaced (BrokenModule: 'answer')"
    assert error_of(failed_start(tmp_path, spec(path))) == expected
    done = run_cli("check-module", path)
    assert done.returncode == 1
    assert f"violation: {expected}\n      fix: " in done.stdout


def test_a_class_of_a_taken_name_is_refused(tmp_path):
    assert error_of(failed_start(tmp_path, spec(broken("SAME_CLASS")))) == (
        "duplicate server module class: LookupModule"
    )


@pytest.mark.parametrize("kind", ["OPTIONAL_FUNCTION", "CLASS_NEW_UNUSED", "CLASS_OLD", "NEW_STRIDE"])
def test_older_and_newer_modules_that_need_nothing_more_are_loaded(server, raw, kind):
    one = server(*flags(spec(broken(kind))))
    client = raw(one)
    assert answer(client, "broken.answer") == "without"
    if kind == "NEW_STRIDE":
        assert answer(client, "broken.again") == "without"
    if kind == "CLASS_OLD":  # its struct ends before the liveness table
        assert "worker_liveness" in one.status()
        assert client.call("ping", 5) in (True, False)


def test_what_cannot_be_loaded_is_refused_by_name(tmp_path):
    missing = str(tmp_path / "nowhere.so")
    assert error_of(failed_start(tmp_path, spec(missing))) == (
        f"server module {missing} cannot be loaded: {missing}: cannot open shared object file: "
        "No such file or directory"
    )
    text = tmp_path / "text.so"
    text.write_text("this is no shared object, however one looks at it\n" * 40)
    assert "invalid ELF header" in error_of(failed_start(tmp_path, spec(str(text))))


def test_every_violation_is_listed():
    done = run_cli("check-module", broken("MANY"))
    assert done.returncode == 1
    assert done.stdout.count("violation: ") == 4 and done.stdout.count("      fix: ") == 4
    assert done.stdout.endswith("4 violations\n")


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
