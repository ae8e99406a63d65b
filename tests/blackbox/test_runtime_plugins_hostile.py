"""Runtime plugins that mean harm, and many starts and stops. LMC_SOAK=1 makes them longer."""

import http.client
import json
import os
import re
import signal
import subprocess
import time

import pytest
from house import BINARY, free_ports, poll_until
from plugin_house import (
    CHANGELING, STUBBORN, PluginFolder, alive, descendants, dropped_of, lines_of, plugin, run_plugins, run_with_owners, wait_state,
    zombies,
)  # fmt: skip

SOAK = bool(os.environ.get("LMC_SOAK"))
ASAN = os.environ.get("LMC_HOUSE") == "asan"

HOSTILE = {
    "no_newline.py": "import sys\nsys.stdout.write('z' * 5_000_000); sys.stdout.flush()\nimport time; time.sleep(1000)\n",
    "not_text.py": "import os, time\nfor i in range(200): os.write(1, os.urandom(1000))\ntime.sleep(1000)\n",
    "stubborn.py": STUBBORN,
    "at_once.py": "import os; os._exit(1)\n",
    "loud.py": "import time\nwhile True:\n    print(*range(10_000), sep='\\n', flush=True)\n    time.sleep(0.1)\n",
    "closes.py": "import os, time\nos.close(1); os.close(2)\ntime.sleep(1000)\n",
    "forks.py": """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(1000)
""",
    "signals_parent.py": "import os, signal, time\nos.kill(os.getppid(), signal.SIGTERM)\nos.kill(os.getppid(), signal.SIGINT)\n"
    "time.sleep(1000)\n",
    "many_children.py": "import os, time\nfor i in range(50):\n    if os.fork() == 0:\n        os.setsid(); time.sleep(1000)\n"
    "time.sleep(1000)\n",
    "moving.py": """
import os, time
end = time.monotonic() + 600
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    os.setsid()
    time.sleep(0.005)
""",
}


def resident_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


@pytest.fixture
def hostile(tmp_path):
    folder = PluginFolder(tmp_path / "hostile")
    for name, body in HOSTILE.items():
        folder.python(name, body)
    os.mkfifo(folder.path / "pipe.py")
    (folder.path / "loop.py").symlink_to("loop.py")
    (folder.path / "self").symlink_to(".")
    return folder


def test_a_directory_of_hostile_plugins(server, hostile):
    config = {"filling": "x" * 100_000}
    one = run_plugins(server, hostile, config=config, flags=["--runtime-plugin-stop-grace-seconds", "1"])
    one.allow(r"lines dropped", r"did not end within 1 s", r"too many for the environment")
    assert len(one.status()["runtime_plugins"]) == len(HOSTILE)
    for name, code in (("at_once.py", 1), ("forks.py", 0), ("moving.py", 0)):
        one.wait_log(rf"Runtime plugin {re.escape(name)} exited with code {code}")
    one.wait_log(r"\[no_newline\.py\] z+ …\[cont\]")
    guardian = one.status()["plugin_guardian"]
    seconds = 30 if SOAK else 6
    time.sleep(2)
    before = [resident_kib(one.process.pid), resident_kib(guardian)]
    client, slowest, end = one.client(), 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        client.noop()
        assert one.get("/healthcheck").status == 200
        slowest = max(slowest, time.monotonic() - start)
        time.sleep(0.01)
    after = [resident_kib(one.process.pid), resident_kib(guardian)]
    print(f"slowest pair of requests {slowest * 1000:.1f} ms; KiB {before} -> {after}")
    assert slowest < 5
    if not ASAN:  # which keeps freed memory
        assert all(later - earlier < 8192 for earlier, later in zip(before, after)), (before, after)
    assert max(map(len, one.log().split("\n"))) < 70_000
    assert all(len(line) <= 65536 + 8 for line in lines_of(one, "not_text.py"))
    assert plugin(one, "closes.py")["state"] == "RUNNING" and plugin(one, "signals_parent.py")["state"] == "RUNNING"
    assert plugin(one, "loud.py")["dropped_lines"] >= dropped_of(one, "loud.py")
    everybody = list(descendants(one.process.pid))
    assert len(everybody) > 55
    one.close_clients()
    start = time.monotonic()
    assert one.stop() == 0
    print(f"ended after {time.monotonic() - start:.2f} s, grace 1 s")
    assert time.monotonic() - start < 8
    one.judge()
    for name in ("stubborn.py", "loud.py", "closes.py", "no_newline.py"):
        assert re.search(rf"Runtime plugin {re.escape(name)} exited with code -\d+", one.log()), name
    poll_until(lambda: not any(map(alive, everybody)), "an end of everything", 5)
    assert not hostile.processes()


def test_a_killed_server_leaves_nothing_of_hostile_plugins(server, hostile):
    one = run_plugins(server, hostile)
    one.wait_log(r"Runtime plugin forks\.py exited")
    poll_until(lambda: len(descendants(one.process.pid)) > 55, "all processes")
    one.kill()
    one.judged = True
    start = time.monotonic()
    poll_until(lambda: not hostile.processes(), "an end of everything", 10)
    print(f"nothing left after {time.monotonic() - start:.2f} s")
    assert time.monotonic() - start < 1.0


def test_a_log_that_nobody_reads_stops_neither_server_nor_plugin(tmp_path):
    folder = PluginFolder(tmp_path / "plugins")
    count = folder.path / "count"
    folder.python(
        "writer.py",
        "n = 0\nwhile True:\n    print('w' * 1000, flush=True)\n    n += 1\n"
        f"    open({str(count)!r}, 'w').write(str(n))\n",
    )
    port = free_ports(1)[0]
    command = [
        BINARY, "server", "--port", "0", "--http-port", str(port), "--l1-size-gb", "0.0625", "--eviction-policy", "LRU",
        "--runtime-plugin-locations", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        poll_until(lambda: count.exists() and int(count.read_text() or 0) > 3000, "three thousand lines", 60)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/status")
        row = json.loads(connection.getresponse().read())["runtime_plugins"][0]
        connection.close()
        assert row["dropped_lines"] > 0 and row["pid"]
    finally:
        process.terminate()
        assert process.wait(40) == 0
        process.stderr.close()
    assert not folder.processes()


def test_many_starts_and_stops_leak_nothing(server, tmp_path):
    folder = PluginFolder(tmp_path / "plugins")
    folder.shell("short.sh", "trap 'exit 0' TERM\necho up\nsleep 1000 & wait\n", shebang="#!/bin/sh")
    one = run_plugins(server, folder)
    wait_state(one, "short.sh", "RUNNING")
    guardian = one.status()["plugin_guardian"]

    def held():
        time.sleep(0.1)  # the connection of the last question goes
        return (
            one.descriptors(), len(os.listdir(f"/proc/{guardian}/fd")), len(os.listdir(f"/proc/{one.process.pid}/task")),
            len(os.listdir(f"/proc/{guardian}/task")), len(folder.processes()), len(zombies(one.process.pid)),
        )  # fmt: skip

    def cycle():
        assert one.request("POST", "/plugins/short.sh/stop").status == 202
        wait_state(one, "short.sh", "EXITED")
        assert one.request("POST", "/plugins/short.sh/start").status == 202
        poll_until(lambda: plugin(one, "short.sh")["pid"], "a process")

    for _ in range(3):
        cycle()
    wait_state(one, "short.sh", "RUNNING")
    before, memory = held(), resident_kib(guardian)
    for _ in range(1000 if SOAK else 100):
        cycle()
    wait_state(one, "short.sh", "RUNNING")
    poll_until(lambda: held() == before, f"as before: {before}, {held()}", 10)
    assert ASAN or resident_kib(guardian) - memory < 2048


def test_servers_come_and_go_without_a_trace(server, tmp_path):
    folder = PluginFolder(tmp_path / "plugins")
    folder.shell("short.sh", "echo up\nsleep 1000\n", shebang="#!/bin/sh")
    for _ in range(20 if SOAK else 3):
        one = run_plugins(server, folder)
        one.wait_log(r"\[short\.sh\] up")
        one.judge()
        assert not folder.processes()


@pytest.mark.parametrize(
    "victims",
    [("server",), ("guardian",), ("watcher",), ("server", "guardian"), ("guardian", "server"), ("server", "watcher"),
     ("watcher", "guardian"), ("guardian", "watcher")],
    ids="+".join,
)  # fmt: skip
def test_51_whichever_one_or_two_of_server_guardian_and_watcher_are_killed_no_plugin_is_left(server, tmp_path, victims):
    one, numbers, folder = run_with_owners(server, tmp_path)
    one.allow(r"The guardian of the runtime plugins \(process \d+\) is gone: (its watcher, process \d+, was )?killed by signal 9")
    for victim in victims:
        os.kill(numbers[victim], signal.SIGKILL)
    start = time.monotonic()
    poll_until(lambda: not folder.processes(), "an end of all", 10)
    assert ASAN or time.monotonic() - start < 2.0
    poll_until(lambda: not alive(numbers["guardian"]) and not alive(numbers["watcher"]), "their end", 10)
    if "server" in victims:
        one.judged = True
        one.kill()
        return
    poll_until(lambda: one.status()["plugin_guardian"] is None, "a table that says so")
    assert one.status()["plugin_watcher"] is None
    assert one.get("/healthcheck").status == 200 and one.log().count("LMCache ERROR") == 1
    if len(victims) == 1:  # else the dead that a plugin never collected, of whom nobody knows whose they are, are left
        assert not zombies(one.process.pid)


def test_51_children_of_the_server_that_are_no_plugins_outlive_guardian_and_watcher(server, tmp_path):
    """A server module's own processes are not the plugins', whoever was killed."""
    from python_packages import HOST, Packages

    if not HOST.exists():
        pytest.skip("the Python host is not built")
    packages = Packages(tmp_path / "packages")
    packages.one_class(
        """
        def __init__(self, build_ctx):
            super().__init__(build_ctx)
            import subprocess
            self.child = subprocess.Popen(["sleep", "1000"], env={}, start_new_session=True)
        def report_status(self):
            return {"child": self.child.pid, "child_ended": self.child.poll()}
        def close(self):
            self.child.kill()
            self.child.wait()
        """
    )
    folder = PluginFolder(tmp_path / "plugins")
    folder.python("stays.py", CHANGELING)
    one = run_plugins(
        server, folder, flags=["--server-module", json.dumps({"module_path": "probe"})], environment=packages.environment()
    )
    one.allow("The guardian of the runtime plugins")
    one.wait_log(r"\[stays.py\] left")
    status = one.status()
    for which in ("plugin_watcher", "plugin_guardian"):
        os.kill(status[which], signal.SIGKILL)
    poll_until(lambda: one.status()["plugin_guardian"] is None, "a table that says so")
    poll_until(lambda: not folder.processes(), "an end of all", 10)
    assert one.status()["child_ended"] is None and alive(status["child"])
