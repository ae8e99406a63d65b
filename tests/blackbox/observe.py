"""What the operating system says of a server process: memory, threads, descriptors, wake-ups."""

import os
import pathlib
import time

from house import BINARY, poll_until

SOAK = bool(os.environ.get("LMC_SOAK"))


def sanitizer():
    """'address', 'thread' or '' : what the server under test was built with."""
    text = pathlib.Path(BINARY).read_bytes() if os.path.exists(BINARY) else b""
    if b"__asan_init" in text:
        return "address"
    return "thread" if b"__tsan_init" in text else ""


SANITIZER = sanitizer()


def proc(server, name):
    return pathlib.Path(f"/proc/{server.process.pid}/{name}").read_text()


def status_field(server, name):
    for line in proc(server, "status").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise KeyError(name)


def anonymous_bytes(server):
    """Heap, stacks and buffers; not L1, which is shared memory."""
    return status_field(server, "RssAnon") << 10


def threads(server):
    return status_field(server, "Threads")


def mappings(server):
    """How many mappings there are of L1's pool."""
    return sum("lmcache_l1_pool" in line or "lmcached-l1" in line for line in proc(server, "maps").splitlines())


def switches(server):
    """Voluntary context switches of every thread: how often it went to sleep."""
    found = {}
    for task in os.listdir(f"/proc/{server.process.pid}/task"):
        name = proc(server, f"task/{task}/comm").strip()
        for line in proc(server, f"task/{task}/status").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                found[f"{name}-{task}"] = int(line.split()[1])
    return found


def cpu_seconds(server):
    fields = proc(server, "stat").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def footprint(server):
    return {
        "descriptors": server.descriptors(),
        "threads": threads(server),
        "mappings": mappings(server),
    }


def settled(measure, seconds=30.0, pause=0.3):
    """A measure once it has stopped falling."""
    deadline = time.monotonic() + seconds
    low = measure()
    while time.monotonic() < deadline:
        time.sleep(pause)
        now = measure()
        if now >= low:
            return now
        low = now
    return low


def expect_back(server, before, *, slack_bytes=None, memory_before=None, seconds=40.0):
    """Descriptors, threads and mappings are where they were; memory within a slack."""

    def back():
        now = footprint(server)
        return all(now[name] <= before[name] for name in before)

    try:
        poll_until(back, "everything back", seconds)
    except AssertionError:
        raise AssertionError(f"before {before}, now {footprint(server)}") from None
    if memory_before is not None:
        try:
            poll_until(lambda: anonymous_bytes(server) <= memory_before + slack_bytes, "memory back", seconds)
        except AssertionError:
            grown = anonymous_bytes(server) - memory_before
            raise AssertionError(f"memory grew by {grown >> 20} MiB (allowed {slack_bytes >> 20})") from None
