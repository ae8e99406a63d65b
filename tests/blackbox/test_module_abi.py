"""The module ABI: modules built with the headers of earlier releases load for ever."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from house import ROOT, run_cli
from modules import COMPILER, KIT, SOURCES, Trace, answer, build, flags, spec

sys.path.insert(0, str(ROOT / "tests" / "abi"))
from layout import layout  # noqa: E402

RELEASES = sorted(p for p in (ROOT / "tests" / "abi").iterdir() if (p / "lmcached").is_dir())
EXAMPLES = ROOT / "examples"
GROWS = re.compile(r"_request$|_reply$|^lmc_module_class$|^lmc_memory_report$|^lmc_model_layout$|^lmc_module_image$")


def stripped(text):
    """Without comments and blanks: what the compiler sees."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return " ".join(text.split())


@pytest.mark.parametrize("release", RELEASES, ids=lambda p: p.name)
def test_a_module_built_with_the_headers_of_a_release_loads_and_works(server, raw, tmp_path, release):
    path = build(
        SOURCES / "probe.c", '-DNAME="OldModule"', '-DPREFIX="old"', '-DOVERRIDE="clear"', "-DLIVE",
        "-DNO_AWKWARD_METHODS", headers=release
    )
    trace = Trace(tmp_path)
    one = server(*flags(spec(path, trace=str(trace.path), subscribe="probe.said", override="after")))
    client = raw(one)
    assert answer(client, "old.echo", b"x") == "echo:x"
    assert client.call("clear") == "void"
    assert client.call("ping", 5) is True
    assert answer(client, "old.publish") == "published"
    assert "chunks=2 chained=1" in answer(client, "old.cache")
    status = one.status()["old"]
    assert status["afters"] == 1
    done = subprocess.run([KIT, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("release", RELEASES, ids=lambda p: p.name)
def test_nothing_that_crosses_the_line_has_moved_since_a_release(release):
    before = json.loads((release / "sizes.json").read_text())
    assert layout(release) == before, "the copy of a release was changed"
    now = layout(ROOT / "include")
    for name, struct in before.items():
        assert name in now, f"{name} is gone"
        reserved = now[name]["members"].get("reserved")
        for member, place in struct["members"].items():
            if member == "reserved":  # words of it may have become members
                assert reserved is None or reserved[0] + reserved[1] <= place[0] + place[1]
            else:
                assert now[name]["members"].get(member) == place, f"{name}.{member} has moved"
        if GROWS.search(name):
            assert now[name]["size"] >= struct["size"], name
        else:
            assert now[name]["size"] == struct["size"], f"{name} has another size"


@pytest.mark.parametrize("release", RELEASES, ids=lambda p: p.name)
def test_every_function_of_a_release_is_still_there_and_required_no_later(release):
    def functions(folder):
        text = "".join(header.read_text() for header in (folder / "lmcached").iterdir())
        return dict(re.findall(r"\bF\((lmc_\w+), (\d+)\)", text))

    before, now = functions(release), functions(ROOT / "include")
    assert before and before.items() <= now.items()


def test_the_copy_of_the_present_abi_is_the_present_headers():
    """As long as this ABI is not released its copy follows. Afterwards: a new minor, a new copy."""
    text = (ROOT / "include" / "lmcached" / "module.h").read_text()
    major, minor = (re.search(rf"#define LMC_ABI_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR"))
    copy = ROOT / "tests" / "abi" / f"{major}.{minor}" / "lmcached"
    assert {h.name for h in copy.iterdir()} == {h.name for h in (ROOT / "include" / "lmcached").iterdir()} - {"client.h"}
    for header in copy.iterdir():
        present = ROOT / "include" / "lmcached" / header.name
        assert stripped(header.read_text()) == stripped(present.read_text()), header.name


@pytest.mark.parametrize(
    "compiler",
    ["gcc -std=c99", "gcc -std=c17", "clang -std=c17", "g++ -std=c++11 -x c++", "clang++ -std=c++17 -x c++"],
)
def test_the_headers_are_clean_in_c_and_cpp(tmp_path, compiler):
    words = compiler.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]}")
    source = tmp_path / "module.c"
    source.write_text(
        "#include <lmcached/messages.h>\n#include <lmcached/module.h>\n"
        "static lmc_status create(lmc_build *b, void **self, lmc_error *e) {\n"
        '    (void)b; (void)self; return lmc_error_set(e, LMC_OK, "%d", 1); }\n'
        "static void say(void *self, lmc_call *call) { (void)self; lmc_complete(call, LMC_OK); }\n"
        'static const lmc_envelope methods[] = {{"a.b", say, {0}}, {0, 0, {0}}};\n'
        'static const lmc_module_class c = {sizeof(lmc_module_class), 0, "C", 0, 0, create, 0, 0, 0, methods, 0, 0, 0};\n'
        "LMC_MODULE(&c);\n"
    )
    output = tmp_path / "module.so"
    subprocess.run(
        [*words, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fPIC", "-shared", f"-I{ROOT / 'include'}",
         "-o", output, source], check=True,
    )  # fmt: skip
    symbols = subprocess.run(["nm", "-D", "--defined-only", output], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["lmcached_module"]
    needed = subprocess.run(["nm", "-D", "-u", output], capture_output=True, text=True, check=True).stdout
    assert "lmc_" not in needed
    assert run_cli("check-module", str(output)).returncode == 0


# ---- the examples ----


@pytest.mark.parametrize("name", ["hello_module", "native_module"])
def test_the_examples_build_out_of_the_tree_with_pkg_config(tmp_path, name):
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("*.so"))
    environment = {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(pathlib.Path(KIT).parent)}
    if not (pathlib.Path(KIT).parent / "lmcached-uninstalled.pc").exists():
        pytest.skip("the server under test is installed elsewhere")
    done = subprocess.run(
        ["make", "CFLAGS=-O2 -Wall -Wextra -Wpedantic -Werror"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (shared_object,) = folder.glob("*.so")
    done = run_cli("check-module", "--config", "{}", str(shared_object))
    assert done.returncode == 0 and done.stdout.endswith("nothing is wrong\n"), done.stdout


def test_the_hello_example_is_short():
    assert len((EXAMPLES / "hello_module" / "hello.c").read_text().splitlines()) < 60


def test_the_hello_example_greets(server):
    one = server(*flags(spec(build(EXAMPLES / "hello_module" / "hello.c"), greeting="Good day")))
    done = run_cli("call", one.url, "hello.greet", "Ann")
    assert (done.returncode, done.stdout) == (0, "Good day, Ann")
    one.allow("server module method hello.greet failed")
    done = run_cli("call", one.url, "hello.greet")
    assert done.returncode == 1 and "hello.greet failed: whom shall I greet?" in done.stderr
    assert one.status()["greetings"] == 1


def test_the_example_of_every_hook_does_what_it_says(server, raw):
    path = build(EXAMPLES / "native_module" / "every_hook.c", "-lzmq")
    one = server(*flags(spec(path, prefix=">")), shm=True)
    client = raw(one)
    one.allow("server module method echo.fail failed: boom")
    assert answer(client, "echo.say", b"hey") == ">hey"
    assert run_cli("call", one.url, "echo.fail").returncode == 1
    assert [client.call("noop") for _ in range(3)] == ["OK"] * 3
    assert client.call("ping", 5) is True
    worker = one.worker()
    assert worker.store(worker.key(list(range(8)), "r"), [b"\1" * worker.chunk_bytes] * 2)
    worker.client.end_session("r").result(10)
    worker.unregister()
    for _ in range(200):
        status = one.status()["watch"]
        metrics = one.get("/metrics").text
        if status["touched"] and 'lmcached_module_watch_module_stores_total{model="m"} 1\n' in metrics:
            break
    assert status["noops"] == 3 and status["touched"] >= 1
    assert one.get("/ext/WatchModule/noops").json == {"noops": 3}
    assert 'lmcached_module_watch_module_stores_total{model="m"} 1\n' in metrics
    assert COMPILER


# ---- the commands ----


def test_call_takes_its_payload_from_a_word_a_file_or_standard_input(server, tmp_path):
    one = server(*flags(spec(build(SOURCES / "probe.c"))))
    file = tmp_path / "payload"
    file.write_bytes(b"from a file \xff\x00")
    assert run_cli("call", one.url, "probe.echo", "word").stdout == "echo:word"
    assert run_cli("call", one.url, "probe.echo").stdout == "echo:"
    binary = subprocess.run([KIT.parent / "lmcached", "call", one.url, "probe.echo", f"@{file}"], capture_output=True)
    assert binary.stdout == b"echo:from a file \xff\x00"
    piped = subprocess.run([KIT.parent / "lmcached", "call", one.url, "probe.echo", "-"], input=b"piped", capture_output=True)
    assert piped.stdout == b"echo:piped"
    done = run_cli("call", one.url, "probe.echo", "@" + str(tmp_path / "nowhere"))
    assert done.returncode == 1 and "cannot read" in done.stderr
    done = run_cli("call", "tcp://127.0.0.1:1", "probe.echo", "--timeout", "0.2")
    assert done.returncode == 1 and "no answer from tcp://127.0.0.1:1 within 0.2 s" in done.stderr
    assert run_cli("call", one.url).returncode == 2


def test_the_kit_finds_what_is_wrong():
    good = subprocess.run([KIT, build(SOURCES / "probe.c", "-DNO_AWKWARD_METHODS")], capture_output=True, text=True, timeout=120)
    assert good.returncode == 0 and good.stdout.endswith("9 passed, 0 failed\n"), good.stdout
    bad = subprocess.run([KIT, build(SOURCES / "probe.c")], capture_output=True, text=True, timeout=300)
    assert bad.returncode == 1
    assert "FAIL  methods: each completes each call once: probe.twice: a call was completed twice" in bad.stdout
    assert "FAIL  methods: each completes each call once: probe.never: 1 of 1 calls were not completed" in bad.stdout
    sick = subprocess.run([KIT, "--config", '{"status": "junk"}', build(SOURCES / "probe.c", "-DNO_AWKWARD_METHODS")],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert 'FAIL  status: valid, in time, and its own: "status_errors":{"Probe":' in sick.stdout
    leaky = subprocess.run([KIT, "--config", '{"leak": true}', build(SOURCES / "probe.c", "-DNO_AWKWARD_METHODS")],
                           capture_output=True, text=True, timeout=120)  # fmt: skip
    assert "descriptors are left behind" in leaky.stdout and leaky.returncode == 1
