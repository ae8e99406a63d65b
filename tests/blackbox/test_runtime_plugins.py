"""Runtime plugins: the numbered statements 41 to 55 of the specification."""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import time

import pytest
from house import BINARY, ROOT, poll_until
from plugin_house import (
    PYTHON, PluginFolder, alive, descendants, dropped_of, lines_of, plugin, run_plugins, wait_state,
    zombies,
)  # fmt: skip

FOREVER = "import time\nwhile True: time.sleep(60)\n"


@pytest.fixture
def folder(tmp_path):
    return PluginFolder(tmp_path / "plugins")


def test_41_the_example_directory_starts_two_plugins(server):
    one = run_plugins(server, ROOT / "examples" / "mp_runtime_plugins", flags=["--chunk-size", "16"])
    one.wait_log(r"\[mp_plugin\.py\] Started")
    for tag in ("mp_plugin.py", "mp_heartbeat.sh"):
        one.wait_log(rf"\[{tag}\] Config: \{{\"mp_config\": ")
    one.wait_log(r"\[mp_heartbeat\.sh\] Server: ")
    one.wait_log(r"\[mp_plugin\.py\] HTTP: ")
    for tag in ("mp_plugin.py", "mp_heartbeat.sh"):
        text = "\n".join(lines_of(one, tag)[1:])
        assert f"127.0.0.1:{one.port}" in text and "chunk size 16" in text and "eviction LRU" in text
        shown = next(line for line in lines_of(one, tag) if line.startswith("Config: "))
        assert json.loads(shown[len("Config: ") :])["http_config"]["http_port"] == one.http_port
    assert {row["name"] for row in one.status()["runtime_plugins"]} == {"mp_plugin.py", "mp_heartbeat.sh"}


def test_41_the_quick_start_command_works_as_written(tmp_path):
    command = [
        PYTHON, "-m", "lmcache.v1.multiprocess.http_server", "--host", "localhost", "--port", "0", "--http-port", "0",
        "--l1-size-gb", "0.0625", "--eviction-policy", "LRU",
        "--runtime-plugin-locations", "examples/mp_runtime_plugins/",
    ]  # fmt: skip
    log = tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "LMCACHED_BIN": BINARY}
    with open(log, "wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        for text in (
            "[mp_plugin.py] Started", '[mp_plugin.py] Config: {"mp_config": {', '[mp_heartbeat.sh] Config: {"mp_config": {',
        ):  # fmt: skip
            poll_until(lambda: text in log.read_text(), text)
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()


def test_42_a_missing_location_warns_and_another_suffix_is_told(server, folder, tmp_path):
    folder.python("fine_one.py", "print('here')")
    text = folder.write("note.txt", "#!/bin/sh\necho no\n")
    (tmp_path / "broken").symlink_to("nowhere")
    one = run_plugins(server, tmp_path / "nosuch", tmp_path / "broken", text, folder)
    one.allow(r"Runtime plugin location .* does not exist", r"Failed to launch plugin .* not supported ")
    one.wait_log(r"\[fine_one\.py\] here")
    for name in ("nosuch", "broken"):
        assert f"LMCache WARNING: Runtime plugin location {tmp_path / name} does not exist (" in one.log()
    assert f"LMCache ERROR: Failed to launch plugin {text}: Plugin type .txt not supported  (" in one.log()
    row = plugin(one, "note.txt")
    assert (row["state"], row["pid"], row["exit_code"]) == ("FATAL", None, None)


def test_43_what_a_directory_stands_for(server, folder, tmp_path):
    say = "print('up')"
    for name in (".hidden.py", "deep/nested/inner.py", ".dir/also.py", "__init__.py"):
        folder.python(name, say)
    folder.shell("second.sh", "echo up")
    folder.python("x.PY", say)
    outside = PluginFolder(tmp_path / "outside")
    outside.python("linked_target.py", say)
    outside.python("unseen.py", say)
    (folder.path / "link.py").symlink_to(outside.path / "linked_target.py")
    (folder.path / "linked_folder").symlink_to(outside.path)
    (folder.path / "gone.py").symlink_to("nowhere.py")
    (folder.path / "folder.py").mkdir()
    os.mkfifo(folder.path / "pipe.py")
    one = run_plugins(server, folder)
    expected = [".dir/also.py", ".hidden.py", "__init__.py", "deep/nested/inner.py", "link.py", "second.sh"]
    rows = one.status()["runtime_plugins"]
    assert [row["path"] for row in rows] == [f"{folder}/{name}" for name in expected]
    for row in rows:
        one.wait_log(rf"\[{re.escape(row['name'])}\] up")
    assert "6 files" in one.log()


def test_43_a_file_reached_twice_starts_once(server, folder):
    file = folder.python("one.py", "print('up')")
    one = run_plugins(server, folder, f"{folder}/./{file.name}", file)
    one.allow(r"is the same file as")
    one.wait_log(r"\[one\.py\] up")
    assert len(one.status()["runtime_plugins"]) == 1
    assert one.log().count("is the same file as") == 2


def test_43_plugins_of_one_name_are_told_apart_by_their_paths(server, tmp_path):
    folders = [PluginFolder(tmp_path / name) for name in "ab"]
    for each in folders:
        each.python("same.py", "print('up')")
    one = run_plugins(server, *folders)
    for each in folders:
        one.wait_log(rf"\[{re.escape(str(each))}/same\.py\] up")


def test_44_names_decide_who_runs(server, folder):
    for name in ("worker_1_x.py", "worker_0_x.py", "scheduler_x.py", "worker_1.py", "my_tool_2.py", "worker_007_y.py"):
        folder.python(name, "print('up')")
    one = run_plugins(server, folder)
    for name in ("worker_0_x.py", "scheduler_x.py", "worker_1.py", "my_tool_2.py"):
        one.wait_log(rf"\[{re.escape(name)}\] up")
    assert (
        f"LMCache INFO: worker 0 is skipping plugin {folder}/worker_1_x.py, which is only for worker ID 1 (" in one.log()
    )
    assert f"worker 0 is skipping plugin {folder}/worker_007_y.py, which is only for worker ID 007 (" in one.log()
    assert len(one.status()["runtime_plugins"]) == 4


@pytest.fixture
def tools(tmp_path):
    """A PATH of our own: python and python3 that say which of them they are."""
    tools = PluginFolder(tmp_path / "bin")
    for name in ("python", "python3", "python9", "bash"):
        tools.program(name, f'#!/bin/sh\necho "run by {name} $#"\nshift $(($# - 1))\n')
    return tools


ROWS = {
    "plain": ("#!/bin/bash\n", ".py", "/bin/bash"),
    "blanks": ("#! /bin/bash \n", ".sh", "/bin/bash"),
    "path search": ("#!python3\n", ".py", "{bin}/python3"),
    "sh in sh": ("#!/bin/sh\n", ".sh", "/bin/sh"),
    "env": ("#!/usr/bin/env python3\n", ".py", "{bin}/python3"),
    "env of nothing": ("#!/usr/bin/env nosuch\n", ".py", "{bin}/python"),
    "argument": ("#!/bin/bash -e\n", ".sh", "/bin/bash -e"),
    "env -S": ("#!/usr/bin/env -S python3 -u\n", ".py", "{bin}/python3 -u"),
    "env with a variable": ("#!/usr/bin/env -S COLOUR=red python9 -u\n", ".py", "{bin}/python9 -u"),
    "missing": ("#!/opt/venv/bin/python\n", ".py", "{bin}/python"),
    "missing in sh": ("#!/opt/venv/bin/zsh\n", ".sh", "{bin}/bash"),
    "list": ("#!/opt/venv/bin/python,python9\n", ".py", "{bin}/python9"),
    "empty": ("#!\n", ".py", "{bin}/python"),
    "none": ("echo\n", ".sh", "{bin}/bash"),
    "crlf": ("#!/bin/sh\r\n", ".sh", "/bin/sh"),
    "byte order mark": (b"\xef\xbb\xbf#!python3\n", ".py", "{bin}/python3"),
    "bytes that are no text": (b"#!python3\n\xff\xfe\x00\n", ".py", "{bin}/python3"),
    "bytes that are no text at once": (b"\xff\xfe\x00\n", ".py", "{bin}/python"),
    "nothing in it": ("", ".py", "{bin}/python"),
}


def test_45_every_row_of_the_interpreter_table(server, folder, tools):
    wanted = {}
    for number, (first, suffix, interpreter) in enumerate(ROWS.values()):
        file = folder.write(f"row{number}{suffix}", first)
        wanted[file] = interpreter.format(bin=tools)
    one = run_plugins(server, folder, environment={"PATH": f"{tools}"})
    for file, interpreter in wanted.items():
        one.wait_log(rf"LMCache INFO: Launched runtime plugin: {re.escape(f'{file} with {interpreter}')} \(")


def test_45_no_interpreter_at_all(server, folder):
    file = folder.write("lost.py", "#!/no/such/thing\n")
    plain = folder.write("plain.sh", "echo\n")
    one = run_plugins(server, folder, environment={"PATH": "/nonexistent"})
    one.allow("No valid interpreter found")
    assert (
        f"Failed to launch plugin {file}: No valid interpreter found for {file} from "
        "['/no/such/thing', 'python', 'python3'] (" in one.log()
    )
    assert f"Failed to launch plugin {plain}: No valid interpreter found for {plain} from ['bash'] (" in one.log()


DUMP = """
import json, os, sys
json.dump({"environment": dict(os.environ), "cwd": os.getcwd(), "fds": sorted(map(int, os.listdir("/proc/self/fd"))),
           "argv": sys.argv}, open(sys.argv[0] + ".out", "w"))
print("written", flush=True)
"""


def dumped(one, file):
    one.wait_log(rf"\[{re.escape(file.name)}\] written")
    return json.loads(pathlib.Path(f"{file}.out").read_text())


def strict(text):
    def refuse(constant):
        raise AssertionError(f"not JSON: {constant}")

    return json.loads(text, parse_constant=refuse)


def test_46_the_environment_of_a_plugin(server, folder):
    file = folder.python("dump.py", DUMP)
    one = run_plugins(server, folder, environment={"MINE": "inherited", "PYTHONUNBUFFERED": "0"})
    seen = dumped(one, file)
    environment = seen["environment"]
    config = strict(environment["LMCACHE_RUNTIME_PLUGIN_CONFIG"])
    assert list(config) == ["mp_config", "storage_manager_config", "obs_config", "http_config"]
    for prefix in ("LMCACHE_RUNTIME_PLUGIN", "LMCACHE_PLUGIN"):
        assert environment[f"{prefix}_CONFIG"] == environment["LMCACHE_RUNTIME_PLUGIN_CONFIG"]
        assert environment[f"{prefix}_ROLE"] == ""
        assert environment[f"{prefix}_WORKER_COUNT"] == "1"
        assert environment[f"{prefix}_WORKER_ID"] == "0"
    assert environment["PYTHONUNBUFFERED"] == "1" and environment["MINE"] == "inherited"
    assert "LMCACHE_RUNTIME_PLUGIN_EXTRA_CONFIG" not in environment
    path = environment["LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE"]
    assert pathlib.Path(path).read_text() == environment["LMCACHE_RUNTIME_PLUGIN_CONFIG"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert seen["cwd"] == os.getcwd() and seen["argv"] == [str(file)]
    assert set(seen["fds"]) <= {0, 1, 2, 3}  # 3 is the listing's own
    shown = one.get("/config").json
    for section, name in (("mp", "mp_config"), ("storage_manager", "storage_manager_config"),
                          ("observability", "obs_config"), ("http", "http_config")):  # fmt: skip
        assert list(config[name].items()) == list(shown[section].items())
    one.judge()
    assert not os.path.exists(path) and not os.path.exists(os.path.dirname(path))


def test_46_the_extra_configuration_comes_last_and_verbatim(server, folder):
    file = folder.python("dump.py", DUMP)
    text = '{"plugin.frontend.heartbeat_url": "http://d:5000/h", "n": 1.50, "deep": {"t\\u00e4g": [1, null]}, "x": 1e400}'
    one = run_plugins(server, folder, config=text)
    raw = dumped(one, file)["environment"]["LMCACHE_RUNTIME_PLUGIN_CONFIG"]
    assert raw.isascii() and "\n" not in raw
    config = strict(raw)
    assert list(config)[-1] == "runtime_plugin_extra_config"
    expected = {"plugin.frontend.heartbeat_url": "http://d:5000/h", "n": 1.5, "deep": {"täg": [1, None]}, "x": None}
    assert config["runtime_plugin_extra_config"] == expected
    assert config["mp_config"]["runtime_plugin_config"]["extra_config"] == expected


def test_46_without_http_there_is_no_http_section(folder, tmp_path):
    file = folder.python("dump.py", DUMP)
    log = tmp_path / "log"
    command = [
        BINARY, "server", "--no-http", "--port", "0", "--prometheus-port", "0", "--l1-size-gb", "0.0625",
        "--eviction-policy", "LRU", "--runtime-plugin-locations", str(folder),
    ]  # fmt: skip
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        poll_until(lambda: "[dump.py] written" in log.read_text(), "the plugin's line")
        seen = json.loads(pathlib.Path(f"{file}.out").read_text())
        config = json.loads(seen["environment"]["LMCACHE_RUNTIME_PLUGIN_CONFIG"])
        assert list(config) == ["mp_config", "storage_manager_config", "obs_config"]
    finally:
        process.terminate()
        assert process.wait(30) == 0


def test_47_a_configuration_too_large_for_a_variable(server, folder):
    file = folder.python("dump.py", DUMP)
    text = json.dumps({"filling": "x" * 100_000})
    one = run_plugins(server, folder, config=text)
    one.allow(r"too many for the environment of a plugin")
    environment = dumped(one, file)["environment"]
    assert "LMCACHE_RUNTIME_PLUGIN_CONFIG" not in environment and "LMCACHE_PLUGIN_CONFIG" not in environment
    config = strict(pathlib.Path(environment["LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE"]).read_text())
    assert config["runtime_plugin_extra_config"] == json.loads(text)
    assert environment["LMCACHE_PLUGIN_WORKER_ID"] == "0"
    assert re.search(r"LMCache ERROR: The configuration has 2\d{5} bytes, too many for", one.log())


def test_48_output_of_every_kind(server, folder):
    folder.python(
        "odd.py",
        r"""
import sys, time
out = sys.stdout.buffer
out.write(b"  indented\t \n\n"); out.flush()
sys.stderr.write("from stderr\n"); sys.stderr.flush()
out.write(b"10%\r20%\r30%\r\nwindows\r\n"); out.flush()
out.write(b"bad \xff\xfe byte\n"); out.write(b"esc \x1b[31m bell\x07 nul\x00 tab\tend\n"); out.flush()
out.write("t\u00e4g \u20ac \U0001f600\n".encode()); out.flush()
out.write(b"prompt> "); out.flush(); time.sleep(2.5)
out.write(b"\nafter\nno newline at the end"); out.flush()
""",
    )
    one = run_plugins(server, folder)
    one.wait_log(r"Runtime plugin odd\.py exited with code 0")
    assert lines_of(one, "odd.py") == [
        "indented", "", "from stderr", "10%", "20%", "30%", "windows", "bad \ufffd\ufffd byte",
        "esc \\x1b[31m bell\\x07 nul\\x00 tab\\x09end", "täg € 😀", "prompt>", "after", "no newline at the end",
    ]  # fmt: skip


def test_48_a_line_of_ten_megabytes_comes_in_pieces(server, folder):
    folder.python("long.py", "import sys\nsys.stdout.write('y' * 10_000_000 + '\\nend\\n')\n")
    one = run_plugins(server, folder)
    one.allow(r"lines dropped")
    one.wait_log(r"Runtime plugin long\.py exited with code 0")
    poll_until(lambda: len(lines_of(one, "long.py")) + dropped_of(one, "long.py") == 154, "all pieces")
    pieces = lines_of(one, "long.py")
    assert all(len(piece) <= 65536 + len(" …[cont]") for piece in pieces)
    if not dropped_of(one, "long.py"):
        assert sum(len(piece.removesuffix(" …[cont]")) for piece in pieces[:-1]) == 10_000_000
        assert [piece.endswith(" …[cont]") for piece in pieces] == [True] * 152 + [False, False]
    assert plugin(one, "long.py")["bytes"] == 10_000_005


def test_48_a_hundred_thousand_lines_a_second_are_logged_or_counted(server, folder):
    folder.python("loud.py", "import sys\nsys.stdout.write(''.join(f'line {i}\\n' for i in range(100_000)))\n")
    one = run_plugins(server, folder)
    one.allow(r"lines dropped")
    slowest = 0.0
    while "Runtime plugin loud.py exited" not in one.log():
        start = time.monotonic()
        assert one.get("/healthcheck").status == 200
        slowest = max(slowest, time.monotonic() - start)
    poll_until(lambda: len(lines_of(one, "loud.py")) + dropped_of(one, "loud.py") == 100_000, "every line", 30)
    row = plugin(one, "loud.py")
    assert row["lines"] + row["dropped_lines"] >= 100_000 and row["dropped_lines"] == dropped_of(one, "loud.py")
    assert row["bytes"] == sum(len(f"line {i}\n") for i in range(100_000))
    numbers = [int(line.split()[1]) for line in lines_of(one, "loud.py")]
    assert numbers == sorted(numbers) and numbers[0] == 0
    assert slowest < 5, "the server did not answer while a plugin was loud"


def test_49_how_plugins_end(server, folder):
    folder.python("zero.py", "")
    folder.python("three.py", "raise SystemExit(3)")
    folder.python("killed.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    one = run_plugins(server, folder)
    for name, code in (("zero.py", 0), ("three.py", 3), ("killed.py", -9)):
        one.wait_log(rf"LMCache INFO: Runtime plugin {re.escape(name)} exited with code {code} \(")
        row = wait_state(one, name, "EXITED")
        assert (row["exit_code"], row["pid"], row["restarts"]) == (code, None, 0)


def test_50_plugins_end_with_the_server(server, folder):
    folder.write("mp_heartbeat.sh", (ROOT / "examples" / "mp_runtime_plugins" / "mp_heartbeat.sh").read_bytes())
    folder.shell("foreground.sh", "trap 'echo trapped; exit 0' SIGTERM\necho up\nwhile true; do sleep 1000; done\n")
    one = run_plugins(server, folder)
    one.wait_log(r"\[foreground\.sh\] up")
    one.wait_log(r"\[mp_heartbeat\.sh\] Server")
    start = time.monotonic()
    one.judge()
    took = time.monotonic() - start
    assert "[foreground.sh] trapped" in one.log() and "[mp_heartbeat.sh] Stopped" in one.log()
    for name in ("foreground.sh", "mp_heartbeat.sh"):
        assert f"Runtime plugin {name} exited with code 0" in one.log()
    assert took < 4, "a grace was waited for although everybody ended"
    assert one.log().index("exited with code 0") < one.log().index("LMCache HTTP server stopped")
    assert not folder.processes()


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)", sys.argv[0]])
time.sleep(0.2)
print("up", flush=True)
time.sleep(1000)
"""


def test_50_who_ignores_sigterm_is_killed_after_the_grace(server, folder):
    folder.python("stubborn.py", STUBBORN)
    folder.python("orphaned.py", STUBBORN.replace("time.sleep(1000)\n", "", 1) + "\n")
    folder.write("orphaned.py", f"#!{PYTHON}\n" + STUBBORN.rsplit("time.sleep(1000)", 1)[0])
    one = run_plugins(server, folder, flags=["--runtime-plugin-stop-grace-seconds", "0.5"])
    one.allow(r"did not end within 0\.5 s of SIGTERM; killing")
    one.wait_log(r"\[stubborn\.py\] up")
    one.wait_log(r"Runtime plugin orphaned\.py exited with code 0")
    assert len(folder.processes()) == 3
    one.judge()
    assert "Runtime plugin stubborn.py did not end within 0.5 s of SIGTERM; killing it" in one.log()
    assert "Runtime plugin stubborn.py exited with code -9" in one.log()
    assert not folder.processes()


LEAVERS = {
    "stubborn.py": STUBBORN,
    "setsid.py": """
import subprocess, sys, time
subprocess.Popen(["setsid", sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[0]])
print("up", flush=True)
time.sleep(1000)
""",
    "daemon.py": """
import os, signal, sys, time
print("up", flush=True)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for fd in range(3):
    os.close(fd)
time.sleep(1000)
""",
}


@pytest.fixture
def leavers(folder):
    for name, body in LEAVERS.items():
        folder.python(name, body)
    folder.shell("plain.sh", "echo up\nwhile true; do sleep 1000; done\n")
    return folder


def start_leavers(server, leavers):
    one = run_plugins(server, leavers)
    for name in (*LEAVERS, "plain.sh"):
        one.wait_log(rf"\[{re.escape(name)}\] up")
    wait_state(one, "daemon.py", "EXITED")
    poll_until(lambda: len(leavers.processes()) >= 6, "all processes")
    return one


def test_51_a_killed_server_leaves_no_plugin(server, leavers):
    one = start_leavers(server, leavers)
    guardian = one.status()["plugin_guardian"]
    owners = (guardian, one.status()["plugin_watcher"])
    everybody = [pid for pid in descendants(one.process.pid) if pid not in owners]
    assert len(everybody) >= 7
    one.kill()
    start = time.monotonic()
    poll_until(lambda: not any(map(alive, everybody)), "an end of all plugins", 10)
    assert time.monotonic() - start < 1.0
    assert not leavers.processes()
    poll_until(lambda: not any(map(alive, owners)), "the end of guardian and watcher", 10)
    one.judged = True


def test_51_a_killed_guardian_leaves_no_plugin_and_the_server_goes_on(server, leavers):
    one = start_leavers(server, leavers)
    guardian = one.status()["plugin_guardian"]
    config = pathlib.Path(f"/proc/{guardian}")
    assert config.exists()
    everybody = [pid for pid in descendants(one.process.pid) if pid != guardian]
    one.allow(r"The guardian of the runtime plugins \(process \d+\) is gone: killed by signal 9")
    os.kill(guardian, signal.SIGKILL)
    poll_until(lambda: not any(map(alive, everybody)), "an end of all plugins", 10)
    one.wait_log("The guardian of the runtime plugins")
    poll_until(lambda: one.status()["plugin_guardian"] is None, "a table that says so")
    assert one.log().count("LMCache ERROR") == 1
    assert one.get("/healthcheck").status == 200
    assert {row["state"] for row in one.status()["runtime_plugins"]} <= {"FATAL", "EXITED"}
    assert one.request("POST", "/plugins/plain.sh/start").status == 503
    assert not zombies(one.process.pid)
    one.baseline = one.descriptors()


def test_51_a_second_signal_ends_plugins_at_once(server, leavers):
    one = run_plugins(server, leavers, flags=["--runtime-plugin-stop-grace-seconds", "20"])
    one.wait_log(r"\[stubborn\.py\] up")
    everybody = [pid for pid in descendants(one.process.pid)]
    one.process.send_signal(signal.SIGTERM)
    one.wait_log("Stopping after signal 15")
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(10) == 128 + 15
    poll_until(lambda: not any(map(alive, everybody)), "an end of all plugins", 10)
    one.judged = True


def test_52_an_exit_is_told_although_somebody_holds_the_pipe(server, folder):
    folder.python(
        "holder.py",
        "import subprocess, sys\nsubprocess.Popen(['/bin/sh', '-c', 'sleep 1; echo late; sleep 1000', sys.argv[0]])\n",
    )
    one = run_plugins(server, folder)
    one.wait_log(r"Runtime plugin holder\.py exited with code 0", 5)
    one.wait_log(r"\[holder\.py\] late")
    assert one.log().index("exited with code 0") < one.log().index("[holder.py] late")


def test_53_signals_are_as_new(server, folder):
    folder.python(
        "signals.py",
        "import re\n"
        "text = open('/proc/self/status').read()\n"
        "print('masks', *[re.search(name + r':\\s*(\\w+)', text).group(1) for name in ('SigBlk', 'SigPnd', 'ShdPnd')])\n"
        "import signal\n"
        "print('ignored', [int(n) for n in range(1, 32) if n not in (9, 19, 13, 25)\n"
        "    and signal.getsignal(n) == signal.SIG_IGN], flush=True)\n"
        "signal.signal(signal.SIGTERM, lambda *a: (print('caught', flush=True), exit(7)))\n"
        "signal.pause()\n",
    )
    one = run_plugins(server, folder)
    one.wait_log(r"\[signals\.py\] ignored \[\]")
    assert lines_of(one, "signals.py")[0] == "masks " + " ".join(["0" * 16] * 3)
    one.judge()
    assert lines_of(one, "signals.py")[-1] == "caught"
    assert "Runtime plugin signals.py exited with code 7" in one.log()


def test_54_reading_stdin_is_the_end_of_file(server, folder):
    folder.shell("reader.sh", 'read -r line; echo "read $? <$line>"; cat; echo done\n')
    one = run_plugins(server, folder)
    one.wait_log(r"\[reader\.sh\] done")
    assert lines_of(one, "reader.sh") == ["read 1 <>", "done"]


def test_55_secrets_are_nowhere(server, folder):
    file = folder.python("dump.py", DUMP)
    config = {"db_password": "for-the-plugin", "plugin.dump.py.restart": "never"}
    one = run_plugins(server, folder, config=config, flags=["--instance-id", "http://me:hidden-word@host/"])
    seen = dumped(one, file)["environment"]
    raw = seen["LMCACHE_RUNTIME_PLUGIN_CONFIG"]
    assert "hidden-word" not in raw and "***" in raw
    assert json.loads(raw)["runtime_plugin_extra_config"]["db_password"] == "for-the-plugin"
    assert "for-the-plugin" not in one.get("/config").text
    assert "hidden-word" not in one.log() and "for-the-plugin" not in one.log()
    names = "mp_config, storage_manager_config, obs_config, http_config, runtime_plugin_extra_config"
    assert f"Runtime plugins get the configuration: {names} (" in one.log()


def test_55_secrets_are_passed_when_asked_for(server, folder):
    file = folder.python("dump.py", DUMP)
    flags = ["--instance-id", "http://me:hidden-word@host/", "--runtime-plugin-secrets", "pass"]
    one = run_plugins(server, folder, flags=flags)
    assert "hidden-word" in dumped(one, file)["environment"]["LMCACHE_RUNTIME_PLUGIN_CONFIG"]
    assert "hidden-word" not in one.log()
