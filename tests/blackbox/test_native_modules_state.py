"""Native server modules beside the server: liveness, status, what they may use. Numbers in names are those of the
conformance statements."""

import os
import time

import pytest

from house import poll_until
from modules import answer, broken, composed, error_of, failed_start, flags, probe, spec

SOAK = bool(os.environ.get("LMC_SOAK"))


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
