"""Server modules in Python that do what they should not: each line says the exact message, and the
server lives, or fails to start, as specified."""

import os
import re
import time

import pytest

from house import poll_until
from modules import answer, envelope, failed_start, spec
from python_packages import TRACEBACK, needs_host, texts

pytestmark = needs_host


@pytest.fixture
def refused(tmp_path, packages, monkeypatch):
    def start(*modules, more=()):
        for name, value in packages.environment().items():
            monkeypatch.setenv(name, value)
        return failed_start(tmp_path, *map(spec, modules), more=more)

    return start


def last_error(log):
    return texts(log)[-1]


CALLS = '@server_module_handler("probe.do")\ndef do(self, payload):\n    {}\n'
STILL = '@server_module_handler("probe.still")\ndef still(self, payload):\n    return b"here"\n'


def serves(one, raw):
    """Core operations and the other methods of the module go on."""
    client = raw(one)
    assert client.call("noop") == "OK"
    assert answer(client, "probe.still") == "here"


# ---- while the server starts ----


@pytest.mark.parametrize(
    "what, text",
    [
        ("raise ValueError('no import')", "Failed to import engine module bad: no import"),
        ("import no_such_package_at_all", "Failed to import engine module bad: No module named 'no_such_package_at_all'"),
        ("raise SystemExit(3)", "Failed to import engine module bad: 3"),
        ("sys.exit('bye')", "Failed to import engine module bad: bye"),
        ("raise KeyboardInterrupt", "Failed to import engine module bad: "),
        ("def broken(:", "Failed to import engine module bad: "),
    ],
)
def test_07_an_import_that_fails(refused, packages, what, text):
    log = refused(packages.write("bad", what + "\n"))
    assert last_error(log).startswith(text), log
    assert "Traceback (most recent call last):" in log


@pytest.mark.parametrize(
    "what, first",
    [
        ("raise ValueError('no import')", r"ValueError: no import \(at {bad}:\d+\)"),
        ("raise ValueError('two\\nlines')", r"ValueError: two lines \(at {bad}:\d+\)"),
        ("def broken(:", r"SyntaxError: .* \(at {bad}:\d+\)"),
        ("import json.nothing_here", r"ModuleNotFoundError: No module named 'json\.nothing_here' \(at {bad}:\d+\); "
         r"json is there \(\S+/json/__init__\.py\), this part of it is not"),
        ("sys.exit('bye')", r"SystemExit: bye \(at {bad}:\d+\); a module must not end the process while it is imported"),
    ],
)  # fmt: skip
def test_07_the_first_line_of_a_failed_import_says_it_all(refused, packages, what, first):
    log = refused(packages.write("bad", what + "\n"))
    path = re.escape(str(packages.folder / "bad.py"))
    line, second = texts(log)[:2]
    assert re.fullmatch("Failed to import engine module bad: " + first.format(bad=path), line), line
    assert second.startswith("Traceback")
    if "SyntaxError" not in line:  # there is no other frame
        assert "_loader.py" not in log and "importlib" not in log


@pytest.mark.parametrize(
    "path, advice",
    [
        ("bad.Module", r"bad is there \({bad}\), this part of it is not; module_path names a module, not a class in it"),
        ("bad:Module", "module_path names a module, not a class in it: bad"),
    ],
)
def test_a_class_instead_of_its_module_is_told_so(refused, packages, path, advice):
    packages.write("bad", "")
    first, *rest = texts(refused(path))
    assert re.search(f"; {advice.format(bad=re.escape(str(packages.folder / 'bad.py')))}$", first), first
    assert len(rest) == 1  # that the start failed


def test_a_package_that_is_not_there_is_named_with_where_it_was_looked_for(refused):
    first, *rest = texts(refused("not_there.server_module"))
    assert rest == ["Failed to import engine module not_there.server_module: No module named 'not_there'"]
    assert first.startswith(
        "Failed to import engine module not_there.server_module: ModuleNotFoundError: No module named 'not_there'; install not_there for /"
    )


@pytest.mark.parametrize(
    "create, text",
    [
        ("raise ValueError('no create')", "Probe: no create"),
        ("sys.exit(4)", "Probe: 4"),
        ("return 3", "server module probe class Probe returned a non-EngineModule value: 3"),
        ("return 'text'", "server module probe class Probe returned a non-EngineModule value: 'text'"),
        ("build_ctx.require(int)", "is not built yet"),
        ("build_ctx.config_for(cls)['limit']", "Probe: KeyError: 'limit'"),
        ("raise Odd()", "Probe: "),
    ],
)
def test_a_create_that_fails_closes_what_was_built(refused, packages, create, text):
    odd = "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError('no text')\n"
    bad = packages.one_class("pass", create=create, more=odd)
    good = packages.one_class("pass", name="Good", module="good")
    log = refused(good, bad)
    assert text in last_error(log), log
    assert packages.of("create") == ["Good"]
    assert packages.of("close") == ["Good"]


def test_a_create_that_raises_is_told_in_one_line_with_the_place(refused, packages):
    log = refused(packages.one_class("pass", create="raise ValueError('no create')"))
    first, second = texts(log)[:2]
    assert re.fullmatch(
        rf"create\(\) of server module Probe failed: ValueError: no create \(at {packages.folder}/probe\.py:\d+\)", first
    )
    assert second.startswith("Traceback") and last_error(log) == "Probe: no create"


def test_a_registrar_that_raises_closes_everything(refused, packages):
    bad = packages.one_class("def register_zmq_services(self, server):\n    raise OSError('no port')\n")
    log = refused(packages.one_class("pass", name="Good", module="good"), bad)
    assert last_error(log).endswith("no port")
    first = next(text for text in texts(log) if "Traceback" not in text)
    assert first.startswith("register_zmq_services() of server module Probe failed: OSError: no port (at ")
    assert packages.of("close") == ["Probe", "Good"]


def test_signal_handlers_of_modules_do_not_take_the_stop(host, packages, raw):
    take = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGINT, print)\n"
    one = host(packages.one_class(STILL, create=take + "return cls(build_ctx)"))
    for number in (15, 2):
        one.allow(f"Probe set a handler for signal {number}; stop signals stay the server's")
    serves(one, raw)
    one.judge()
    assert "set a handler for signal 15" in one.log()


# ---- handlers ----


@pytest.mark.parametrize(
    "what, error",
    [
        ("raise ValueError('boom')", "boom"),
        ("raise ValueError", ""),
        ("raise KeyError('k')", "'k'"),
        ("sys.exit(5)", "5"),
        ("raise SystemExit", ""),
        ("raise KeyboardInterrupt", ""),
        ("raise BaseException('base')", "base"),
        ("raise GeneratorExit", ""),
        ("raise ValueError('line one\\nline two')", "line one\nline two"),
        ("raise ValueError('\\udcff')", None),
        ("return self.nothing", "'Probe' object has no attribute 'nothing'"),
        ("def again(): again()\n    again()", "maximum recursion depth exceeded"),
        ("raise MemoryError", ""),
    ],
)
def test_a_handler_that_raises_fails_its_own_call(host, packages, raw, what, error):
    one = host(packages.one_class(CALLS.format(what) + STILL))
    one.allow("server module method probe.do failed", TRACEBACK)
    reply = envelope(raw(one), "probe.do")
    assert reply["success"] is False and reply["payload"] == b""
    assert error is None or reply["error"] == error
    serves(one, raw)


def test_an_override_that_raises_is_answered_with_the_negative(host, packages, raw):
    module = packages.one_class(
        STILL + "@request_handler(HandlerType.BLOCKING)\ndef query_prefetch_status(self, request_id: str) -> int | None:\n"
        "    raise RuntimeError('no status')\n"
    )
    one = host(module)
    one.allow("Error handling operation query_prefetch_status: failed: no status; answered with its negative", TRACEBACK)
    assert raw(one).call("query_prefetch_status", "r") == 0
    serves(one, raw)


@pytest.mark.parametrize(
    "result, complaint",
    [("'text'", "chunk_count must be an int, not str"), ("[]", "chunk_count must be an int, not list"),
     ("2**70", "chunk_count does not fit in 64 bits"), ("object()", "chunk_count must be an int, not object")],
)  # fmt: skip
def test_an_override_with_a_wrong_result(host, packages, raw, result, complaint):
    module = packages.one_class(
        STILL + "@request_handler(HandlerType.BLOCKING)\ndef query_prefetch_status(self, request_id: str) -> int | None:\n"
        f"    return {result}\n"
    )
    one = host(module)
    one.allow("Error handling operation query_prefetch_status", TRACEBACK)
    assert raw(one).call("query_prefetch_status", "r") == 0
    one.wait_log(re.escape(complaint))
    serves(one, raw)


def test_the_module_deletes_its_own_attributes(host, packages, raw):
    what = "self.__dict__.clear()\n    del Probe.do, Base.report_status, Base.close, Base.context\n    return b'done'"
    one = host(packages.one_class(CALLS.format(what) + STILL))
    one.allow("report_status", "close", TRACEBACK)
    assert answer(raw(one), "probe.do") == "done"
    serves(one, raw)
    one.status()
    one.judge()


def test_a_fork_in_a_handler_goes_no_further_than_the_handler(host, packages, raw):
    what = """
    child = os.fork()
    if child == 0:
        if payload == b"exit":
            os._exit(7)
        if payload == b"raise":
            raise ValueError("in the child")
        if payload == b"sys":
            sys.exit(9)
        if payload == b"speak":
            print("spoken by the child")
            try:
                self.context.token_hasher.compute_chunk_hashes([1, 2, 3, 4])
            except RuntimeError as failure:
                print(failure)
            os._exit(3)
        return b"from the child"
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode()
    """
    one = host(packages.one_class(CALLS.format(what.strip()) + STILL))
    client = raw(one)
    assert answer(client, "probe.do", b"exit") == "7"
    assert answer(client, "probe.do", b"raise") == "1"
    assert answer(client, "probe.do", b"sys") == "9"
    assert answer(client, "probe.do", b"speak") == "3"
    assert answer(client, "probe.do", b"return") == "0"
    one.wait_log(r"(?m)^spoken by the child$")
    one.wait_log(r"(?m)^the server is not in this forked child$")
    one.wait_log("a child that a server module forked returned from its handler; it ends here")
    serves(one, raw)


def test_a_subprocess_and_its_signals_are_its_own(host, packages, raw):
    what = """
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    child.terminate()
    return str(child.wait(20)).encode()
    """
    one = host(packages.one_class(CALLS.format(what.strip()) + STILL))
    assert answer(raw(one), "probe.do") == "-15"
    serves(one, raw)


def test_a_megabyte_of_output_becomes_lines_of_the_log(host, packages, raw):
    what = 'for i in range(10000):\n        print("x" * 99, i)\n    print("no end", end="")\n    return b""'
    one = host(packages.one_class(CALLS.format(what) + STILL))
    answer(raw(one), "probe.do")
    serves(one, raw)
    poll_until(lambda: "x 9999 " in one.log(), "the last line")
    assert len(re.findall(r"LMCache INFO: x{99} \d+ \(", one.log())) == 10000
    one.judge()
    assert "LMCache INFO: no end (" in one.log()


def test_output_that_is_no_text(host, packages, raw):
    what = 'print("\\x1b[31mred\\x00\\udcff")\n    print("y" * 100000)\n    sys.stderr.write("err\\n")\n    return b""'
    one = host(packages.one_class(CALLS.format(what) + STILL))
    one.allow(r"LMCache ERROR: err \(")
    answer(raw(one), "probe.do")
    serves(one, raw)
    one.wait_log(r"LMCache INFO: \\x1b\[31mred\\x00")
    assert "\x1b" not in one.log().replace("\x1b[", "", 0) or "\x1b[31mred" not in one.log()
    poll_until(lambda: one.log().count("y") >= 100000, "the long line")


def test_a_thread_of_a_module_that_raises_is_in_the_log(host, packages, raw):
    one = host(packages.one_class(STILL, create="threading.Thread(target=lambda: 1 / 0, name='t').start()\nreturn cls(build_ctx)"))
    one.allow("uncaught exception in thread t", TRACEBACK, r"lmcache\.python\)", "division by zero", "Traceback", "File")
    serves(one, raw)
    one.wait_log("division by zero")


# ---- while it runs, and at the end ----


def test_a_status_that_takes_long_is_waited_for_once(host, packages, raw):
    slow = "told = []\ndef report_status(self):\n    if not self.told:\n        self.told.append(1)\n        time.sleep(4)\n"
    one = host(packages.one_class(slow + "    return {'probe': 1}\n" + STILL))
    before = time.monotonic()
    status = one.status()
    assert time.monotonic() - before < 3
    assert "Probe" in status["status_errors"] and "probe" not in status
    serves(one, raw)
    poll_until(lambda: one.status().get("probe") == 1, "its return")


@pytest.mark.parametrize("what", ["raise OSError('no close')", "sys.exit(6)", "raise KeyboardInterrupt('no close')"])
def test_14_a_close_that_raises_does_not_stop_the_others(host, packages, what):
    first = packages.one_class("pass", name="First", module="first")
    bad = packages.one_class(f"def close(self):\n    trace('close', 'Bad')\n    {what}\n", name="Bad", module="bad")
    last = packages.one_class("pass", name="Last", module="last")
    one = host(first, bad, last)
    one.allow(r"close\(\) of server module Bad failed", TRACEBACK)
    one.judge()
    assert packages.of("close") == ["Last", "Bad", "First"]
    assert re.search(r"close\(\) of server module Bad failed: (no close|6)", one.log())


def test_a_close_that_hangs_is_abandoned_by_name(host, packages):
    good = packages.one_class("pass", name="Good", module="good")
    bad = packages.one_class("def close(self):\n    time.sleep(600)\n")
    one = host(good, bad)
    one.allow("Probe", "abandoned", "takes longer")
    assert one.stop() == 0
    one.judged = True
    assert packages.of("close") == ["Good"]
    assert re.search(r"Probe.*(10|longer)", one.log())


def test_a_handler_that_never_returns_does_not_hold_the_stop(host, packages, raw):
    one = host(packages.one_class(CALLS.format("while True: pass") + STILL), more=["--max-cpu-workers", "2"])
    one.allow("probe.do", "has not returned", "abandoned", "is still", "handler")
    client = one.client()
    client.call("server_module_call", {"method": "probe.do", "payload": b""})
    serves(one, raw)
    one.close_clients()
    before = time.monotonic()
    assert one.stop() in (0, 1)
    one.judged = True
    assert time.monotonic() - before < 25


def test_exit_functions_run_once_after_the_modules_are_closed(host, packages):
    module = packages.one_class("pass", more="import atexit\natexit.register(lambda: trace('atexit', 'ran'))\n")
    one = host(module)
    one.judge()
    assert packages.lines()[-2:] == ["close Probe", "atexit ran"]


def test_an_executor_that_was_left_running_ends(host, packages, raw):
    body = """
    @server_module_handler("probe.submit")
    def submit(self, payload):
        self.executor.submit(time.sleep, 0)
        return b""
    """
    create = (
        "from concurrent.futures import ThreadPoolExecutor\nmodule = cls(build_ctx)\n"
        "module.executor = ThreadPoolExecutor(2)\nreturn module"
    )
    one = host(packages.one_class(body, create=create))
    answer(raw(one), "probe.submit")
    one.judge()


def test_the_environment_of_children_is_unchanged(host, packages, raw):
    what = "import subprocess\n    return subprocess.check_output(['env'])"
    one = host(packages.one_class(CALLS.format(what) + STILL))
    seen = dict(line.split("=", 1) for line in answer(raw(one), "probe.do").splitlines() if "=" in line)
    assert seen["PYTHONPATH"] == str(packages.folder)
    assert "PYTHONEXECUTABLE" not in seen and os.environ.get("LD_PRELOAD") == seen.get("LD_PRELOAD")


# ---- everything else that the server calls ----

TARGET = """
def touch_instance(self, instance_id): {touch_instance}
def reap_stale_instances(self, reap_timeout_s, registration_grace_s): {reap_stale_instances}
def tracked_instance_count(self): {tracked_instance_count}
def drop_instance_state(self, instance_id): {drop_instance_state}
def report_status(self): {report_status}
"""
GOOD = {
    "touch_instance": "trace('touch', instance_id)", "reap_stale_instances": "return [77]",
    "tracked_instance_count": "return 3", "drop_instance_state": "trace('drop', instance_id)",
    "report_status": "return {'probe': 1}",
}  # fmt: skip


@pytest.mark.parametrize(
    "hook, what, text",
    [
        ("touch_instance", "raise ValueError('no touch')", "no touch"),
        ("touch_instance", "sys.exit(3)", "3"),
        ("touch_instance", "del self.touch_instance", "touch_instance"),
        ("reap_stale_instances", "raise ValueError('no reap')", "no reap"),
        ("reap_stale_instances", "sys.exit('bye')", "bye"),
        ("reap_stale_instances", "return 7", "reap_stale_instances() must return a list"),
        ("reap_stale_instances", "return ['a']", "'str' object cannot be interpreted as an integer"),
        ("reap_stale_instances", "return [2**70]", "int too big to convert"),
        ("tracked_instance_count", "raise ValueError('no count')", "no count"),
        ("tracked_instance_count", "return 'three'", "'str' object cannot be interpreted as an integer"),
        ("tracked_instance_count", "return None", "'NoneType' object cannot be interpreted as an integer"),
        ("drop_instance_state", "raise ValueError('no drop')", "no drop"),
        ("drop_instance_state", "raise KeyboardInterrupt('stop')", "stop"),
        ("report_status", "raise ValueError('no status')", "no status"),
        ("report_status", "sys.exit(4)", "4"),
        ("report_status", "return None", "report_status returned NoneType, expected a dict"),
        ("report_status", "return [1]", "report_status returned list, expected a dict"),
        ("report_status", "return {'a': {1, 2}}", "report_status has a set, which JSON cannot hold"),
    ],
)
def test_a_hook_that_fails_is_named_and_everything_else_goes_on(host, packages, raw, hook, what, text):
    module = packages.one_class(TARGET.format(**{**GOOD, hook: what}) + STILL)
    other = packages.one_class(TARGET.format(**GOOD).replace("'probe'", "'other'"), name="Other", module="other")
    reaping = ["--worker-reap-timeout-seconds", "30", "--worker-registration-grace-seconds", "60"]
    one = host(module, other, more=reaping)
    one.allow(rf"{hook}\(\) of server module Probe failed: ", TRACEBACK)
    assert raw(one).call("ping", 5) is True
    status = one.status()
    if hook in ("reap_stale_instances", "drop_instance_state"):
        poll_until(lambda: "77" in packages.of("drop"), "a round of the reaper", 30)
    one.wait_log(re.escape(f"LMCache ERROR: {hook}() of server module Probe failed: ") + ".*" + re.escape(text))
    poll_until(lambda: "5" in packages.of("touch"), "the touch of the other module")
    if hook == "report_status":
        assert status["status_errors"] == {"Probe": text} and status["other"] == 1
    else:
        assert status["probe"] == 1 and "status_errors" not in status
    serves(one, raw)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_of_any_kind_starts_no_second_server(host, packages, raw, method):
    packages.write("work", "def double(n):\n    return 2 * n\n", head="")
    what = f"""
    import multiprocessing, work
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        return str(pool.map(work.double, range(4))).encode()
    """
    one = host(packages.one_class(CALLS.format(what.strip()) + STILL))
    assert answer(raw(one), "probe.do") == "[0, 2, 4, 6]"
    serves(one, raw)
    assert one.log().count("Composed") == 1
    one.baseline = one.descriptors()  # multiprocessing keeps a resource tracker


@pytest.mark.parametrize("how", ["sys.exit(3)", "raise KeyboardInterrupt", "import no_such_package", "server.start_up()"])
def test_a_registrar_that_fails_in_any_way_ends_the_start_in_order(refused, packages, how):
    log = refused(packages.one_class(f"def register_zmq_services(self, server):\n    {how}\n"))
    first = next(text for text in texts(log) if "Traceback" not in text)
    assert first.startswith("register_zmq_services() of server module Probe failed: "), log
    assert packages.of("close") == ["Probe"]


def test_an_instance_whose_handlers_are_refused_is_closed(refused, packages):
    bad = packages.one_class("@request_handler(HandlerType.SYNC)\ndef noop(self) -> int:\n    return 1\n")
    log = refused(bad)
    assert last_error(log) == "Probe: Handler Probe.noop return annotation int does not match RPC 'noop' type str"
    assert packages.lines() == ["create Probe", "close Probe"]
