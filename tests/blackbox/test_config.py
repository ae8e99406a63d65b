"""GET /config and --check-config."""

import json
import pathlib
import time

from house import chunk_payload, end, run_cli
from plugin_house import PluginFolder

GOLDEN = json.loads((pathlib.Path(__file__).parent / "config_default.json").read_text())
SIZE = ["--l1-size-gb", "1", "--eviction-policy", "LRU"]

# Ours, rendered after the known fields of their section (D11).
OURS = {
    "shm_mode", "session_lease_seconds", "disconnect_lease_seconds", "runtime_plugin_stop_grace_seconds",
    "runtime_plugin_secrets", "enable_plugin_control", "python_interpreter", "grpc_port", "grpc_tls_cert_file", "grpc_tls_key_file", "grpc_tls_client_ca_file",
    "no_http", "http_token_file",
}  # fmt: skip


def without_ours(value):
    if isinstance(value, dict):
        return {k: without_ours(v) for k, v in value.items() if k not in OURS}
    return [without_ours(v) for v in value] if isinstance(value, list) else value


def expected(size_gb=10):
    text = json.dumps(GOLDEN).replace(str(10 << 30), str(size_gb << 30))
    return json.loads(text)


def test_the_default_configuration_is_the_documented_one(server):
    one = server("--l1-size-gb", "1", "--eviction-policy", "LRU", bare=True)
    reply = one.get("/config")
    assert reply.headers["content-type"] == "application/json"
    shown = without_ours(reply.json)
    wanted = expected(1)
    assert len(shown["mp"]["instance_id"]) == 36
    assert shown["observability"]["service_instance_id"] == shown["mp"]["instance_id"]
    wanted["mp"]["instance_id"] = wanted["observability"]["service_instance_id"] = shown["mp"]["instance_id"]
    # The fixture's own addresses.
    wanted["mp"].update(host="127.0.0.1", port=one.port)
    wanted["http"].update(http_host="127.0.0.1", http_port=one.http_port)
    assert shown == wanted
    assert list(reply.json) == ["mp", "storage_manager", "observability", "http", "coordinator"]
    for section in ("mp", "storage_manager", "observability", "http", "coordinator"):
        assert [k for k in reply.json[section] if k not in OURS] == list(wanted[section]), section
    assert reply.text == json.dumps(reply.json, indent=2, ensure_ascii=False)


def test_what_is_given_is_shown(server):
    one = server(
        "--instance-id", "böx", "--max-workers", "3", "--max-cpu-workers", "2", "--null-block-id", "-1",
        "--l1-align-bytes", "8192", "--l1-read-ttl-seconds", "17", "--eviction-trigger-watermark", "0.5",
        "--worker-reap-timeout-seconds", "60", "--metrics-sample-rate", "0.25", "--chunk-size", "16",
        "--runtime-plugin-config", '{"a": {"b": [1, 2.5, null]}, "db_password": "hush"}',
    )  # fmt: skip
    config = one.get("/config").json
    assert "böx" in one.get("/config").text
    assert config["mp"]["instance_id"] == "böx"
    assert (config["mp"]["max_workers"], config["mp"]["max_gpu_workers"], config["mp"]["max_cpu_workers"]) == (3, 3, 2)
    assert config["mp"]["null_block_id"] == -1
    assert config["mp"]["worker_reap_timeout_seconds"] == 60.0
    assert config["mp"]["runtime_plugin_config"]["extra_config"] == {"a": {"b": [1, 2.5, None]}, "db_password": "***"}
    l1 = config["storage_manager"]["l1_manager_config"]
    assert l1["memory_config"]["align_bytes"] == 8192 and l1["read_ttl_seconds"] == 17
    assert l1["eviction"]["trigger_watermark"] == 0.5
    assert l1 == config["storage_manager"]["l1_manager_configs"][0]
    assert config["observability"]["metrics_sample_rate"] == 0.25
    assert "hush" not in one.log()


def test_the_pool_name_appears_in_both_places(server):
    config = server("--shm-name", "house_config").get("/config").json
    assert config["mp"]["shm_name"] == "house_config"
    assert config["storage_manager"]["l1_manager_config"]["memory_config"]["shm_name"] == "house_config"
    assert config["storage_manager"]["l1_manager_config"]["memory_config"]["use_lazy"] is True


def test_check_config_prints_it_and_starts_nothing():
    done = run_cli("server", *SIZE, "--check-config", "--chunk-size", "512")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["mp"]["chunk_size"] == 512
    assert "Starting LMCache HTTP server" not in done.stderr
    refused = run_cli("server", "--check-config", "--eviction-policy", "LRU")
    assert refused.returncode == 1
    assert "Legacy L1 configuration requires --l1-size-gb and --eviction-policy" in refused.stderr
    for name, text in (("a/b", "'a/b' must not contain '/'"), ("x" * 300, "longer than ")):
        refused = run_cli("server", *SIZE, "--check-config", "--shm-name", name)
        assert refused.returncode == 1 and f"ERROR: --shm-name: {text}" in refused.stderr and not refused.stdout
    refused = run_cli("server", *SIZE, "--check-config", "--port", "8080")
    assert refused.returncode == 1 and "--port and --http-port are both 8080" in refused.stderr
    warned = run_cli("server", *SIZE, "--check-config", "--no-http", "--http-port", "8081")
    assert warned.returncode == 0 and "LMCache WARNING: --http-port has no effect beside --no-http" in warned.stderr


def test_one_l1_manager_is_a_configuration_too(server):
    spec = '{"type":"DRAM","tag":"_default","size_gb":0.125,"eviction":{"eviction_policy":"LRU"}}'
    one = server("--l1-manager", spec, "--chunk-size", "4", bare=True)
    config = one.get("/config").json
    assert config["storage_manager"]["l1_manager_configs"][0]["memory_config"]["size_in_bytes"] == 1 << 27
    assert one.l1()["memory_total_bytes"] == 1 << 27


def test_times_beyond_all_measure_are_long_and_not_over_at_once(server, tmp_path):
    folder = PluginFolder(tmp_path / "plugins")
    folder.shell("slow.sh", "trap 'sleep 0.5; echo ended in order; exit 0' TERM\necho up\nsleep 1000 & wait\n")
    most = str(2**63 - 1)
    one = server(
        "--l1-read-ttl-seconds", most, "--l1-write-ttl-seconds", most, "--session-lease-seconds", "1e300",
        "--disconnect-lease-seconds", "1e300", "--worker-registration-grace-seconds", "1e300",
        "--runtime-plugin-stop-grace-seconds", most, "--runtime-plugin-locations", str(folder),
        shm=True,
    )  # fmt: skip
    one.wait_log(r"\[slow.sh\] up")
    worker, tokens = one.worker(), list(range(1, 41))
    assert worker.store(worker.key(tokens, "store"), [chunk_payload(n, worker.chunk_bytes) for n in range(10)])
    assert worker.client.lookup_chunks(worker.key(tokens, "look").for_worker(None)) == 10
    assert worker.client.prepare_store(worker.key(tokens[::-1], "write"), worker.instance_id).result(30).slots
    time.sleep(1.5)  # whoever clears up what is over has been here
    l1 = one.l1()
    assert l1["read_locked_count"] == 10 and l1["staging_object_count"] == 10
    assert worker.client.commit_store(worker.key(tokens[::-1], "write"), worker.instance_id).result(30) is True
    worker.client.free_lookup_locks(worker.key(tokens, "look").for_worker(None)).result(30)
    end(worker.client, "store", "look", "write")
    worker.unregister()
    one.judge()
    assert "[slow.sh] ended in order" in one.log()
