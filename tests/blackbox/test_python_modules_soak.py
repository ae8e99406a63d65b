"""A server module in Python that uses everything, again and again: nothing grows and nothing stays.
LMC_SOAK=1 makes the numbers large: 10^6 calls, 10^3 lives of the module, 100 of the server."""

import glob
import os
import re
import subprocess
import time
import uuid

import pytest

from house import poll_until
from modules import KIT, flags, spec
from python_packages import SIDECAR, needs_host

pytestmark = needs_host

SOAK = bool(os.environ.get("LMC_SOAK"))
SANITIZED = os.environ.get("LMC_HOUSE") == "asan"
CALLS = 1_000_000 if SOAK else 20_000
LIVES = 1000 if SOAK else 100
STARTS = 100 if SOAK else 3

MORE = """
import subprocess, tempfile
from concurrent.futures import ThreadPoolExecutor
from lmcache.v1.mp_observability.event import Event, EventType
from lmcache.v1.mp_observability.event_bus import EventSubscriber
from lmcache.v1.mp_observability.metrics import Counter
from lmcache.v1.periodic_thread import create_periodic_thread

class Subscriber(EventSubscriber):
    def __init__(self, module):
        self.module = module
    def get_subscriptions(self):
        return {EventType.MP_LOOKUP: self.module.on_event, "probe.called": self.module.on_event}
"""

BODY = """
module_dependencies = [LookupModule]
events = 0
def on_event(self, event):
    self.events += 1
    self.counter.add(1, event.session_id)
def report_status(self):
    return {"probe": {"events": self.events, "blocks": sys.getallocatedblocks()}}
@server_module_handler("probe.echo")
def echo(self, payload):
    return payload
@server_module_handler("probe.publish")
def publish(self, payload):
    self.context.event_bus.publish(Event("probe.called", "s", {"n": 1}))
    return payload
@server_module_handler("probe.work")
def work(self, payload):
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "file"), "wb") as file:
        file.write(payload)
    self.pool.submit(time.sleep, 0).result()
    return subprocess.check_output(["cat"], input=payload)
@request_handler(HandlerType.BLOCKING)
def query_prefetch_lookup_hits(self, request_id: str) -> "int | None":
    return self.inner.query_prefetch_lookup_hits(request_id)
""" + SIDECAR + """\
    self.socket.close(0)
def touch_instance(self, instance_id):
    pass
def reap_stale_instances(self, timeout_s, grace_s):
    return []
def tracked_instance_count(self):
    return 0
def drop_instance_state(self, instance_id):
    pass
def close(self):
    if hasattr(self, "stop"):
        self.stop.set()
        self.thread.join()
    self.periodic.stop()
    self.pool.shutdown()
"""

CREATE = """
module = cls(build_ctx)
module.inner = build_ctx.require(LookupModule)
module.inner.query_prefetch_lookup_hits("nobody")
module.counter = Counter(module, "events_total", "Events.", label="session")
module.context.event_bus.register_subscriber(Subscriber(module))
module.context.session_manager.get_or_create("s").set_tokens(list(range(300)))
module.pool = ThreadPoolExecutor(2)
module.periodic = create_periodic_thread("probe", 0.01, lambda: None)
module.periodic.start()
return module
"""


@pytest.fixture
def module(packages):
    return packages.one_class(BODY, create=CREATE, more=MORE)


def resident(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def counters(one):
    """What must not grow while it serves."""
    pid = one.process.pid
    time.sleep(0.05)  # the connection of the last question goes
    return {
        "descriptors": one.descriptors(),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "children": open(f"/proc/{pid}/task/{pid}/children").read().split(),
    }


@pytest.mark.skipif(SANITIZED, reason="the sanitizer keeps freed memory")
def test_many_calls_leave_nothing_behind(server, packages, module):
    one = server(*flags(spec(module)), environment=packages.environment())
    client = one.client()

    def calls(method, count):
        request = {"method": method, "payload": b"x" * 1000}
        for _ in range(count // 500):
            for future in [client.call("server_module_call", request) for _ in range(500)]:
                assert future.result(60).success

    def settled():
        calls("probe.publish", 500)
        poll_until(lambda: one.status()["probe"]["events"] % 500 == 0, "events")
        return one.status()["probe"]["blocks"], resident(one.process.pid), counters(one)

    calls("probe.echo", 10_000)
    before = settled()
    started = time.monotonic()
    calls("probe.echo", CALLS)
    seconds = time.monotonic() - started
    after = settled()
    print(f"{CALLS} calls in {seconds:.1f} s: {after[0] - before[0]} blocks, {after[1] - before[1]} bytes more")
    assert after[0] - before[0] < 2000, "objects of Python"
    assert after[1] - before[1] < 4 << 20, "resident memory"
    poll_until(lambda: counters(one) == before[2], f"{before[2]}; there is {after[2]}")
    assert one.status()["server_modules"]["Probe"]["calls"] == CALLS + 11_000


@pytest.mark.skipif(SANITIZED, reason="the sanitizer keeps freed memory")
def test_many_lives_of_a_module_in_one_host_leave_nothing_behind(packages, module):
    done = subprocess.run(
        [KIT, "--times", str(LIVES), module], env={**os.environ, **packages.environment()},
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("9 passed, 0 failed\n"), done.stdout + done.stderr
    (grown,) = re.findall(rf"{LIVES} times; memory grew by (-?\d+) KiB in the last {LIVES // 2}\n", done.stdout)
    print(f"{LIVES} lives: {grown} KiB more in the second half")


def test_a_module_that_leaks_in_each_life_is_found_out(packages):
    create = "kept.append(bytearray(64 << 10))\nkept[-1][:] = b'x' * (64 << 10)\nreturn cls(build_ctx)"
    leaky = packages.one_class("pass", create=create, more="kept = []\n")
    done = subprocess.run(
        [KIT, "--times", "100", leaky], env={**os.environ, **packages.environment()},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1 and "bytes more each time that it is built and closed" in done.stdout, done.stdout


def marked(mark):
    """Processes that have a text in their environment."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    found.append(path.split("/")[2])
        except OSError:
            pass
    return found


def test_starts_and_stops_of_the_server_leave_nothing_behind(server, packages, module, tmp_path):
    mark = f"lmc-soak-{uuid.uuid4().hex}"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = packages.environment(TMPDIR=str(temporary), LMC_SOAK_MARK=mark)
    seen = set()
    for _ in range(STARTS):
        one = server(*flags(spec(module)), shm=True, environment=environment)
        client = one.client()
        assert envelope_of(client, "probe.work", b"x") == b"x"
        assert client.query_prefetch_lookup_hits("r").result(30) == 0
        one.judge()
        seen.add(one.baseline)
        assert os.listdir(temporary) == [] and marked(mark) == []
        name = one.flags[one.flags.index("--shm-name") + 1]
        assert glob.glob(f"/dev/shm/*{name}*") == []
    assert len(seen) <= 2, f"descriptors after a start: {seen}"  # a connection of HTTP may still close
    print(f"{STARTS} starts and stops; descriptors {seen}")


def envelope_of(client, method, payload):
    from lmcached import ServerModuleCallRequest

    reply = client.server_module_call(ServerModuleCallRequest(method, payload)).result(30)
    assert reply.success, reply.error
    return reply.payload
