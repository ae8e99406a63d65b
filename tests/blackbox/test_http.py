"""The HTTP API of a running server (http-observability.md)."""

import json
import os
import re
import signal
import socket
from unittest.mock import ANY

import pytest
from house import ROOT, chunk_payload, lookup_key, poll_until, run_cli

TOKENS = list(range(40))


@pytest.fixture
def one(server):
    return server(shm=True)


def test_liveness_and_identity(one):
    assert one.get("/").text == '{"status":"ok","service":"LMCache HTTP API"}'
    assert one.get("/healthcheck").text == '{"status":"healthy"}'
    version = one.get("/lmc_version").json
    commit = one.get("/commit_id").json
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", version)
    assert one.get("/version").json == f"{version}-{commit or 'NA'}"
    assert re.fullmatch(r"[0-9a-f]{8,}", commit) or not (ROOT / ".git").exists()
    told = run_cli("version").stdout.strip()
    assert told == (f"lmcached {version}-{commit}" if commit else f"lmcached {version}")


@pytest.mark.parametrize(
    "older, newer",
    [
        ("/api/healthcheck", "/healthcheck"), ("/conf", "/config"), ("/reconfigure/backends", "/config/adapters"),
        ("/healthcheck/", "/healthcheck"),
    ],
)  # fmt: skip
def test_older_paths_answer_the_same(one, older, newer):
    assert one.get(older).body == one.get(newer).body


def test_conventions(one):
    assert (one.get("/nope").status, one.get("/nope").text) == (404, '{"detail":"Not Found"}')
    wrong = one.request("DELETE", "/status")
    assert (wrong.status, wrong.text) == (405, '{"detail":"Method Not Allowed"}')
    assert "GET" in wrong.headers["allow"]
    head = one.request("HEAD", "/status")
    assert (head.status, head.body) == (200, b"")
    assert one.get("/status").headers["content-type"] == "application/json"
    one.wait_log(r'LMCache INFO: 127\.0\.0\.1:\d+ - "GET /nope HTTP/1\.1" 404')


def test_status_has_every_member(one):
    status = one.status()
    assert status["is_healthy"] is True
    assert status["engine_type"] == "MPCacheServer"
    assert (status["chunk_size"], status["hash_algorithm"]) == (4, "blake3")
    assert status["active_sessions"] == 0 and status["active_prefetch_jobs"] == 0
    assert status["registered_gpu_ids"] == [] and status["cache_context_meta"] == {}
    assert status["registered_non_cuda_instance_ids"] == [] and status["non_cuda_context_meta"] == {}
    assert status["worker_liveness"] == {
        "enabled": True, "reap_timeout_seconds": 120.0, "registration_grace_seconds": 3600.0, "tracked_instances": 0,
    }  # fmt: skip
    assert isinstance(status["boot_id"], str) and status["boot_id"]
    assert status["p2p_enabled"] is False and status["p2p_peers"] == []
    assert "status_errors" not in status
    storage = status["storage_manager"]
    l1 = storage["l1_managers"]["_default"]
    assert l1 == {**storage["l1_manager"], "memory_supplied_bytes": ANY}
    assert l1 == {
        "is_healthy": True, "total_object_count": 0, "write_locked_count": 0, "read_locked_count": 0,
        "temporary_count": 0, "staging_object_count": 0, "staging_bytes": 0, "memory_used_bytes": 0,
        "memory_total_bytes": 1 << 26, "memory_configured_bytes": 1 << 26, "memory_usage_ratio": 0.0,
        "memory_supplied_bytes": ANY,
        "capacity_bytes_by_backend": {"dram": 1 << 26}, "write_ttl_seconds": 600, "read_ttl_seconds": 300,
    }  # fmt: skip
    assert storage["store_controllers"]["_default"] == storage["store_controller"]
    assert storage["store_controller"]["in_flight_task_count"] == 0
    eviction = {"is_healthy": True, "thread_alive": True, "eviction_policy": "LRU", "trigger_watermark": 0.8,
                "eviction_ratio": 0.2}  # fmt: skip
    assert storage["l1_eviction_controllers"]["_default"] == eviction
    assert storage["l1_eviction_controller"] == eviction and storage["eviction_controller"] == eviction
    assert storage["prefetch_controller"]["completed_results_count"] == 0
    assert storage["l2_adapters"] == [] and storage["num_l2_adapters"] == 0
    assert storage["l1_usage"] == [0, 1 << 26]
    assert storage["l1_capacity_bytes_by_backend"] == {"dram": 1 << 26}


def test_how_much_of_l1_has_memory_can_be_watched(one):
    """It is supplied in the background, here to the end, since --l1-init-size-gb is more."""
    poll_until(lambda: one.l1()["memory_supplied_bytes"] == 1 << 26, "every page")
    supplied = 'lmcached_l1_supplied_bytes{l1_tag="_default",backend="dram"}'
    assert f"\n{supplied} {1 << 26}\n" in one.get("/metrics").text


def test_status_follows_what_happens(one):
    worker = one.worker(instance_id=2**62 + 1)
    worker.store(worker.key(TOKENS, "a"), [chunk_payload(n, worker.chunk_bytes) for n in range(10)])
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "b")) == 10
    worker.client.prepare_store(worker.key(list(range(50, 58)), "c"), worker.instance_id).result(10)
    status = one.status()
    l1 = status["storage_manager"]["l1_manager"]
    assert (l1["total_object_count"], l1["read_locked_count"], l1["staging_object_count"]) == (12, 10, 2)
    assert l1["write_locked_count"] == 2 and l1["staging_bytes"] > 0
    assert l1["memory_usage_ratio"] == pytest.approx(l1["memory_used_bytes"] / l1["memory_total_bytes"])
    assert status["storage_manager"]["l1_usage"] == [l1["memory_used_bytes"], l1["memory_total_bytes"]]
    assert status["registered_non_cuda_instance_ids"] == [2**62 + 1]
    assert status["non_cuda_context_meta"] == {
        str(2**62 + 1): {"model_name": "m", "world_size": 1, "block_size": 2, "use_mla": False}
    }
    assert status["worker_liveness"]["tracked_instances"] == 1
    assert status["active_sessions"] >= 1
    for request in ("a", "b", "c"):
        worker.client.end_session(request).result(10)
    worker.unregister()
    poll_until(lambda: one.status()["active_sessions"] == 0, "sessions end")
    assert one.status()["registered_non_cuda_instance_ids"] == []


def test_boot_id_is_new_in_every_life(server):
    assert server().status()["boot_id"] != server().status()["boot_id"]


def test_readiness_is_true_and_quick_while_clients_work(one):
    client = one.client()
    futures = [client.noop() for _ in range(2000)]
    ready = one.get("/readiness")
    assert ready.status == 200, ready.text
    assert isinstance(ready.json, dict)
    assert all(future.result(30) == "OK" for future in futures)


def test_readiness_comes_back_after_a_standstill(one):
    os.kill(one.process.pid, signal.SIGSTOP)
    os.kill(one.process.pid, signal.SIGCONT)
    poll_until(lambda: one.get("/readiness").status == 200, "readiness comes back")


# ---- clear ----


@pytest.mark.parametrize(
    "path, body, left, answer",
    [
        ("/cache/clear", None, 0, {"status": "ok", "cleared": {"tier": "l1"}}),
        ("/cache/clear", {"force": True}, 0, {"status": "ok", "cleared": {"tier": "l1"}}),
        ("/cache/clear", {"force": False}, 10, {"status": "ok", "cleared": {"tier": "l1"}}),
        ("/clear-cache", {"force": False}, 0, {"status": "ok"}),
        ("/api/clear-cache", None, 0, {"status": "ok"}),
    ],
)
def test_clear(one, path, body, left, answer):
    worker = one.worker()
    for tokens in (TOKENS, list(range(100, 120))):
        count = len(tokens) // 4
        worker.store(worker.key(tokens, "a"), [chunk_payload(n, worker.chunk_bytes) for n in range(count)])
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "held")) == 10
    reply = one.request("POST", path, json.dumps(body) if body is not None else None)
    assert reply.status == 200 and {**answer, **reply.json} == reply.json
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "again")) == left
    assert worker.client.lookup_chunks(lookup_key(list(range(100, 120)), "other")) == 0
    one.wait_log("LMCache INFO: Cache cleared via HTTP API")
    for request in ("a", "held", "again", "other"):
        worker.client.end_session(request).result(10)
    worker.unregister()


def test_clear_of_another_tier_is_refused(one):
    refused = one.request("POST", "/cache/clear", '{"tier":"all"}')
    assert (refused.status, refused.json) == (400, {"detail": "tier 'all' not supported; only 'l1'"})
    assert one.request("POST", "/cache/clear", '{"tier":7}').status == 422


# ---- metrics ----

FAMILIES = {
    "counter": """l1_read_chunks l1_write_chunks l1_evicted_chunks l1_eviction_loop_ticks
        l1_eviction_loop_triggered l1_allocation_failure_chunks l1_read_failure_chunks
        l2_store_submitted_requests l2_store_submitted_objects_chunks l2_store_completed_requests
        l2_store_completed_objects_chunks l2_prefetch_lookup_requests l2_prefetch_lookup_objects_chunks
        l2_prefetch_load_submitted_requests l2_prefetch_load_submitted_objects_chunks
        l2_prefetch_load_completed_chunks l2_load_completed_requests l2_evicted_objects_chunks
        l2_prefetch_failure_chunks lookup_requested_tokens lookup_hit_tokens lookup_hit_l1_tokens
        lookup_hit_l2_tokens lookup_hit_l1_keys lookup_hit_l2_keys lookups_requests
        lookup_early_exit_requests num_chunks_loaded num_submitted_stores num_finished_stores
        num_submitted_retrieves num_finished_retrieves timeouts event_bus_dropped_events
        event_bus_subscriber_exceptions""",
    "gauge": """l1_memory_usage_bytes l1_usage_ratio l1_staging_bytes l2_usage_bytes num_inflight_l2_stores
        num_inflight_l2_loads inflight_load_memory_usage_bytes active_prefetch_jobs event_bus_queue_depth
        event_bus_drain_lag_seconds""",
    "histogram": """l1_chunk_lifetime_seconds l1_chunk_idle_before_evict_seconds l1_chunk_reuse_gap_seconds
        l1_chunk_evict_reuse_gap_seconds real_reuse_gap_seconds real_reuse_gap_objects_chunks
        l0_block_lifetime_seconds l0_block_idle_before_evict_seconds l0_block_reuse_gap_seconds
        l0_l1_store_throughput_GB_per_second l0_l1_load_throughput_GB_per_second
        l2_store_throughput_GB_per_second l2_load_throughput_GB_per_second""",
}
SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)$')


def scrape(one):
    reply = one.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    types, samples = {}, {}
    for line in reply.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} twice"
            types[name] = kind
        elif line and not line.startswith("#"):
            found = SAMPLE.match(line)
            assert found, line
            samples[found[1] + (found[2] or "")] = float(found[3])
    return types, samples


def test_every_family_is_there_from_the_first_scrape(one):
    types, samples = scrape(one)
    for kind, names in FAMILIES.items():
        for name in names.split():
            full = f"lmcache_mp_{name}" + ("_total" if kind == "counter" else "")
            assert types.get(full) == kind, full
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"):
        assert samples[name] > 0
    assert samples["process_cpu_seconds_total"] >= 0
    assert any(name.startswith("target_info{") for name in samples)
    assert samples["lmcache_mp_active_prefetch_jobs"] == 0
    assert samples["lmcache_mp_l2_store_submitted_requests_total"] == 0


def total(samples, name, **labels):
    return sum(
        value
        for sample, value in samples.items()
        if sample.split("{")[0] == name and all(f'{k}="{v}"' in sample for k, v in labels.items())
    )


def test_lookups_and_transfers_are_counted(one):
    worker = one.worker()
    worker.store(worker.key(TOKENS, "a"), [chunk_payload(n, worker.chunk_bytes) for n in range(10)])
    assert worker.client.lookup_chunks(lookup_key(TOKENS + [9] * 8, "b")) == 10
    assert len(worker.retrieve(worker.key(TOKENS, "b"))) == 10
    for request in ("a", "b"):
        worker.client.end_session(request).result(10)
    worker.unregister()
    _, samples = scrape(one)
    assert total(samples, "lmcache_mp_lookup_requested_tokens_total", model_name="m", cache_salt="") == 48
    assert total(samples, "lmcache_mp_lookup_hit_tokens_total", model_name="m") == 40
    assert total(samples, "lmcache_mp_lookup_hit_l1_tokens_total", model_name="m") == 40
    assert total(samples, "lmcache_mp_lookups_requests_total", model_name="m") == 1
    assert total(samples, "lmcache_mp_l1_write_chunks_total") == 10
    assert total(samples, "lmcache_mp_l1_read_chunks_total") == 10
    assert total(samples, "lmcache_mp_num_chunks_loaded_total", model_name="m") == 10
    assert total(samples, "lmcache_mp_l1_memory_usage_bytes") > 0
    poll_until(lambda: total(scrape(one)[1], "lmcache_mp_l1_eviction_loop_ticks_total") > 0, "the eviction loop runs")


def test_metrics_can_be_switched_off(server):
    one = server("--disable-metrics")
    types, samples = scrape(one)
    assert not any(name.startswith("lmcache_") for name in types)
    assert samples["process_resident_memory_bytes"] > 0


# ---- diagnostics ----


def test_log_levels_change_while_it_runs(one):
    assert "lmcache: INFO" in one.get("/loglevel").text.splitlines()
    assert one.get("/loglevel?logger_name=lmcache").text == "lmcache: INFO"
    assert one.get("/loglevel?logger_name=lmcache&level=debug").status == 200
    assert one.get("/loglevel?logger_name=lmcache").text == "lmcache: DEBUG"
    assert one.get("/loglevel?logger_name=lmcache&level=LOUD").status == 400
    assert one.get("/loglevel?level=DEBUG").text == "null"


def test_log_level_from_the_environment(server):
    one = server(environment={"LMCACHE_LOG_LEVEL": "warning"})
    assert one.get("/loglevel?logger_name=lmcache").text == "lmcache: WARNING"
    assert "LMCache INFO" not in one.log()
    one.get("/loglevel?logger_name=lmcache&level=INFO")  # so that the stop can be read


def test_access_lines_have_a_logger_of_their_own(server):
    one = server(environment={"LMCACHED_LOG_LEVELS": "lmcache.http.access=WARNING"})
    assert one.get("/metrics").status == 200
    assert "LMCache HTTP server initialized" in one.log() and "GET /" not in one.log()
    one.get("/loglevel?logger_name=lmcache.http.access&level=INFO")
    assert one.get("/metrics").status == 200
    one.wait_log(r'"GET /metrics HTTP/1.1" 200')


def test_the_environment_is_masked(server):
    one = server(environment={"HOUSE_API_KEY": "hush", "HOUSE_PLAIN": "shown"})
    environment = one.get("/env")
    assert environment.headers["content-type"].startswith("text/plain")
    assert environment.json["HOUSE_API_KEY"] == "***" and environment.json["HOUSE_PLAIN"] == "shown"
    assert list(environment.json) == sorted(environment.json)


def test_modules_are_measured_when_they_are_there(one):
    text = one.get("/metrics").text
    counted = re.findall(r'^lmcached_server_module_calls_total\{module="(\w+)"\}', text, re.M)
    assert counted == re.findall(r'^lmcached_server_module_call_seconds_count\{module="(\w+)"\}', text, re.M)
    assert counted == list(one.status()["server_modules"]) != []


def test_the_speed_of_byte_copies_is_measured_both_ways(server):
    one = server()
    worker = one.worker()
    key = worker.key(TOKENS, "copied")
    assert worker.store(key, [chunk_payload(n, worker.chunk_bytes) for n in range(10)])
    for _ in range(3):
        assert worker.retrieve(key)
    assert worker.retrieve(worker.key([*TOKENS[1:], 7], "missed")) is None
    labels = f'{{engine_id="{worker.instance_id}",device="cpu",model_name="m"}}'
    for way, times in (("store", 1), ("load", 3)):
        line = f"lmcache_mp_l0_l1_{way}_throughput_GB_per_second_count{labels} {times}\n"
        poll_until(lambda: line in one.get("/metrics").text, line)
    for name in ("copied", "missed"):
        worker.client.end_session(name).result(30)
    worker.unregister()


def test_threads_and_loops(one):
    threads = one.get("/threads").text
    count = int(re.match(r"Total threads: (\d+)", threads)[1])
    assert count == threads.count("Thread: ") > 3
    loops = one.get("/periodic-threads").json
    assert loops["summary"]["total_count"] == len(loops["threads"]) > 0
    intervals = {loop["name"]: loop["interval"] for loop in loops["threads"]}
    assert intervals.items() >= {"l1-eviction": 1.0, "lmcache-mp-worker-reaper": 30.0}.items()
    for loop in loops["threads"]:
        assert one.get(f"/periodic-threads/{loop['name']}").json["level"] == loop["level"]
    assert one.get("/periodic-threads/nobody").json == {"error": "Thread not found: nobody"}
    assert one.get("/periodic-threads-health").json == {
        "healthy": True, "unhealthy_count": 0, "unhealthy_threads": [],
    }  # fmt: skip


def test_run_script_is_off(one):
    reply = one.request("POST", "/run_script", "x")
    assert reply.status == 404 and "--run-script-api-enabled" in reply.text


# ---- peers that misbehave ----


def test_garbage_and_half_requests_do_no_harm(one):
    for garbage in (b"\x16\x03\x01\x00\xa5\x01", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost", b"\xff" * 5000):
        with socket.create_connection(("127.0.0.1", one.http_port), timeout=10) as stranger:
            stranger.sendall(garbage)
    for _ in range(100):
        socket.create_connection(("127.0.0.1", one.http_port), timeout=10).close()
    assert one.get("/healthcheck").status == 200


def test_a_body_beyond_the_limit_is_refused(one):
    reply = one.request("POST", "/cache/clear", b"x" * ((1 << 20) + 1))
    assert reply.status == 413


def test_idle_connections_do_not_delay_a_stop(one):
    idle = [socket.create_connection(("127.0.0.1", one.http_port), timeout=10) for _ in range(20)]
    one.judge(calm=False)
    for connection in idle:
        connection.close()


@pytest.mark.parametrize("quiet", [(), ("--disable-logging",), ("--disable-observability",)], ids=" ".join)
def test_debug_shows_the_start_and_the_end_of_each_transfer(server, quiet):
    """What operators search the log for (http-observability.md 7)."""
    one = server(*quiet, shm=True, environment={"LMCACHE_LOG_LEVEL": "DEBUG"})
    worker = one.worker()
    key = worker.key(TOKENS, "told")
    assert worker.store(key, [chunk_payload(n, worker.chunk_bytes) for n in range(10)])
    assert worker.retrieve(key)
    worker.client.end_session("told").result(30)
    worker.unregister()
    one.judge()
    for line in ("INFO: Stored 40 tokens in ", "INFO: Retrieved 40 tokens in "):
        assert f"LMCache {line}" in one.log()
    for line in (
        "MP store start: session=told device=cpu", "MP store end: session=told stored_count=10",
        "MP retrieve start: session=told device=cpu", "MP retrieve end: session=told retrieved_count=10",
    ):  # fmt: skip
        assert (f"LMCache DEBUG: {line}" in one.log()) == (not quiet)
