"""Native server modules: how they are found, checked, composed and closed. Numbers in names are those of the
conformance statements."""

import json
import os
import re
import signal
import socket

import pytest

from house import BINARY, free_ports, run_cli
from modules import answer, broken, composed, envelope, error_of, failed_start, flags, probe, spec

BASE = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]


# ---- command line and discovery ----


def test_01_two_flags_give_three_specs_in_order(server, trace):
    a, b, c = (probe(name) for name in ("AModule", "BModule", "CModule"))
    one = server(
        *flags(spec(a, trace=str(trace.path))),
        "--server-module", json.dumps([spec(b, trace=str(trace.path)), spec(c, trace=str(trace.path))]),
    )  # fmt: skip
    assert trace.of("create") == ["AModule", "BModule", "CModule"]
    shown = one.get("/config").json["mp"]["server_modules"]
    assert [m["module_path"] for m in shown] == [a, b, c]


@pytest.mark.parametrize(
    "value, text",
    [
        ("{", "--server-module must be valid JSON: "),
        ("", "--server-module must be valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('"x"', "--server-module entries must be JSON objects"),
        ("3", "--server-module entries must be JSON objects"),
        ("[[]]", "--server-module entries must be JSON objects"),
        ("{}", "server module module_path must be a non-empty string"),
        ('{"module_path": ""}', "server module module_path must be a non-empty string"),
        ('{"module_path": "./a.so", "config": null}', "server module config must be a JSON object"),
        ('{"module_path": "./a.so", "config": []}', "server module config must be a JSON object"),
        ('{"module_path": "./a.so", "factory_name": 3}', "server module factory_name must be a non-empty string"),
    ],
)
def test_02_a_bad_spec_is_refused_before_any_socket_is_bound(value, text):
    port, http_port = free_ports(2)
    with socket.socket() as taken:  # binding would fail with another text
        taken.bind(("127.0.0.1", http_port))
        done = run_cli("server", *BASE, "--port", str(port), "--http-port", str(http_port), "--server-module", value)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Starting" not in done.stderr


def test_03_an_empty_list_and_unknown_members_are_accepted(server):
    path = probe()
    one = server("--server-module", "[]", "--server-module", json.dumps({"module_path": path, "colour": "red"}))
    assert "Probe(dependencies=[])" in composed(one).group(2)


def test_04_a_module_that_is_not_named_is_not_loaded(server):
    named, other = probe("NamedModule"), probe("OtherModule")
    assert os.path.dirname(named) == os.path.dirname(other)
    one = server(*flags(spec(named)))
    with open(f"/proc/{one.process.pid}/maps") as maps:
        loaded = maps.read()
    assert named in loaded and other not in loaded
    assert "libpython" not in loaded


def test_a_path_given_twice_is_loaded_once_and_not_with_two_configurations(server, tmp_path):
    path = probe()
    one = server(*flags(spec(path, class_name="a"), spec(path, class_name="a")))
    one.allow(f"server module {re.escape(path)} is named twice; loaded once")
    one.wait_log("is named twice")
    assert composed(one).group(2).count("Probe(") == 1
    log = failed_start(tmp_path, spec(path), spec(path, trace="/tmp/x"))
    assert error_of(log) == f"duplicate server module path with different config: {path}"


def test_a_path_without_a_slash_is_of_the_working_directory(tmp_path):
    path = probe()
    done = run_cli("check-module", os.path.basename(path))
    assert done.returncode == 1 and "cannot open shared object file" in done.stdout
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        done = run_cli("check-module", os.path.basename(path), program=os.path.join(here, BINARY))
    finally:
        os.chdir(here)
    assert done.returncode == 0, done.stdout


# ---- graph, construction, close ----


def test_09_a_missing_dependency_and_a_cycle_fail_before_any_create(tmp_path, trace):
    lonely = probe("LonelyModule", depends=["NobodyModule"])
    log = failed_start(tmp_path, spec(lonely, trace=str(trace.path)))
    assert error_of(log).startswith("LonelyModule depends on 'NobodyModule', which is not a discoverable module")
    chicken = probe("ChickenModule", depends=["EggModule"])
    egg = probe("EggModule", depends=["ChickenModule", "LookupModule"])
    log = failed_start(tmp_path, spec(chicken, trace=str(trace.path)), spec(egg, trace=str(trace.path)))
    assert error_of(log) == "Module dependency cycle among: ChickenModule, EggModule"
    narcissus = probe("NarcissusModule", depends=["NarcissusModule"])
    log = failed_start(tmp_path, spec(narcissus, trace=str(trace.path)))
    assert error_of(log) == "Module dependency cycle among: NarcissusModule"
    assert trace.lines() == []


def test_10_construction_follows_dependencies_not_the_command_line(server, trace):
    first = probe("AlphaModule", depends=["LookupModule"])
    second = probe("BetaModule", depends=["AlphaModule"])
    one = server(*flags(spec(second, trace=str(trace.path)), spec(first, trace=str(trace.path))))
    assert trace.of("create") == ["AlphaModule", "BetaModule"]
    order = re.findall(r"(\w+)\(dependencies", composed(one).group(2))
    assert order.index("LookupModule") < order.index("AlphaModule") < order.index("BetaModule")
    assert order[-1] == "ManagementModule"


def test_11_a_class_that_declines_is_absent_and_its_dependents_are_still_built(server, trace, raw, tmp_path):
    shy = probe("ShyModule")
    friend = probe("FriendModule", depends=["ShyModule"])
    one = server(
        *flags(spec(shy, trace=str(trace.path), create="decline"), spec(friend, trace=str(trace.path)))
    )
    assert trace.of("create") == ["ShyModule", "FriendModule"]
    assert "ShyModule(" not in composed(one).group(2)
    status = one.status()
    assert "shy" not in status and "ShyModule" not in status["server_modules"]
    assert not any(m.startswith("shy.") for m in status["server_module_plugins"]["methods"])
    assert envelope(raw(one), "shy.echo")["error"] == "unknown server module method: shy.echo"
    wanting = spec(friend, create="require", **{"class": "ShyModule"})
    log = failed_start(tmp_path, spec(shy, create="decline"), wanting)
    assert error_of(log).startswith(
        "FriendModule: Module 'ShyModule' is not built yet; built so far: ['EngineDrivenTransferModule', "
    )


def test_12_the_log_line_names_each_module_and_its_dependencies(server):
    a, b = probe("AModule", depends=["LookupModule"]), probe("BModule", depends=["AModule", "P2PController"])
    one = server(*flags(spec(a), spec(b)))
    count, text = composed(one).groups()
    assert "AModule(dependencies=[LookupModule])" in text
    assert "BModule(dependencies=[AModule, P2PController])" in text
    assert text.count("(dependencies=") == int(count)


def test_13_close_is_the_exact_reverse_once_each_after_the_reaper(server, trace):
    a = probe("AModule", live=True)
    b = probe("BModule", depends=["AModule"], live=True)
    one = server(*flags(spec(b, trace=str(trace.path)), spec(a, trace=str(trace.path))))
    assert one.stop(signal.SIGTERM) == 0
    assert trace.of("create") == ["AModule", "BModule"]
    assert trace.of("close") == ["BModule", "AModule"]
    lines = trace.lines()
    first_close = next(i for i, line in enumerate(lines) if line.startswith("close"))
    assert not any(line.startswith(("reap", "drop", "touch")) for line in lines[first_close:])


def test_13_a_failed_start_closes_what_was_built_in_reverse(tmp_path, trace):
    a, b = probe("AModule"), probe("BModule", depends=["AModule"])
    sad = probe("SadModule", depends=["BModule"])
    specs = [spec(path, trace=str(trace.path)) for path in (a, b)]
    log = failed_start(tmp_path, *specs, spec(sad, trace=str(trace.path), create="fail"))
    assert error_of(log) == "SadModule: it was told to fail with 42"
    assert trace.of("create") == ["AModule", "BModule", "SadModule"]
    assert trace.of("close") == ["BModule", "AModule"]
    log = failed_start(tmp_path, *specs, spec(sad, create="silent"))
    assert error_of(log) == "SadModule: create: no memory"
    log = failed_start(tmp_path, *specs, spec(probe("LateModule"), trace=str(trace.path), registrar="fail"))
    assert "LateModule: it was told not to register" in log
    assert trace.of("close")[-1] == "AModule"


def test_14_a_close_that_hangs_is_named_and_does_not_prevent_the_others(server, trace):
    a, stuck, c = probe("AModule"), probe("StuckModule"), probe("CModule")
    one = server(
        *flags(
            spec(a, trace=str(trace.path)), spec(stuck, trace=str(trace.path), close="hang"),
            spec(c, trace=str(trace.path)),
        )
    )  # fmt: skip
    one.allow("closing StuckModule takes longer than 10.0 s; abandoned")
    assert one.stop() == 0
    assert trace.of("close") == ["CModule", "StuckModule", "AModule"]
    assert "closing StuckModule takes longer than 10.0 s; abandoned" in one.log()


def test_14_a_close_that_hangs_in_a_failed_start_does_not_make_it_succeed(tmp_path):
    log = failed_start(
        tmp_path, spec(probe("StuckModule"), close="hang"), spec(probe("SadModule"), create="fail")
    )
    assert "closing StuckModule takes longer than 10.0 s; abandoned" in log


# ---- what is refused when it is loaded ----


@pytest.mark.parametrize(
    "kind, text",
    [
        ("NO_SYMBOL", "{} is no lmcached module: it has no symbol 'lmcached_module'"),
        ("MAGIC", "{} is no lmcached module: its symbol 'lmcached_module' begins with 0x00000001, needs 0x4d434d4c"),
        ("MAJOR", "{} was built for module ABI 2.3; this server has 1.0 and needs major 1"),
        ("IMAGE_SMALL", "{}: its module data has 24 bytes, needs at least 64"),
        ("IMAGE_NEW", "{}: its module data has flags or members that this server (module ABI 1.0) does not know; "
                      "it was built for 1.3"),
        ("IMAGE_FLAGS", "{}: its module data has flags or members that this server (module ABI 1.0) does not know; "
                        "it was built for 1.3"),
        ("NO_CLASSES", "{} defines no module class"),
        ("NEEDS_FUNCTION", "{} needs the function 'lmc_from_the_future' of module ABI 1.7; this server has 1.0"),
        ("CLASS_SMALL", "{}: the struct of class 1 has 8 bytes, needs at least 40"),
        ("CLASS_NEW", "{}: BrokenModule uses members of lmc_module_class that this server does not know: its struct "
                      "has 104 bytes (module ABI 1.3), the server's 96 (1.0)"),
        ("BAD_NAME", "{}: class 1 has no valid name: 'No Name'"),
        ("CLASS_FLAGS", "{}: BrokenModule has unknown flags 0x40"),
        ("NO_CREATE", "{}: BrokenModule cannot be created: it has no create function"),
        ("TWO_METHODS", "{}: duplicate server module method: broken.answer"),
        ("UNKNOWN_OPERATION", "{}: BrokenModule: unknown operation 'brew_coffee'"),
        ("NON_BLOCKING", "{}: BrokenModule: operation 'noop': Non-blocking handler is not supported yet"),
        ("TWO_OPERATIONS", "{}: BrokenModule has multiple handlers for 'noop'"),
        ("LIVENESS_HOLE", "{}: BrokenModule has an incomplete liveness table"),
        ("RESERVED", "{}: BrokenModule: method broken.answer has members that this server does not know"),
        ("NEW_STRIDE_USED", "{}: BrokenModule: method broken.answer has members that this server does not know"),
        ("BAD_DEPENDENCY", "{}: BrokenModule has an invalid dependency: 'not a name'"),
        ("NULL_HANDLER", "{}: BrokenModule has no handler for server module method broken.answer"),
    ],
)  # fmt: skip
def test_damaged_data_is_refused_with_file_and_versions(tmp_path, kind, text):
    path = broken(kind)
    expected = "server module " + text.format(path)
    assert error_of(failed_start(tmp_path, spec(path))).startswith(expected)
    done = run_cli("check-module", path)
    assert done.returncode == 1
    assert f"violation: {expected}" in done.stdout and "      fix: " in done.stdout


def test_23_a_method_without_a_namespace_is_refused(tmp_path):
    path = broken("BARE_METHOD")
    expected = f"server module {path}: server module handler method must be namespaced (BrokenModule: 'answer')"
    assert error_of(failed_start(tmp_path, spec(path))) == expected
    done = run_cli("check-module", path)
    assert done.returncode == 1
    assert f"violation: {expected}\n      fix: " in done.stdout


def test_a_class_of_a_taken_name_is_refused(tmp_path):
    assert error_of(failed_start(tmp_path, spec(broken("SAME_CLASS")))) == (
        "duplicate server module class: LookupModule"
    )


@pytest.mark.parametrize("kind", ["OPTIONAL_FUNCTION", "CLASS_NEW_UNUSED", "CLASS_OLD", "NEW_STRIDE"])
def test_older_and_newer_modules_that_need_nothing_more_are_loaded(server, raw, kind):
    one = server(*flags(spec(broken(kind))))
    client = raw(one)
    assert answer(client, "broken.answer") == "without"
    if kind == "NEW_STRIDE":
        assert answer(client, "broken.again") == "without"
    if kind == "CLASS_OLD":  # its struct ends before the liveness table
        assert "worker_liveness" in one.status()
        assert client.call("ping", 5) in (True, False)


def test_what_cannot_be_loaded_is_refused_by_name(tmp_path):
    missing = str(tmp_path / "nowhere.so")
    assert error_of(failed_start(tmp_path, spec(missing))) == (
        f"server module {missing} cannot be loaded: {missing}: cannot open shared object file: "
        "No such file or directory"
    )
    text = tmp_path / "text.so"
    text.write_text("this is no shared object, however one looks at it\n" * 40)
    assert "invalid ELF header" in error_of(failed_start(tmp_path, spec(str(text))))
    script = tmp_path / "module.py"
    script.write_text(text.read_text())
    log = failed_start(tmp_path, spec(str(script)))
    assert "cannot be loaded" in error_of(log)
    assert f"WARNING: server module {script}: name a module in Python as an import does, with dots" in log


def test_a_refused_start_names_all_that_is_wrong_and_what_to_do():
    path = str(broken("MANY"))
    listed = run_cli("check-module", path).stdout
    fixes = re.findall(r"^      fix: (.*)$", listed, re.M)
    texts = re.findall(r"^violation: (.*)$", listed, re.M)
    done = run_cli("server", "--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--port", "0", "--http-port", "0",
                   "--server-module", json.dumps({"module_path": path}))  # fmt: skip
    assert done.returncode == 1 and len(fixes) == len(texts) == 4
    warned = re.findall(rf"WARNING: server module {re.escape(path)}: (.*) \(\S+\)$", done.stderr, re.M)
    assert warned == [fixes[0], *(f"{text}; {fix}" for text, fix in zip(texts[1:], fixes[1:]))]
    assert error_of(done.stderr) == texts[0]


def test_every_violation_is_listed():
    done = run_cli("check-module", broken("MANY"))
    assert done.returncode == 1
    assert done.stdout.count("violation: ") == 4 and done.stdout.count("      fix: ") == 4
    assert done.stdout.endswith("4 violations\n")
