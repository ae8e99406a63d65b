"""The grammar of the server's command line is argparse's (cli-config.md 1.2): random command lines are read by
both, which must agree on the exit status, on the complaint and on what the values are."""

import argparse
import json
import random

import pytest
from house import run_cli

SIZE = ["--l1-size-gb=1", "--eviction-policy=LRU"]
PAIR = argparse.BooleanOptionalAction

# Names by kind, in the order of `server --help`, which is that of the candidates in a complaint.
OPTIONS = """
str --host | int --port | zmq,grpc --transport | int --chunk-size | int --null-block-id | int --max-workers
int --max-gpu-workers | int --max-cpu-workers | int --grpc-server-workers | str --hash-algorithm
default,blend --engine-type | pair --separate-object-groups | true --enable-segmented-prefix
true --enable-dedup-content | lmcache_driven,engine_driven,auto --supported-transfer-mode | pair --isolated-ipc
list --runtime-plugin-locations | str --runtime-plugin-config | str --p2p-advertise-url | str --p2p-listen-url
float --p2p-lookup-timeout | float --p2p-load-timeout | str --p2p-transfer-engine | str --shm-name
list --script-allowed-imports | pair --run-script-api-enabled | str --instance-id
float --worker-reap-timeout-seconds | float --worker-registration-grace-seconds | list --enable
append --server-module | str --p2p-rdma-device | int --p2p-rdma-port | int --p2p-rdma-gid-index
str --p2p-rdma-gid-indices | int --p2p-rdma-queue-depth | int --p2p-rdma-handshake-timeout-ms
float --l1-size-gb | pair --l1-use-lazy | int --l1-init-size-gb | int --l1-align-bytes | pair --l1-use-hugepages
str --l1-devdax-path | int --l1-write-ttl-seconds | int --l1-read-ttl-seconds | str --gds-l1-path
pair --gds-l1-use-direct-io | auto,cufile,hipfile,mufile,ugds,phx --gds-l1-backend | append --l1-manager
LRU,ARC,IsolatedLRU,noop --eviction-policy | float --eviction-trigger-watermark | float --eviction-ratio
append --l2-adapter | default,skip_l1 --l2-store-policy | default,retain --l2-prefetch-policy
int --l2-prefetch-max-in-flight | float --l2-prefetch-load-timeout | int --periodic-notifier-interval-ms
true --disable-observability | int --event-bus-queue-size | true --disable-metrics | true --disable-grpc-metrics
true --disable-logging | true --enable-tracing | str --otlp-endpoint | int --prometheus-port
float --metrics-sample-rate | str --lookup-hash-log-dir | int --lookup-hash-log-rotation-interval
int --lookup-hash-log-rotation-max-size | int --lookup-hash-log-max-files | true --enable-gc-monitor
float --gc-monitor-min-pause-ms | int --gc-monitor-top-objects | true --enable-extra-logging
float --extra-logging-interval | storage,events --trace-level | str --trace-output | str --http-host
int --http-port | pair --enable-l1-cache-download | int --l1-cache-download-max-size-bytes
int --l1-cache-download-max-concurrency | str --coordinator-url | str --coordinator-advertise-ip
float --coordinator-heartbeat-interval | true --coordinator-event-reporting
float --coordinator-event-flush-interval | float --coordinator-blend-timeout
int --coordinator-blend-match-concurrency | true --coordinator-l2-event-reporting
float --coordinator-l2-event-flush-interval
"""

# Where the values are in what --check-config prints.
SHOWN = {
    "host": "mp.host", "port": "mp.port", "chunk_size": "mp.chunk_size", "null_block_id": "mp.null_block_id",
    "isolated_ipc": "mp.isolated_ipc", "shm_name": "mp.shm_name",
    "runtime_plugin_locations": "mp.runtime_plugin_config.locations",
    "script_allowed_imports": "mp.script_allowed_imports",
    "worker_reap_timeout_seconds": "mp.worker_reap_timeout_seconds",
    "eviction_ratio": "storage_manager.eviction_config.eviction_ratio",
    "metrics_sample_rate": "observability.metrics_sample_rate", "http_port": "http.http_port",
    "event_bus_queue_size": "observability.max_queue_size",
    "l1_read_ttl_seconds": "storage_manager.l1_manager_config.read_ttl_seconds",
    "l1_use_lazy": "storage_manager.l1_manager_config.memory_config.use_lazy",
}  # fmt: skip

WORDS = """--port --chunk-size --host x 0 -1 -1.5 1_0 +5 5. 1e3 inf nan --isolated-ipc --no-isolated-ipc --iso --no-iso
--runtime-plugin-locations a --runtime-plugin-loc --script-allowed-imports --port=7 --port= --chunk=8 --chunk-s --evict
--eviction-r 0.5 --eviction-ratio=.25 --metrics-sample-rate --nope --nope=1 -x -p --max --max-workers=2 --isolated-ipc=1
--no-isolated-ipc= --shm-name --shm-name= - --- --l1-use-lazy --no-l1-use-lazy --l1-use --no-l1 --event-bus
--event-bus-queue-size 12 --null-block-id --null-block-id=-1 --worker-reap 60 --http --http-p --coordinator-l --he
--disable-m --disable --l1-read-ttl-seconds 0x10 1__0 _1 1_ --transport --transport=foo grpc zmq --l1-size --supported
auto \\ bad'q ü""".split() + ["", " 7 ", "b c", "-1 2", "--x y", "--port 5"]  # fmt: skip


def reader():
    parser = argparse.ArgumentParser(prog="server")
    kinds = {
        "str": {}, "int": {"type": int}, "float": {"type": float}, "pair": {"action": PAIR},
        "true": {"action": "store_true"}, "list": {"nargs": "*"}, "append": {"action": "append"},
    }  # fmt: skip
    for entry in OPTIONS.replace("\n", "|").split("|"):
        if entry.strip():
            kind, flag = entry.split()
            parser.add_argument(flag, **kinds.get(kind, {"choices": kind.split(",")}))
    return parser


def as_python_reads(words, capsys):
    try:
        values = reader().parse_args([*SIZE, *words])
    except SystemExit as end:
        complaint = capsys.readouterr().err
        return end.code, None, complaint.partition("error: ")[2].strip()
    return 0, values, ""


@pytest.mark.parametrize("seed", range(4))
def test_the_grammar_is_argparse_s(seed, capsys):
    choose = random.Random(seed)
    for _ in range(60):
        words = [choose.choice(WORDS) for _ in range(choose.randint(1, 5))]
        status, values, complaint = as_python_reads(words, capsys)
        done = run_cli("server", "--check-config", *SIZE, *words)
        assert (done.returncode == 2) == (status == 2), (words, complaint, done.stderr)
        if status == 2:
            assert done.stderr.partition("error: ")[2].strip() == complaint, words
        if done.returncode != 0 or values is None:
            continue
        config = json.loads(done.stdout)
        for name, path in SHOWN.items():
            shown = config
            for step in path.split("."):
                shown = shown[step]
            given = getattr(values, name)
            assert given is None or given == shown, (words, name)
