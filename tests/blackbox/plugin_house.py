"""Tools of the tests of runtime plugins: files of plugins, their processes, a server with them."""

import json
import os
import pathlib
import re
import stat

from house import poll_until

PYTHON = "/usr/bin/python3"

# Ignores SIGTERM, as does a child of it in a session of its own.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["setsid", sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"])
time.sleep(1000)
"""

# Leaves its session, runs something else with an empty environment and other descriptors, is orphaned, and ignores
# SIGTERM: nothing that it could be known by is left, but that it descends from a plugin.
CHANGELING = """
import os, sys, time
body = ("import os, signal, time\\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
        "if os.fork() == 0: os.setsid()\\n"
        "time.sleep(1000)")
for double in (False, True):
    if os.fork() == 0:
        os.setsid()
        if double and os.fork(): os._exit(0)
        os.chdir("/")
        os.closerange(0, 256)
        os.execve(sys.executable, [sys.executable, "-c", body, os.path.dirname(sys.argv[0])], {})
print("left", flush=True)
if os.path.basename(sys.argv[0]) == "goes.py":
    os._exit(0)
time.sleep(1000)
"""


class PluginFolder:
    """A folder of plugin files; its path marks every process that runs one."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def __str__(self):
        return str(self.path)

    def python(self, name, body, shebang=f"#!{PYTHON}"):
        return self.write(name, f"{shebang}\n{body}")

    def shell(self, name, body, shebang="#!/bin/bash"):
        return self.write(name, f"{shebang}\n{body}")

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def program(self, name, body):
        file = self.write(name, body)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def processes(self):
        return processes_with(str(self.path))


def processes_with(text):
    """Numbers of the processes whose command line or environment has this text; zombies have none."""
    found = []
    wanted = text.encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            line = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
            if b"plugin-guardian" in line or b"\0server\0" in line:
                continue
            if wanted in line or wanted in pathlib.Path(f"/proc/{entry}/environ").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found


def descendants(pid):
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = pathlib.Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            fields = text[text.rindex(")") + 2 :].split()
            parents[int(entry)] = (int(fields[1]), fields[0])
    found, wanted = [], {pid}
    while wanted:
        wanted = {child for child, (parent, _) in parents.items() if parent in wanted}
        found += wanted
    return {child: parents[child][1] for child in found}


def zombies(pid):
    return [child for child, state in descendants(pid).items() if state == "Z"]


def run_plugins(server, *locations, config=None, flags=(), **options):
    """Starts a server with plugins and waits until all of them have a state of their own."""
    arguments = ["--runtime-plugin-locations", *map(str, locations)]
    if config is not None:
        arguments += ["--runtime-plugin-config", config if isinstance(config, str) else json.dumps(config)]
    one = server(*arguments, "--enable-plugin-control", *flags, **options)
    settle(one)
    one.baseline = one.descriptors()
    return one


def settle(one):
    """The plugins have been started; what opens descriptors has been done."""
    poll_until(lambda: one.status()["plugin_guardian"], "a guardian")


def plugin(one, name):
    rows = [row for row in one.status()["runtime_plugins"] if row["name"] == name]
    assert len(rows) == 1, (name, one.status()["runtime_plugins"])
    return rows[0]


def wait_state(one, name, *states, seconds=20.0):
    return poll_until(
        lambda: plugin(one, name) if plugin(one, name)["state"] in states else None, f"{name} {states}", seconds
    )


def lines_of(one, tag):
    """What the log has of a plugin's output."""
    pattern = re.compile(r"LMCache (?:INFO|WARNING|ERROR|DEBUG): \[" + re.escape(tag) + r"\] (.*) \([\w.]+:\d+:[\w.]+\)$")
    found = [match.group(1) for line in one.log().split("\n") if (match := pattern.search(line))]
    return [text for text in found if not re.fullmatch(r"\d+ lines dropped", text)]


def dropped_of(one, tag):
    return sum(int(n) for n in re.findall(r"\[" + re.escape(tag) + r"\] (\d+) lines dropped", one.log()))


def alive(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def run_with_owners(server, tmp_path):
    """A server with plugins of every stubbornness, its processes by name, and the folder of what must not stay."""
    folder = PluginFolder(tmp_path / "changelings")
    for name in ("goes.py", "stays.py"):
        folder.python(name, CHANGELING)
    folder.python("stubborn.py", STUBBORN)
    one = run_plugins(server, folder)
    for name in ("goes.py", "stays.py"):
        one.wait_log(rf"\[{name}\] left")
    poll_until(lambda: len(folder.processes()) >= 10, "all of them")
    status = one.status()
    numbers = {"server": one.process.pid, "guardian": status["plugin_guardian"], "watcher": status["plugin_watcher"]}
    assert len(set(numbers.values())) == 3
    return one, numbers, folder
