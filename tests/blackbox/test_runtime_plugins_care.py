"""Runtime plugins under supervision: policies, readiness, limits, control, the program without a server."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.parse

import pytest
from house import BINARY, poll_until, run_cli
from plugin_house import PluginFolder, alive, lines_of, plugin, run_plugins, wait_state

SLEEPER = "import time\nprint('up', flush=True)\nwhile True: time.sleep(60)\n"


@pytest.fixture
def folder(tmp_path):
    return PluginFolder(tmp_path / "plugins")


def options(name, **values):
    return {f"plugin.{name}.{key}": value for key, value in values.items()}


# ---- restarts ----


def test_a_failing_plugin_is_started_again_and_given_up(server, folder):
    folder.python("weak.py", "raise SystemExit(5)")
    one = run_plugins(server, folder, config=options("weak.py", restart="on-failure", max_restarts=2))
    one.allow(r"is started again in", r"is given up after 2 restarts")
    row = wait_state(one, "weak.py", "FATAL")
    assert (row["exit_code"], row["restarts"], row["restart_policy"]) == (5, 2, "on-failure")
    assert one.log().count("Launched runtime plugin") == 3
    assert re.search(r"LMCache WARNING: Runtime plugin weak\.py is started again in \d\.\d s \(restart 1 of 2\)", one.log())
    assert "LMCache ERROR: Runtime plugin weak.py is given up after 2 restarts in a row" in one.log()


def test_success_is_no_reason_to_start_again_unless_always(server, folder):
    folder.python("done.py", "")
    folder.python("ever.py", "")
    config = {**options("done.py", restart="on-failure"), **options("ever.py", restart="always")}
    one = run_plugins(server, folder, config=config)
    one.allow(r"Runtime plugin ever\.py is started again in")
    poll_until(lambda: plugin(one, "ever.py")["restarts"] >= 1, "a restart")
    assert plugin(one, "done.py")["state"] == "EXITED" and plugin(one, "done.py")["restarts"] == 0


def test_what_a_run_left_behind_goes_before_the_next(server, folder):
    folder.python("messy.py", "import subprocess, sys\nsubprocess.Popen(['setsid', 'sleep', '1000'])\nraise SystemExit(1)\n")
    one = run_plugins(server, folder, config=options("messy.py", restart="on-failure", max_restarts=1))
    one.allow(r"is started again in", r"is given up")
    wait_state(one, "messy.py", "FATAL")
    assert len(folder.processes()) <= 1


# ---- readiness ----


def test_a_plugin_may_say_when_it_is_ready(server, folder):
    folder.python(
        "slow.py",
        "import os, time\nfd = int(os.environ['LMCACHE_RUNTIME_PLUGIN_READY_FD'])\n"
        "while not os.path.exists(__file__ + '.go'): time.sleep(0.02)\nos.write(fd, b'\\n')\ntime.sleep(1000)\n",
    )
    folder.python("plain.py", SLEEPER)
    one = run_plugins(server, folder, config=options("slow.py", ready_fd=True))
    wait_state(one, "plain.py", "RUNNING")
    assert plugin(one, "slow.py")["state"] == "STARTING"
    (folder.path / "slow.py.go").touch()
    wait_state(one, "slow.py", "RUNNING")
    assert "Runtime plugin slow.py is ready" in one.log()


# ---- limits ----


def test_limits_are_set(server, folder):
    folder.python(
        "limits.py",
        "import os, resource as r\n"
        "print(r.getrlimit(r.RLIMIT_AS)[0], r.getrlimit(r.RLIMIT_CPU)[0], r.getrlimit(r.RLIMIT_NOFILE)[0], "
        "os.getpriority(os.PRIO_PROCESS, 0), open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])\n",
    )
    values = dict(memory_mb=512, cpu_seconds=60, open_files=64, nice=3, no_new_privs=True)
    one = run_plugins(server, folder, config=options("limits.py", **values))
    one.wait_log(r"\[limits\.py\] ")
    nice = min(os.getpriority(os.PRIO_PROCESS, 0) + 3, 19)
    assert lines_of(one, "limits.py") == [f"{512 << 20} 60 64 {nice} 1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_plugin_may_run_as_another_user(server, folder):
    for path in (folder.path, *folder.path.parents):
        if str(path).startswith("/tmp/"):
            path.chmod(path.stat().st_mode | 0o055)
    file = folder.python(
        "who.py",
        "import json, os\nprint(os.getuid(), json.load(open(os.environ['LMCACHE_RUNTIME_PLUGIN_CONFIG_FILE']))"
        "['mp_config']['host'])\n",
    )
    file.chmod(0o644)
    folder.python("lost.py", "")
    one = run_plugins(server, folder, config={**options("who.py", user="nobody"), **options("lost.py", user="no-such-user")})
    one.allow(r"Failed to launch plugin .*lost\.py: there is no user no-such-user")
    one.wait_log(r"\[who\.py\] ")
    assert lines_of(one, "who.py") == ["65534 127.0.0.1"]
    assert wait_state(one, "lost.py", "FATAL")["exit_code"] is None


# ---- options ----


def test_options_that_are_none_are_told_once(server, folder):
    folder.python("a.py", SLEEPER)
    config = {
        **options("a.py", restart="sometimes", max_restarts=-1, speed=9), **options("b.py", restart="never"),
        "plugin.frontend.heartbeat_url": "http://h/", "other": 1,
    }  # fmt: skip
    one = run_plugins(server, folder, config=config)
    expected = [
        "plugin.a.py.restart must be never, on-failure or always", "plugin.a.py.max_restarts must be a whole number",
        "plugin.a.py.speed is not an option of a plugin", "plugin.b.py.restart: no plugin of this name is started",
    ]  # fmt: skip
    one.allow(*map(re.escape, expected))
    for text in expected:
        assert one.log().count(text) == 1, text
    assert "heartbeat_url" not in one.log()


def test_levels_and_streams_are_told_apart_when_asked_for(server, folder):
    folder.python(
        "levels.py",
        "import sys, time\nprint('E! bad', flush=True)\nprint('W! odd', flush=True)\nprint('D! detail', flush=True)\n"
        "print('plain', flush=True)\ntime.sleep(0.3)\nprint('E! on stderr', file=sys.stderr, flush=True)\n",
    )
    one = run_plugins(server, folder, config=options("levels.py", level_prefixes=True, split_stderr=True))
    one.allow(r"\[levels\.py\]")
    wait_state(one, "levels.py", "EXITED")
    for text in ("ERROR: [levels.py] bad", "WARNING: [levels.py] odd", "INFO: [levels.py] plain", "ERROR: [levels.py] on stderr"):
        assert f"LMCache {text} (" in one.log()
    assert "detail" not in one.log()
    lines = one.get("/plugins/levels.py/logs").json["lines"]
    assert [(line["stream"], line["level"], line["text"]) for line in lines] == [
        ("stdout", "ERROR", "bad"), ("stdout", "WARNING", "odd"), ("stdout", "DEBUG", "detail"), ("stdout", "INFO", "plain"),
        ("stderr", "ERROR", "on stderr"),
    ]  # fmt: skip
    assert plugin(one, "levels.py")["stderr_lines"] == 1


# ---- status and metrics ----


def test_status_and_metrics_show_every_plugin(server, folder):
    folder.python("a.py", SLEEPER)
    folder.python("b.py", "print('x'); raise SystemExit(4)")
    one = run_plugins(server, folder)
    wait_state(one, "a.py", "RUNNING")
    wait_state(one, "b.py", "EXITED")
    row = plugin(one, "a.py")
    assert row["path"] == f"{folder}/a.py" and alive(row["pid"]) and row["uptime_seconds"] >= 1
    assert (row["lines"], row["bytes"], row["dropped_lines"]) == (1, 3, 0)
    metrics = one.get("/metrics").text
    for line in (
        'lmcached_plugin_state{plugin="a.py",state="RUNNING"} 1', 'lmcached_plugin_state{plugin="b.py",state="EXITED"} 1',
        f'lmcached_plugin_pid{{plugin="a.py"}} {row["pid"]}', 'lmcached_plugin_last_exit_code{plugin="b.py"} 4',
        'lmcached_plugin_lines_total{plugin="a.py"} 1', 'lmcached_plugin_bytes_total{plugin="b.py"} 2',
        'lmcached_plugin_restarts_total{plugin="b.py"} 0', 'lmcached_plugin_dropped_lines_total{plugin="a.py"} 0',
    ):  # fmt: skip
        assert line in metrics.splitlines(), line


def test_without_plugins_the_families_are_there(server):
    one = server()
    assert one.status()["runtime_plugins"] == [] and one.status()["plugin_guardian"] is None
    metrics = one.get("/metrics").text
    assert "# TYPE lmcached_plugin_restarts_total counter" in metrics and "lmcached_plugin_restarts_total{" not in metrics
    assert one.get("/plugins").json == {"plugins": []}


# ---- control ----


def test_control_needs_its_option(server, folder):
    folder.python("a.py", SLEEPER)
    one = server("--runtime-plugin-locations", str(folder))
    wait_state(one, "a.py", "RUNNING")
    one.baseline = one.descriptors()
    assert [row["name"] for row in one.get("/plugins").json["plugins"]] == ["a.py"]
    for method, path in (("POST", "start"), ("POST", "stop"), ("POST", "restart"), ("GET", "logs")):
        reply = one.request(method, f"/plugins/a.py/{path}")
        assert reply.status == 403 and "--enable-plugin-control" in reply.json["detail"]
    assert one.request("GET", "/plugins/a.py/stop").status == 405


def test_plugins_are_stopped_started_and_restarted(server, folder):
    folder.python("a.py", SLEEPER)
    one = run_plugins(server, folder)
    first = wait_state(one, "a.py", "RUNNING")["pid"]
    assert one.request("POST", "/plugins/a.py/stop").status == 202
    row = wait_state(one, "a.py", "EXITED")
    assert row["exit_code"] == -15 and not alive(first)
    assert one.request("POST", "/plugins/a.py/start").status == 202
    second = wait_state(one, "a.py", "RUNNING")["pid"]
    assert second != first
    assert one.request("POST", "/plugins/a.py/restart").status == 202
    third = wait_state(one, "a.py", "RUNNING")
    assert third["pid"] != second and third["restarts"] == 1
    assert one.request("POST", "/plugins/nosuch.py/stop").status == 404
    assert one.request("POST", "/plugins/-/stop?name=" + f"{folder}/a.py").status == 202
    wait_state(one, "a.py", "EXITED")
    (folder.path / "a.py").unlink()
    assert one.request("POST", "/plugins/a.py/start").status == 409


def test_a_plugin_that_could_not_start_may_start_later(server, folder):
    folder.write("late.sh", "#!/no/such/shell\necho up; exec sleep 1000\n")
    one = run_plugins(server, folder, environment={"PATH": "/nonexistent"})
    one.allow("No valid interpreter found")
    wait_state(one, "late.sh", "FATAL")
    assert one.request("POST", "/plugins/late.sh/start").status == 409
    folder.write("late.sh", "#!/bin/sh\necho up; exec /bin/sleep 1000\n")
    assert one.request("POST", "/plugins/late.sh/start").status == 202
    wait_state(one, "late.sh", "RUNNING")


def test_stopping_ends_what_left_the_group(server, folder):
    folder.python("parent.py", "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '1000'])\n" + SLEEPER)
    one = run_plugins(server, folder)
    one.wait_log(r"\[parent\.py\] up")
    poll_until(lambda: len(folder.processes()) == 2, "the child")
    one.request("POST", "/plugins/parent.py/stop")
    wait_state(one, "parent.py", "EXITED")
    assert not folder.processes()


def test_the_command_line_controls_plugins(server, folder):
    folder.python("a.py", SLEEPER)
    one = run_plugins(server, folder)
    url = ["--url", f"127.0.0.1:{one.http_port}"]
    wait_state(one, "a.py", "RUNNING")
    table = run_cli("plugins", "list", *url)
    assert table.returncode == 0 and re.search(r"^a\.py +RUNNING +\d+ +0 +- ", table.stdout, re.M), table.stdout
    rows = json.loads(run_cli("plugins", "list", *url, "--format", "json").stdout)["plugins"]
    assert rows[0]["name"] == "a.py"
    assert run_cli("plugins", "logs", "a.py", *url).stdout == "up\n"
    stopped = run_cli("plugins", "stop", "a.py", *url)
    assert stopped.stdout == "a.py: EXITED\n" and stopped.returncode == 0
    started = run_cli("plugins", "start", "a.py", *url)
    assert started.stdout == "a.py: RUNNING\n" and started.returncode == 0
    again = run_cli("plugins", "restart", "a.py", *url)
    assert again.stdout == "a.py: RUNNING\n" and plugin(one, "a.py")["restarts"] == 1
    assert run_cli("plugins", "logs", "a.py", "-n", "2", *url).stdout == "up\nup\n"
    unknown = run_cli("plugins", "stop", "b.py", *url)
    assert unknown.returncode == 1 and "there is no runtime plugin b.py" in unknown.stderr


def test_logs_are_followed(server, folder):
    folder.shell("ticks.sh", "for i in 1 2 3 4 5; do echo tick $i; sleep 0.5; done; sleep 1000\n")
    one = run_plugins(server, folder)
    command = [BINARY, "plugins", "logs", "-f", "ticks.sh", "--url", f"127.0.0.1:{one.http_port}"]
    follow = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert [follow.stdout.readline() for _ in range(5)] == [f"tick {i}\n" for i in range(1, 6)]
    follow.send_signal(signal.SIGINT)
    assert follow.wait(10) == 130
    follow.stdout.close()


# ---- without a server ----


def test_plugins_run_ends_with_its_plugins(folder):
    folder.python("a.py", "print('hello')")
    done = run_cli("plugins", "run", str(folder))
    assert done.returncode == 0 and "[a.py] hello" in done.stderr and "exited with code 0" in done.stderr
    folder.python("b.py", "raise SystemExit(2)")
    assert run_cli("plugins", "run", str(folder)).returncode == 1
    nothing = run_cli("plugins", "run", str(folder) + "/none")
    assert nothing.returncode == 1 and "does not exist" in nothing.stderr
    odd = run_cli("plugins", "run", "/" + "x" * 300)
    assert odd.returncode == 1 and "cannot be looked at: File name too long" in odd.stderr


def test_plugins_run_passes_role_worker_and_configuration(folder):
    show = (
        "import os\nprint(os.environ['LMCACHE_RUNTIME_PLUGIN_ROLE'], os.environ['LMCACHE_PLUGIN_WORKER_ID'],"
        " os.environ['LMCACHE_RUNTIME_PLUGIN_WORKER_COUNT'], os.environ['LMCACHE_RUNTIME_PLUGIN_CONFIG'])\n"
    )
    for name in ("scheduler_a.py", "worker_3_b.py", "worker_4_c.py", "all_d.py", "plain.py"):
        folder.python(name, show)
    config = '{"a": 1, "plugin.plain.py.max_restarts": 3}'
    arguments = ["--role", "worker", "--worker-id", "3", "--worker-count", "8", "--config", config]
    done = run_cli("plugins", "run", str(folder), *arguments)
    assert done.returncode == 0, done.stderr
    for tag in ("worker_3_b.py", "all_d.py", "plain.py"):
        assert f"[{tag}] worker 3 8 {config} (" in done.stderr
    assert f"Skipping {folder}/scheduler_a.py: requires role SCHEDULER (" in done.stderr
    assert f"worker 3 is skipping plugin {folder}/worker_4_c.py, which is only for worker ID 4 (" in done.stderr
    refused = run_cli("plugins", "run", str(folder), "--config", "[1]")
    assert refused.returncode == 1 and "--config" in refused.stderr


def test_plugins_run_ends_on_sigterm_and_leaves_nothing(folder):
    folder.python("a.py", SLEEPER)
    command = [BINARY, "plugins", "run", str(folder)]
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "[a.py] up" in line:
                break
        process.send_signal(number)
        assert process.wait(20) == 0
        process.stderr.close()
        assert not folder.processes()


@pytest.mark.parametrize(
    "words, text",
    [
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["run"], "the following arguments are required: LOCATION"),
        (["stop"], "the following arguments are required: NAME"),
        (["stop", "a", "b"], "unrecognized arguments: b"),
        (["run", "x", "--worker-id", "z"], "argument --worker-id: invalid int value: 'z'"),
        (["list", "--role", "x"], "unrecognized arguments: --role"),
        (["logs", "a", "--url"], "argument --url: expected one argument"),
    ],
)
def test_wrong_words_are_exit_2(words, text):
    done = run_cli("plugins", *words)
    assert done.returncode == 2 and text in done.stderr


def test_the_guardian_is_not_for_people():
    done = run_cli("plugin-guardian")
    assert done.returncode == 2 and "started by the server only" in done.stderr


def test_time_is_not_lost_between_stop_and_start(server, folder):
    """A stop that nobody resists takes no grace."""
    folder.python("a.py", SLEEPER)
    one = run_plugins(server, folder)
    wait_state(one, "a.py", "RUNNING")
    start = time.monotonic()
    one.request("POST", "/plugins/a.py/stop")
    wait_state(one, "a.py", "EXITED")
    assert time.monotonic() - start < 3


def test_names_that_are_no_text_stay_different_and_can_be_controlled(server, folder):
    for byte in (b"\xfe", b"\xff"):
        file = os.fsencode(folder.path) + b"/odd" + byte + b".sh"
        with open(file, "wb") as out:
            out.write(b"#!/bin/sh\necho up\nsleep 1000\n")
    one = run_plugins(server, folder)
    names = [row["name"] for row in one.status()["runtime_plugins"]]
    assert names == [r"odd\xfe.sh", r"odd\xff.sh"]
    series = [line.rsplit(" ", 1)[0] for line in one.get("/metrics").text.split("\n") if line.startswith("lmcached_plugin_pid{")]
    assert len(series) == len(set(series)) == 2
    for name in names:
        one.wait_log(re.escape(f"[{name}] up"))
        assert one.request("POST", f"/plugins/{urllib.parse.quote(name, safe='')}/stop").status == 202
        wait_state(one, name, "EXITED")
