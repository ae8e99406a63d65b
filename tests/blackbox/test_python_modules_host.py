"""The host of server modules in Python: what it starts, liveness, status, the log, threads. Numbers in names are those of the
conformance statements."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time

from house import BINARY, free_ports, poll_until, run_cli
from modules import answer, spec
from python_packages import DROP, FOUR, TRACEBACK, needs_host, texts

pytestmark = needs_host


# ---- what is started, and when ----


def mapped(server):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return maps.read()


def test_38_without_a_python_module_there_is_no_python_library(server, host, packages):
    assert "libpython" not in mapped(server())
    assert "libpython" in mapped(host(packages.one_class("pass")))


def test_a_server_without_the_host_says_what_to_install(tmp_path):
    alone = tmp_path / "bin" / "lmcached"
    alone.parent.mkdir()
    shutil.copy(BINARY, alone)
    port, http_port = free_ports(2)
    words = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--port", str(port), "--http-port", str(http_port)]
    done = run_cli("server", *words, "--server-module", '{"module_path": "a.b"}', program=str(alone))
    assert done.returncode == 1
    (error,) = texts(done.stderr)
    assert error == (
        "--server-module a.b: the Python host is not installed (there is no lmcached-pyhost.so); "
        "install it, or build with python3-dev"
    )


INTERPRETER = """
@server_module_handler("probe.sys")
def look(self, payload):
    import json
    main = sys.modules["__main__"]
    return json.dumps({"executable": sys.executable, "prefix": sys.prefix, "argv": sys.argv, "path": sys.path,
                       "version": sys.version_info[:2], "main": main.__name__, "cwd": os.getcwd()}).encode()
"""


def test_sys_is_that_of_a_real_interpreter(host, packages, raw):
    one = host(packages.one_class(INTERPRETER))
    seen = json.loads(answer(raw(one), "probe.sys"))
    asked = subprocess.run([seen["executable"], "-c", "print(6*7)"], capture_output=True, text=True)
    assert asked.stdout.strip() == "42"
    assert seen["argv"][1] == "server" and "--server-module" in seen["argv"]
    assert seen["main"] == "__main__"
    assert os.path.isdir(f"{seen['path'][0]}/lmcache")
    assert seen["cwd"] not in seen["path"] and "" not in seen["path"]
    assert str(packages.folder) in seen["path"]


def host_python():
    """The interpreter that the host is built with."""
    return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def test_a_virtual_environment_gives_its_packages(host, packages, raw, tmp_path):
    home = tmp_path / "venv"
    subprocess.run([host_python(), "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python3*/site-packages")
    (site / "only_in_venv.py").write_text("HERE = 1\n")
    module = packages.one_class(INTERPRETER, more="import only_in_venv\n")
    seen = json.loads(answer(raw(host(module, environment={"VIRTUAL_ENV": str(home)})), "probe.sys"))
    assert seen["prefix"] == str(home)
    assert seen["executable"].startswith(str(home))


def test_an_option_names_the_interpreter(host, packages, raw, tmp_path):
    home = tmp_path / "chosen"
    subprocess.run([host_python(), "-m", "venv", "--without-pip", str(home)], check=True)
    module = packages.one_class(INTERPRETER)
    environment = {"VIRTUAL_ENV": str(tmp_path / "not there")}
    one = host(module, more=["--python-interpreter", f"{home}/bin/python3"], environment=environment)
    assert json.loads(answer(raw(one), "probe.sys"))["prefix"] == str(home)


def other_python(folder, version="3.1.4"):
    """Says that it is another version."""
    program = folder / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '{version}\\n%s\\n' \"$0\"\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_another_version_is_refused_with_one_line_that_names_both(refused, packages, tmp_path):
    program = other_python(tmp_path / "venv")
    log = refused(packages.one_class("pass"), environment={"VIRTUAL_ENV": str(tmp_path / "venv")})
    (error,) = texts(log)
    assert re.fullmatch(
        rf"VIRTUAL_ENV: {re.escape(str(program))} is Python 3\.1\.4, but this server's Python host is built with "
        r"Python 3\.\d+\.\d+\+?",
        error,
    )


def test_what_cannot_be_run_is_named(refused, packages):
    log = refused(packages.one_class("pass"), more=["--python-interpreter", "/no/such/python"])
    assert texts(log) == ["--python-interpreter: /no/such/python is no Python that can be run"]


# ---- liveness and status ----


def test_30_four_methods_make_a_target_and_three_do_not(host, packages):
    assert host(packages.one_class(FOUR + DROP)).status()["worker_liveness"]["tracked_instances"] == 3
    three = packages.one_class(FOUR, name="Three", module="three")
    assert host(three).status()["worker_liveness"]["tracked_instances"] == 0


def test_31_a_ping_touches_every_target_and_one_that_raises_loses_no_reply(host, packages, raw):
    raising = FOUR.replace('trace("touch", instance_id)', 'raise OSError("no touch")') + DROP
    first = packages.one_class(raising, name="First", module="first")
    second = packages.one_class(FOUR + DROP, name="Second", module="second")
    one = host(first, second)
    one.allow("no touch", TRACEBACK)
    client = raw(one)
    assert client.call("ping", 5) is True
    assert client.call("ping", None) is True
    poll_until(lambda: packages.of("touch") == ["5"], "the touch")
    one.wait_log(r"touch_instance\(\) of server module First failed: no touch")


def test_32_reaped_ids_are_dropped_on_every_target(host, packages):
    first = packages.one_class(FOUR + DROP, name="First", module="first")
    second = packages.one_class(FOUR.replace("[77]", '"ab"') + DROP, name="Second", module="second")
    one = host(first, second, more=["--worker-reap-timeout-seconds", "30", "--worker-registration-grace-seconds", "60"])
    one.allow("reap_stale_instances", TRACEBACK)
    poll_until(lambda: len(packages.of("drop")) >= 2, "drops", 30)
    assert packages.of("drop")[:2] == ["77", "77"]
    assert packages.of("reap")[:2] == ["30.0 60.0"] * 2


def test_33_a_later_module_wins_and_one_that_raises_is_named(host, packages):
    report = "def report_status(self):\n    return {shown}\n"
    modules = [
        packages.one_class(report.format(shown='{"a": 1, "b": {"c": 1}, 7: float("nan")}'), "A", module="a"),
        packages.one_class(report.format(shown='{"b": 2, "is_healthy": False}'), "B", module="b"),
        packages.one_class(report.format(shown="1 / 0"), "C", module="c"),
        packages.one_class(report.format(shown="[1]"), "D", module="d"),
        packages.one_class(report.format(shown='{"set": object()}'), "E", module="e"),
    ]
    one = host(*modules)
    one.allow("report_status", TRACEBACK)
    status = one.status()
    assert (status["a"], status["b"], status["7"], status["is_healthy"]) == (1, 2, None, False)
    assert status["status_errors"]["C"] == "division by zero"
    assert set(status["status_errors"]) >= {"C", "D"}
    assert "set" not in status or isinstance(status["set"], str)


def test_34_methods_are_sorted(host, packages):
    body = "".join(
        f'@server_module_handler("{name}")\ndef {name[2:]}(self, payload): pass\n' for name in ("z.b", "a.c", "z.a")
    )
    assert host(packages.one_class(body)).status()["server_module_plugins"] == {"methods": ["a.c", "z.a", "z.b"]}


# ---- the log, processes, threads ----


def test_36_a_modules_log_is_the_servers(host, packages):
    module = packages.one_class("pass", more="from lmcache.logging import init_logger\ninit_logger(__name__).info('so')\n")
    assert re.search(
        r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] LMCache INFO: so \(probe\.py:\d+:probe\)$", host(module).log(), re.M
    )


def test_37_multiprocessing_starts_no_second_server(host, packages, raw):
    packages.write("work", "def double(n):\n    return 2 * n\n", head="")
    module = packages.one_class(
        """
        @server_module_handler("probe.pool")
        def pool(self, payload):
            context = multiprocessing.get_context("spawn")
            with context.Pool(2) as pool:
                return str(pool.map(work.double, range(4))).encode()
        """,
        more="import multiprocessing, work\n",
    )
    one = host(module)
    assert answer(raw(one), "probe.pool") == "[0, 2, 4, 6]"
    assert one.log().count("Composed") == 1
    one.baseline = one.descriptors()  # multiprocessing keeps a resource tracker


def test_39_a_thread_that_never_ends_does_not_hold_the_stop(host, packages):
    module = packages.one_class(
        "pass",
        create="threading.Thread(target=time.sleep, args=(600,), name='for-ever').start()\nreturn cls(build_ctx)",
    )
    one = host(module)
    one.allow("thread 'for-ever' of a Python module has not ended; the server does not wait for it")
    before = time.monotonic()
    one.judge()
    assert time.monotonic() - before < 25  # the budget of the whole stop
    assert "for-ever" in one.log()


def test_40_events_are_delivered_and_a_raising_callback_hides_nothing(host, packages, raw):
    module = packages.one_class(
        """
        @server_module_handler("probe.publish")
        def publish(self, payload):
            bus = self.context.event_bus
            bus.publish(Event("probe.happened", "s1", {"n": 1, "list": [1, 2]}))
            return b""
        """,
        create="""
        bus = build_ctx.engine_context.event_bus
        def raising(event):
            raise ValueError("no event")
        bus.subscribe("probe.happened", raising)
        bus.subscribe("probe.happened", lambda e: trace("event", e.session_id, e.metadata, e.timestamp > 0))
        return cls(build_ctx)
        """,
        more="from lmcache.v1.mp_observability.event import Event\n",
    )
    one = host(module)
    one.allow("no event", TRACEBACK)
    answer(raw(one), "probe.publish")
    poll_until(lambda: packages.of("event"), "the event")
    assert packages.of("event") == ["s1 {'n': 1, 'list': [1, 2]} True"]
    one.wait_log("event subscriber of .* failed at probe.happened: no event")
    assert 'lmcache_mp_event_bus_subscriber_exceptions_total{subscriber_name="probe"} 1\n' in one.get("/metrics").text


def test_a_module_in_python_depends_on_a_native_one_and_the_order_is_that_of_the_command_line(host, packages):
    from modules import probe

    native = probe("NativeModule")
    module = packages.one_class('module_dependencies = ["NativeModule"]\n')
    free = packages.one_class("pass", name="Free", module="free")
    one = host(module, spec(native, trace=str(packages.folder / "native")), free)
    composed = re.search(r"Composed \d+ server modules: (.*) \(composition", one.log()).group(1)
    assert "NativeModule(dependencies=[]), Probe(dependencies=[NativeModule]), Free(dependencies=[])" in composed
