#!/usr/bin/env python3
"""A runtime plugin in Python: shows what it was given, then says every 30 seconds that it lives.

The server starts it and passes its configuration in LMCACHE_RUNTIME_PLUGIN_CONFIG. Every line that
it prints is in the server's log as ``[mp_plugin.py] <line>``. SIGTERM ends it.
"""

import json
import os
import signal
import sys
import threading


def read_config():
    text = os.environ.get("LMCACHE_RUNTIME_PLUGIN_CONFIG")
    file = os.environ.get("LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE")
    if text is None and file:  # too large for a variable
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    return text or "{}"


def summarize(config):
    mp = config.get("mp_config", {})
    storage = config.get("storage_manager_config", {})
    memory = storage.get("l1_manager_config", {}).get("memory_config", {})
    eviction = storage.get("eviction_config", {})
    http = config.get("http_config", {})
    yield f"Server: {mp.get('host')}:{mp.get('port')}, chunk size {mp.get('chunk_size')}"
    yield f"L1: {memory.get('size_in_bytes', 0) / (1 << 30):.2f} GiB, eviction {eviction.get('eviction_policy')}"
    if http:
        yield f"HTTP: {http.get('http_host')}:{http.get('http_port')}"
    extra = config.get("runtime_plugin_extra_config", {})
    if extra:
        yield f"Keys of the extra configuration: {', '.join(sorted(extra))}"


def main():
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    text = read_config()
    print("Started")
    print(f"Config: {text}")
    for line in summarize(json.loads(text)):
        print(line)
    beats = 0
    while not stop.wait(30):
        beats += 1
        print(f"Heartbeat {beats}")
    print("Stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
