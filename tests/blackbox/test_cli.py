"""What the command line says and how it exits (cli-config.md 1, 2 and 6)."""

import json
import os
import re

import pytest
from house import BINARY, run_cli

PROGRAM = os.path.basename(BINARY)
SIZE = ["--l1-size-gb", "1", "--eviction-policy", "LRU"]


def test_no_command_is_help_and_exit_1():
    done = run_cli()
    assert done.returncode == 1 and "server" in done.stdout and "ping" in done.stdout


@pytest.mark.parametrize("command", [[], ["server"], ["ping"], ["describe"], ["describe", "kvcache"], ["version"]])
def test_help_is_on_stdout(command):
    for flag in ("--help", "-h"):
        done = run_cli(*command, flag)
        assert done.returncode == 0, done.stderr
        assert "usage:" in done.stdout.lower()


def test_version_is_on_stdout():
    done = run_cli("version")
    assert done.returncode == 0 and done.stdout.strip()


USAGE = {
    "--port x": "argument --port: invalid int value: 'x'",
    "--transport foo": "argument --transport: invalid choice: 'foo' (choose from 'zmq', 'grpc')",
    "--nope": "unrecognized arguments: --nope",
    "--l1-size-gb": "argument --l1-size-gb: expected one argument",
    "--evict LRU": "ambiguous option: --evict could match --eviction-policy,",
    "--config x": "unrecognized arguments: --config x",
    "word": "unrecognized arguments: word",
    "--eviction-policy FIFO": "argument --eviction-policy: invalid choice: 'FIFO'",
}


@pytest.mark.parametrize("arguments", USAGE)
def test_a_wrong_command_line_is_exit_2(arguments):
    done = run_cli("server", *arguments.split())
    assert done.returncode == 2
    assert f"{PROGRAM} server: error: {USAGE[arguments]}" in done.stderr
    assert "usage:" in done.stderr and done.stdout == ""


def test_flags_without_the_word_server_mean_server():
    done = run_cli("--l1-size-gb", "1", "--nope")
    assert done.returncode == 2 and f"{PROGRAM} server: error:" in done.stderr


REJECTED = [
    ([], "Legacy L1 configuration requires --l1-size-gb and --eviction-policy"),
    ([*SIZE, "--l1-manager", '{"type":"DRAM","tag":"_default","size_gb":1}'],
     "Use either --l1-manager or legacy L1 flags"),
    ([*SIZE, "--worker-reap-timeout-seconds", "5"],
     "worker reap timeout must be 0 (disabled) or >= 30s; keep it >= 3 x your configured "
     "lmcache.mp.heartbeat_interval (default 10s); got 5"),
    ([*SIZE, "--worker-registration-grace-seconds", "60"],
     "worker registration grace must be >= the worker reap timeout (120"),
    ([*SIZE, "--runtime-plugin-config", "{"], "--runtime-plugin-config is not valid JSON: "),
    ([*SIZE, "--runtime-plugin-config", "[]"], "--runtime-plugin-config must be a JSON object"),
    ([*SIZE, "--hash-algorithm", "md5"], "unknown hash algorithm 'md5'; known: blake3, sha256_cbor, builtin"),
    ([*SIZE, "--enable", "magic"], "Unknown --enable"),
    ([*SIZE, "--l1-use-hugepages", "--shm-name", "x"],
     'l1-use-hugepages is incompatible with shared memory. Please set --shm-name "" to disable SHM when enabling '
     "hugepages."),
    ([*SIZE, "--enable-tracing"],
     "--enable-tracing requires --otlp-endpoint to be set. Tracing needs an OTLP gRPC endpoint to export spans."),
    ([*SIZE, "--extra-logging-interval", "0"], "--extra-logging-interval must be > 0."),
    ([*SIZE, "--l2-adapter", "{"], "Invalid JSON for --l2-adapter #1: "),
    ([*SIZE, "--l2-adapter", "[1]"], "--l2-adapter #1: expected a JSON object, got list"),
    ([*SIZE, "--server-module", "{}"], "server module module_path must be a non-empty string"),
    ([*SIZE, "--p2p-advertise-url", "h:1"], "P2P requires a coordinator for peer discovery"),
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--server-module", "hello.so"], "takes an object such as '{\"module_path\": \"./hello.so\", "),
        (["--server-module", '["hello.so"]'], "takes an object such as "),
        (["--server-module", '{"path": "x.so"}'], "'path' is no key, they are module_path, config and factory_name"),
        (["--l1-manager", '{"type":"DRAM","tag":"a","size_gb":1}'], "--l1-size-gb was given beside --l1-manager"),
    ],
)
def test_where_the_prescribed_text_names_no_option_a_line_before_it_does(arguments, text):
    done = run_cli("server", *SIZE, *arguments)
    warning, error = (line for line in done.stderr.splitlines() if "LMCache" in line)
    assert text in warning and arguments[0] in warning and "LMCache ERROR" in error


def test_an_l1_manager_that_is_not_usable_is_named_by_number():
    right = '{"type":"DRAM","tag":"a","size_gb":1,"eviction":{"eviction_policy":"LRU"}}'
    done = run_cli("server", "--l1-manager", right, "--l1-manager", '{"type":"DRAM","tag":"","size_gb":1}')
    assert "WARNING: --l1-manager #2 is not usable" in done.stderr and "tag must be a non-empty" in done.stderr


@pytest.mark.parametrize("arguments, text", REJECTED, ids=lambda value: value[:40] if isinstance(value, str) else "-")
def test_a_rejected_configuration_is_logged_and_exit_1(arguments, text):
    done = run_cli("server", *arguments)
    assert done.returncode == 1, done.stderr
    assert text in done.stderr and "LMCache ERROR" in done.stderr
    assert "Starting LMCache HTTP server" not in done.stderr


@pytest.mark.parametrize(
    "arguments, name",
    [
        (["--transport", "grpc"], "--transport"),
        (["--l2-adapter", '{"type":"fs","base_path":"x"}'], "--l2-adapter"),
        (["--engine-type", "blend"], "--engine-type"),
        (["--coordinator-url", "http://c:9300"], "--coordinator-url"),
        (["--trace-level", "storage"], "--trace-level"),
        (["--enable-l1-cache-download"], "--enable-l1-cache-download"),
        (["--hash-algorithm", "sha256_cbor"], "--hash-algorithm"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-",
)
def test_what_is_not_built_yet_is_refused_by_name(arguments, name):
    done = run_cli("server", *SIZE, *arguments)
    assert done.returncode == 1
    complaints = [line for line in done.stderr.splitlines() if "LMCache ERROR" in line]
    assert len(complaints) == 1 and (name in complaints[0] or name.split("-")[-1] in complaints[0])


def test_what_has_no_effect_is_accepted(server):
    one = server("--enable-gc-monitor", "--disable-grpc-metrics", "--prometheus-port", "9", "--isolated-ipc")
    assert one.get("/config").json["observability"]["gc_monitor"]["enabled"] is True


def test_prefixes_repetition_and_equals_signs(server):
    flags = "--l1-size=0.125 --eviction-policy LRU --eviction-policy=noop --chunk-s 8 --chunk-size 16"
    one = server(*flags.split(), bare=True)
    config = one.get("/config").json
    assert config["mp"]["chunk_size"] == 16
    assert config["storage_manager"]["eviction_config"]["eviction_policy"] == "noop"
    assert one.l1()["memory_total_bytes"] == 1 << 27


# ---- client commands ----


def test_ping(server):
    one = server()
    url = f"http://127.0.0.1:{one.http_port}"
    done = run_cli("ping", "kvcache", "--url", url)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == " Ping KV Cache ".center(30, "=") and lines[-1] == "=" * 30
    assert lines[1].startswith("Status:") and lines[1].endswith("OK") and len(lines[1]) == 30
    as_json = json.loads(run_cli("ping", "kvcache", "--url", url, "--format", "json").stdout)
    assert as_json["title"] == "Ping KV Cache" and as_json["metrics"]["status"] == "OK"
    assert run_cli("ping", "kvcache", "--url", url, "-q").stdout == ""
    ready = run_cli("ping", "kvcache", "--url", url, "--ready")
    assert ready.returncode == 0, ready.stderr


def test_ping_of_nobody(server):
    from house import free_ports

    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    done = run_cli("ping", "kvcache", "--url", url)
    assert done.returncode == 1
    assert f"Cannot connect to {url}: " in done.stderr and "FAIL" in done.stdout


def test_the_port_for_requests_is_told_from_the_http_port(server):
    one = server()
    one.allow("zmq")  # a stranger on its port
    for url, text in ((f"http://127.0.0.1:{one.port}", "does not speak HTTP"), (one.url, "http://HOST:PORT")):
        done = run_cli("ping", "kvcache", "--url", url)
        assert done.returncode == 1
        assert f"Cannot connect to {url}: " in done.stderr and text in done.stderr and "--http-port" in done.stderr
        assert "libcurl" not in done.stderr
    done = run_cli("call", f"http://127.0.0.1:{one.http_port}", "a.b", "x")
    assert done.returncode == 1 and "expected is tcp://HOST:PORT" in done.stderr


def test_describe(server):
    one = server("--l1-size-gb", "0.5")
    url = f"127.0.0.1:{one.http_port}"  # the scheme is added
    done = run_cli("describe", "kvcache", "--url", url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == " LMCache KV Cache Service ".center(50, "=")
    for label in ("Health:", "URL:", "Engine type:", "Chunk size:", "L1 capacity (GB):", "L1 used (GB):",
                  "Eviction policy:", "Cached objects:", "Active sessions:"):  # fmt: skip
        assert label in done.stdout
    metrics = json.loads(run_cli("describe", "kvcache", "--url", url, "--format", "json").stdout)["metrics"]
    assert metrics["health"] == "OK" and metrics["chunk_size"] == 4
    assert metrics["l1_capacity_gb"] == 0.5 and metrics["eviction_policy"] == "LRU"


def test_a_model_s_name_does_not_command_the_terminal(server):
    one = server()
    one.allow(".")
    worker = one.worker(model_name="m\x1b[2J\n\x9b")
    url = f"127.0.0.1:{one.http_port}"
    done = run_cli("describe", "kvcache", "--url", url)
    assert r"m\x1b[2J\x0a\xc2\x9b" in done.stdout and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout)
    told = run_cli("describe", "kvcache", "--url", url, "--format", "json").stdout
    assert r"m\u001b[2J\n\u009b" in told  # JSON has its own way
    worker.unregister()


def test_the_other_name_is_the_same_program():
    other = os.path.join(os.path.dirname(BINARY), "lmcache")
    if not os.path.exists(other):
        pytest.skip("only the build folder has both names")
    done = run_cli("server", "--nope", program=other)
    assert done.returncode == 2 and "lmcache server: error: unrecognized arguments: --nope" in done.stderr
