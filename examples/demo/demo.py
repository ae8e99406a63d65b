#!/usr/bin/env python3
"""The main job, shown step by step: `make demo`.

Starts a server with a shared-memory pool, stores the KV chunks of a real text in it (this project's
own documentation), looks the prompt up, loads it back in a second process, tries a prompt that
shares only a prefix, calls a server module, looks at a runtime plugin, and stops the server. Every step checks what it shows; the exit status is 0
only if all of them held.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Run in the source tree, or where it was installed: PREFIX/share/doc/lmcached.
PREFIX = next((folder for folder in ROOT.parents if (folder / "lib/lmcached/python/lmcached").is_dir()), None)
IN_TREE = PREFIX is None or (ROOT / "python" / "lmcached").is_dir()
sys.path.insert(0, str(ROOT / "python" if IN_TREE else PREFIX / "lib" / "lmcached" / "python"))

try:
    from lmcached import Client, Worker
except ImportError as missing:
    sys.exit(
        f"demo: {missing}; it needs pyzmq and msgpack (Debian: python3-zmq python3-msgpack) and, away from "
        "the source tree and the installation, PYTHONPATH=PREFIX/lib/lmcached/python"
    )

BINARY = os.environ.get("LMCACHED_BIN", str(ROOT / "build" / "lmcached" if IN_TREE else PREFIX / "bin" / "lmcached"))
TEXTS = ["docs/architecture.md", "docs/operating.md"]
PLUGIN = ROOT / "examples" / "mp_runtime_plugins" / "mp_plugin.py"
CHUNK_SIZE = 256
MODEL = "demo/tiny-8-layers"
# 8 layers, 8 heads of 64, bfloat16: 4 MiB per chunk of 256 tokens.
LAYOUT = {"num_layers": 8, "hidden_dim_size": 512, "dtype": "bfloat16", "block_size": 16}
SALTS = {"shm": "", "pickle": "tenant-b"}  # kept apart, so that each way is a real store


class Failed(Exception):
    """A step did not hold."""


def check(condition, what):
    if not condition:
        raise Failed(what)


STEPS = iter(range(1, 100))


def step(title):
    print(f"\n{next(STEPS):2}. {title}", flush=True)


def say(text):
    print(f"    {text}", flush=True)


# ---- a prompt and its KV cache ----


def tokenize(text):
    """Pieces of up to four letters, numbered by first appearance: a toy, but a real sequence."""
    numbers = {}
    return [numbers.setdefault(piece, len(numbers)) for piece in re.findall(r"\w{1,4}|\W", text)]


def prompt():
    return tokenize("\n".join((ROOT / name).read_text(encoding="utf-8") for name in TEXTS))


def kv_chunks(tokens, chunk_bytes):
    """Stands in for a model: the bytes of a chunk depend on every token up to its end."""
    prefix = hashlib.sha256()
    chunks = []
    for start in range(0, len(tokens) - CHUNK_SIZE + 1, CHUNK_SIZE):
        prefix.update(repr(tokens[start : start + CHUNK_SIZE]).encode())
        chunks.append(hashlib.shake_128(prefix.digest()).digest(chunk_bytes))
    return chunks


def rate(size, seconds):
    return f"{size / 2**20:.0f} MiB in {seconds * 1000:.1f} ms, {size / seconds / 1e9:.2f} GB/s"


# ---- the second process ----


def second_process(url, transport):
    """Computes the prompt and its KV itself, loads the KV from the server, compares every byte."""
    tokens = prompt()
    with Client(url, timeout=30) as client:
        worker = Worker(client, MODEL, byte_copy=transport == "pickle", **LAYOUT)
        expected = kv_chunks(tokens, worker.chunk_bytes)
        worker.register()
        used = worker.transport
        key = worker.key(tokens, f"second-{transport}", cache_salt=SALTS[transport])
        hits = client.lookup_chunks(key.for_worker(None))
        start = time.monotonic()
        loaded = worker.retrieve(key.with_range(0, hits * CHUNK_SIZE)) or []
        seconds = time.monotonic() - start
        client.end_session(key.request_id).result(30)
        worker.unregister()
        print(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "transport": used,
                    "hits": hits,
                    "loaded": len(loaded),
                    "identical": loaded == expected,
                    "bytes": sum(map(len, loaded)),
                    "seconds": seconds,
                }
            )
        )


def in_second_process(url, transport):
    done = subprocess.run(
        [sys.executable, __file__, "--second", url, transport], capture_output=True, text=True, timeout=120
    )
    check(done.returncode == 0, f"the second process failed:\n{done.stderr}")
    return json.loads(done.stdout)


# ---- the server ----


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, log, module):
        self.port, self.http_port = free_port(), free_port()
        self.pool = f"demo_{os.getpid()}"
        self.log = log
        self.argv = [
            BINARY, "server", "--host", "127.0.0.1", "--port", str(self.port),
            "--http-host", "127.0.0.1", "--http-port", str(self.http_port),
            "--l1-size-gb", "0.5", "--eviction-policy", "LRU", "--chunk-size", str(CHUNK_SIZE),
            "--shm-name", self.pool, "--server-module", json.dumps({"module_path": str(module)}),
            "--runtime-plugin-locations", str(PLUGIN.relative_to(ROOT)),
        ]  # fmt: skip
        self.process = subprocess.Popen(self.argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT)
        self.url = f"tcp://127.0.0.1:{self.port}"

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as reply:
            return json.loads(reply.read())

    def wait_ready(self):
        deadline = time.monotonic() + 30
        while True:
            check(self.process.poll() is None, "the server ended while starting")
            try:
                return self.get("/readiness")
            except OSError:
                check(time.monotonic() < deadline, "the server did not become ready")
                time.sleep(0.01)

    def plugin(self):
        return self.get("/status")["runtime_plugins"][0]

    def plugin_lines(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").splitlines()
        return [line.split("LMCache INFO: ")[-1].rsplit(" (", 1)[0] for line in lines if f"[{PLUGIN.name}]" in line]

    @property
    def segment(self):
        return f"/dev/shm/lmcache_l1_pool_{self.pool}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def clean_up(self):
        """After a step that failed; does nothing after a stop."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if os.path.exists(self.segment):
            os.unlink(self.segment)


def poll(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        check(time.monotonic() < deadline, what)
        time.sleep(0.01)


def compile_module(folder):
    """Builds the example as an author would, out of the tree, with what pkg-config says."""
    described = [pathlib.Path(BINARY).parent]
    if not IN_TREE:
        described = sorted({file.parent for file in (PREFIX / "lib").glob("**/pkgconfig/lmcached.pc")})
    finding = {**os.environ, "PKG_CONFIG_PATH": os.pathsep.join(map(str, described))}
    told = subprocess.run(["pkg-config", "--cflags", "lmcached"], env=finding, capture_output=True, text=True)
    check(told.returncode == 0, f"pkg-config does not know lmcached: {told.stderr}")
    module = pathlib.Path(folder) / "hello.so"
    source = ROOT / "examples" / "hello_module" / "hello.c"
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O2", "-fPIC", "-shared", *shlex.split(told.stdout)]
    done = subprocess.run([*command, "-o", str(module), str(source)], capture_output=True, text=True)
    check(done.returncode == 0, f"the module does not compile:\n{done.stderr}")
    return module


def call_module(server, name):
    """What `lmcached call URL METHOD PAYLOAD` prints."""
    done = subprocess.run([BINARY, "call", server.url, "hello.greet", name], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"the call failed:\n{done.stderr}")
    return done.stdout.strip()


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def show_status(server):
    status = server.get("/status")
    l1 = status["storage_manager"]["l1_manager"]
    say(f"is_healthy         {status['is_healthy']}")
    say(f"chunk_size         {status['chunk_size']} tokens, hashed with {status['hash_algorithm']}")
    say(f"objects            {l1['total_object_count']}, of which held by readers: {l1['read_locked_count']}")
    say(
        f"memory             {l1['memory_used_bytes'] / 2**20:.0f} of {l1['memory_total_bytes'] / 2**20:.0f} MiB "
        f"({l1['memory_usage_ratio']:.1%})"
    )
    say(f"sessions           {status['active_sessions']}")
    say(f"engine instances   {status['registered_non_cuda_instance_ids']}")
    return status, l1


# ---- the story ----


def story(server):
    step("Start the server")
    start = time.monotonic()
    say(shlex.join(os.path.basename(word) if word == BINARY else word for word in server.argv))
    server.wait_ready()
    say(f"ready after {(time.monotonic() - start) * 1000:.0f} ms; pool {server.segment}")
    check(os.path.exists(server.segment), "there is no shared-memory pool")

    step("A prompt: the text of " + " and ".join(TEXTS))
    tokens = prompt()
    full = len(tokens) // CHUNK_SIZE
    say(f"{len(tokens)} tokens = {full} chunks of {CHUNK_SIZE}, and {len(tokens) % CHUNK_SIZE} tokens too few for one more")
    check(len(tokens) >= 2000, "the prompt is too short")

    with Client(server.url, timeout=30) as client:
        shared = Worker(client, MODEL, **LAYOUT)
        copying = Worker(client, MODEL, byte_copy=True, **LAYOUT)
        chunks = kv_chunks(tokens, shared.chunk_bytes)
        size = sum(map(len, chunks))
        say(f"its KV cache: {full} x {shared.chunk_bytes // 2**20} MiB, layout {list(shared.chunk_shape)} bfloat16")

        step("Before anything is stored, a lookup finds nothing")
        for worker in (shared, copying):
            worker.register()
        check(lookup(client, shared, tokens, "early") == 0, "a hit in an empty cache")
        say("0 chunks hit: the engine computes the whole prompt")

        step("Store the KV cache through shared memory")
        check(shared.transport == "shm", "the pool could not be mapped")
        timed_store(shared, tokens, chunks, size)
        say("the server handed out places in its pool and copied nothing itself")

        step("Store it again by byte copy, for another tenant (cache_salt)")
        check(copying.transport == "pickle", "byte copy was not chosen")
        timed_store(copying, tokens, chunks, size)
        say("every byte went through the socket, as for an engine that cannot map the pool")

        step("Look the prompt up")
        hits = lookup(client, shared, tokens, "again")
        say(f"{hits} of {full} chunks hit = {hits * CHUNK_SIZE} tokens that need no computation")
        check(hits == full, f"{hits} hits instead of {full}")

        step("Load it back in a second process, which computes the expected bytes on its own")
        for transport in ("shm", "pickle"):
            loaded = in_second_process(server.url, transport)
            way = "shared memory" if transport == "shm" else "byte copy"
            say(f"process {loaded['pid']}, {way}: {loaded['loaded']} chunks, {rate(loaded['bytes'], loaded['seconds'])}")
            check(loaded["transport"] == transport, f"it went by {loaded['transport']}")
            check(loaded["hits"] == full and loaded["loaded"] == full, "not every chunk came back")
            check(loaded["identical"], "the bytes differ")
            say("byte-identical: yes")

        step("Look up a prompt that shares only a prefix")
        keep = 5 * CHUNK_SIZE + 100
        other = tokens[:keep] + [1_000_000 + n for n in range(1000)]
        hits = lookup(client, shared, other, "branch")
        say(f"the first {keep} of {len(other)} tokens are the same: {hits} chunks hit")
        check(hits == 5, f"{hits} hits instead of 5")
        say("the sixth chunk holds the first different token, so the prefix ends before it")

        step("What the server says about itself (GET /status)")
        status, l1 = show_status(server)
        check(status["is_healthy"], "the server is not healthy")
        check(l1["total_object_count"] == 2 * full, "the number of objects is wrong")
        check(len(status["registered_non_cuda_instance_ids"]) == 2, "the number of instances is wrong")

        for worker in (shared, copying):
            worker.unregister()

    step("Call a server module: examples/hello_module, 58 lines of C that the server loaded")
    answer = call_module(server, "engine")
    say(f"lmcached call {server.url} hello.greet engine")
    say(f"-> {answer}")
    check(answer == "Hello, engine", "the answer is wrong")
    greetings = server.get("/status")["greetings"]
    say(f"what it adds to /status: greetings {greetings}")
    check(greetings == 1, "the module did not count the call")

    step(f"A runtime plugin: {PLUGIN.name}, a script that the server started and watches")
    poll(lambda: server.plugin()["state"] == "RUNNING", "the plugin does not run")
    poll(lambda: any("Server: " in line for line in server.plugin_lines()), "the plugin said nothing")
    plugin = server.plugin()
    say(f"process {plugin['pid']}, {plugin['state']}; what it prints is in the server's log:")
    for line in server.plugin_lines():
        if "Config: " not in line:
            say(line)

    step("Stop the server with SIGTERM")
    exit_status = server.stop()
    say(f"exit status {exit_status}")
    check(exit_status == 0, "the exit status is not 0")
    check(not os.path.exists(server.segment), "the pool was left behind")
    check(not alive(plugin["pid"]), "the plugin was left behind")
    say("its shared memory is gone, and so is the plugin")


def lookup(client, worker, tokens, request_id):
    key = worker.key(tokens, request_id).for_worker(None)
    start = time.monotonic()
    hits = client.lookup_chunks(key)
    say(f"lookup of {len(tokens)} tokens: {(time.monotonic() - start) * 1000:.2f} ms")
    client.free_lookup_locks(key).result(30)  # nothing will be loaded here
    client.end_session(request_id).result(30)
    return hits


def timed_store(worker, tokens, chunks, size):
    key = worker.key(tokens, f"store-{worker.transport}", cache_salt=SALTS[worker.transport])
    start = time.monotonic()
    check(worker.store(key, chunks), "the store was refused")
    say(f"{len(chunks)} chunks, {rate(size, time.monotonic() - start)}")
    worker.client.end_session(key.request_id).result(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--second", nargs=2, metavar=("URL", "TRANSPORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.second:
        second_process(*options.second)
        return 0
    if not os.path.exists(BINARY):
        print(f"demo: there is no server at {BINARY}; run make first", file=sys.stderr)
        return 1
    print("lmcached demo: the KV cache of a prompt, stored once, loaded instead of computed again")
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
        server = None
        try:
            server = Server(log, compile_module(folder))
            story(server)
        except Exception as failure:
            print(f"\nFAILED: {failure if isinstance(failure, Failed) else repr(failure)}", file=sys.stderr)
            log.seek(0)
            print("The server's log:\n" + log.read().decode(errors="replace"), file=sys.stderr)
            return 1
        finally:
            if server is not None:
                server.clean_up()
    print("\nAll steps held.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
