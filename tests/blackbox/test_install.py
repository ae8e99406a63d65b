"""What `make install` lays down, used as a stranger would: by pkg-config, man and bash."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from house import BINARY, ROOT, shm_name

BUILD = pathlib.Path(BINARY).resolve().parent

PROGRAM = r"""
#include <lmcached/client.h>
#include <stdio.h>
int main(int count, char **arguments) {
    lmc_client *client = count > 1 ? lmc_client_open(arguments[1]) : NULL;
    int64_t tokens = 0;
    if (client == NULL || lmc_client_chunk_size(client, 10, &tokens) != LMC_OK)
        return 1;
    printf("%lld\n", (long long)tokens);
    lmc_client_close(client);
    return 0;
}
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    if not (BUILD / "manual" / "lmcached.bash").exists():
        pytest.skip(f"{BUILD} holds a part of the build only")
    folder = tmp_path_factory.mktemp("stage")
    run("cmake", "--install", BUILD, env={**os.environ, "DESTDIR": str(folder)})
    return folder


@pytest.fixture(scope="module")
def prefix(stage):
    cache = (BUILD / "CMakeCache.txt").read_text()
    return stage / re.search(r"^CMAKE_INSTALL_PREFIX:PATH=/(.*)$", cache, re.M)[1]


@pytest.fixture(scope="module")
def finding(stage, prefix):
    """The environment in which pkg-config finds what was installed."""
    folder = next(prefix.glob("lib/**/pkgconfig"))
    return {**os.environ, "PKG_CONFIG_PATH": str(folder), "PKG_CONFIG_SYSROOT_DIR": str(stage)}


@pytest.mark.skipif(os.environ.get("LMC_HOUSE") == "asan", reason="the library needs the sanitizer's runtime first")
def test_a_c_client_builds_out_of_the_tree_with_pkg_config(prefix, finding, server, tmp_path):
    source = tmp_path / "client.c"
    source.write_text(PROGRAM)
    flags = run("pkg-config", "--cflags", "--libs", "lmcached-client", env=finding).split()
    run("cc", "-Wall", "-Werror", source, "-o", tmp_path / "client", *flags)
    library = next(prefix.glob("lib/**/liblmcached-client.so")).parent
    told = run(tmp_path / "client", server("--chunk-size", "12").url, env={"LD_LIBRARY_PATH": str(library)})
    assert told == "12\n"


@pytest.fixture(scope="module")
def store_and_load(prefix, finding, tmp_path_factory):
    """The example of the C client, as a stranger builds it; what it prints is returned."""
    source = prefix / "share/doc/lmcached/examples/c_client/store_and_load.c"
    program = tmp_path_factory.mktemp("example") / "store_and_load"
    flags = run("pkg-config", "--cflags", "--libs", "lmcached-client", env=finding).split()
    run("cc", "-Wall", "-Werror", source, "-o", program, *flags)
    library = next(prefix.glob("lib/**/liblmcached-client.so")).parent
    return lambda url: run(program, url, env={"LD_LIBRARY_PATH": str(library)})


@pytest.mark.skipif(os.environ.get("LMC_HOUSE") == "asan", reason="the library needs the sanitizer's runtime first")
def test_the_example_of_a_c_client_stores_and_loads(store_and_load, server):
    told = store_and_load(server("--chunk-size", "256", shm=True).url)
    assert "stored 131072 bytes: yes\nchunks found: 1\nloaded back: the same bytes\n" == told


@pytest.mark.skipif(os.environ.get("LMC_HOUSE") == "asan", reason="the library needs the sanitizer's runtime first")
def test_the_example_of_a_c_client_copies_bytes_where_there_is_no_pool(store_and_load, server):
    told = store_and_load(server("--chunk-size", "256").url)
    assert told.splitlines() == [
        "byte copy: the server offers no pool",
        "stored 131072 bytes: yes", "chunks found: 1", "loaded back: the same bytes",
    ]  # fmt: skip


@pytest.mark.skipif(os.environ.get("LMC_HOUSE") == "asan", reason="the library needs the sanitizer's runtime first")
def test_the_example_of_a_c_client_copies_bytes_where_the_pool_is_out_of_reach(store_and_load, server):
    name = shm_name()
    one = server("--chunk-size", "256", "--shm-name", name)
    pool = pathlib.Path("/dev/shm", f"lmcache_l1_pool_{name}")
    away = pool.rename(f"{pool}.away")
    try:
        told = store_and_load(one.url)
    finally:
        away.rename(pool)
    assert told.startswith("byte copy: cannot open the pool ")
    assert told.endswith("stored 131072 bytes: yes\nchunks found: 1\nloaded back: the same bytes\n")


@pytest.mark.skipif(os.environ.get("LMC_HOUSE") == "asan", reason="the library needs the sanitizer's runtime first")
def test_the_example_of_a_c_client_builds_and_runs_with_what_is_only_built(tmp_path, server):
    flags = run("pkg-config", "--cflags", "--libs", "lmcached-client", env={**os.environ, "PKG_CONFIG_PATH": str(BUILD)})
    program = tmp_path / "store_and_load"
    run("cc", ROOT / "examples" / "c_client" / "store_and_load.c", *flags.split(), "-o", program)
    assert run(program, server("--chunk-size", "256", shm=True).url).endswith("loaded back: the same bytes\n")
    other = subprocess.run([program, server("--chunk-size", "16").url], capture_output=True, text=True)
    assert other.returncode == 1 and other.stderr == "the server has --chunk-size 16, this example 256\n"


def test_the_examples_of_modules_build_from_what_is_installed(prefix, finding):
    example = prefix / "share/doc/lmcached/examples/hello_module"
    run("make", "-C", example, env=finding)
    told = run(prefix / "bin/lmcached", "check-module", example / "hello.so")
    assert "hello" in told.lower()


@pytest.mark.parametrize("example", ["hello_module/hello.so", "native_module/every_hook.so"])
def test_the_examples_of_modules_build_in_a_tree_that_is_only_built(tmp_path, example):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.so"))
    (tmp_path / "build").symlink_to(BUILD)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PKG_CONFIG")}
    module = tmp_path / "examples" / example
    run("make", "-C", module.parent, env=environment)
    assert "nothing is wrong" in run(BINARY, "check-module", module)


def test_a_module_that_is_not_there_is_one_line_also_where_the_package_is_installed(prefix):
    done = subprocess.run(
        [prefix / "bin/lmcached", "check-module", "not_there.module"], capture_output=True, text=True
    )
    errors = [line for line in done.stderr.splitlines() if " ERROR: " in line]
    assert len(errors) == 1 and "No module named 'not_there'; install not_there for" in errors[0], done.stderr
    assert "/../" not in done.stderr + done.stdout


def test_what_the_installed_pages_link_to_is_installed(prefix):
    pages = list((prefix / "share/doc/lmcached").rglob("*.md"))
    assert len(pages) > 8
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page} links to {target}"


def test_both_names_are_installed_and_are_one_program(prefix):
    told = {name: run(prefix / "bin" / name, "version") for name in ("lmcached", "lmcache")}
    assert told["lmcached"] == told["lmcache"] != ""
    assert os.readlink(prefix / "bin/lmcache") == "lmcached"


def test_the_man_page_has_every_option_of_help(prefix):
    page = (prefix / "share/man/man8/lmcached-server.8").read_text().replace("\\-", "-")
    flags = re.findall(r"^  (?:-h, )?(--\S+)", run(prefix / "bin/lmcached", "server", "--help"), re.M)
    assert len(flags) > 50
    assert [flag for flag in flags if not re.search(rf"^\.B .*{re.escape(flag)}\b", page, re.M)] == []


def complete(prefix, *words):
    script = prefix / "share/bash-completion/completions/lmcached"
    program = prefix / "bin/lmcached"
    quoted = " ".join(f"'{word}'" for word in (program, *words))
    asked = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _lmcached {program}"
    return run("bash", "-c", asked + '; printf "%s\\n" "${COMPREPLY[@]}"').split()


def test_the_man_pages_have_every_action_variable_and_exit_status(prefix):
    page = (prefix / "share/man/man1/lmcached.1").read_text().replace("\\-", "-")
    for action in ("run", "list", "start", "stop", "restart", "logs"):
        options = re.findall(r"--[a-z-]+", run(BINARY, "plugins", action, "--help"))
        part = page.split(f".SS lmcached plugins {action}\n")[1].split(".SS")[0]
        assert options and all(option in part for option in options)
    assert ".SS lmcached ping kvcache" not in page  # its help is ping's
    server = (prefix / "share/man/man8/lmcached-server.8").read_text().replace("\\-", "-")
    for text in (page, server):
        variables, statuses = text.split(".SH ENVIRONMENT\n")[1].split(".SH EXIT STATUS\n")
        assert "LMCACHE_LOG_LEVEL" in variables
        assert [line[3:] for line in statuses.split("\n") if line.startswith(".B ")][:3] == ["0", "1", "2"]
        assert ".B 128+N" in statuses
    assert "LMCACHE_COORDINATOR_URL\nThe value of --coordinator-url when" in server


def test_bash_completes_commands_options_and_choices(prefix):
    assert complete(prefix, "des") == ["describe"]
    assert complete(prefix, "server", "--l1-use-l") == ["--l1-use-lazy"]
    assert "--no-l1-use-lazy" in complete(prefix, "server", "--no-")
    assert "LRU" in complete(prefix, "server", "--eviction-policy", "")
    assert complete(prefix, "server", "--transport", "") == ["zmq"]  # what the server would refuse is not offered
    assert complete(prefix, "ping", "--r") == ["--ready"]
    assert complete(prefix, "--l1-use-l") == ["--l1-use-lazy"]  # `server` may be left out
    assert complete(prefix, "--l1-size-gb", "8", "--eviction-policy", "L") == ["LRU"]
    assert complete(prefix, "--vers") == ["--version"]


def test_bash_completes_actions_payloads_and_files(prefix, tmp_path):
    assert complete(prefix, "plugins", "sto") == ["stop"]
    assert complete(prefix, "plugins", "") == ["run", "list", "start", "stop", "restart", "logs"]
    assert complete(prefix, "kvcache", "") == ["clear"]
    assert complete(prefix, "kvcache", "clear", "") == []
    assert complete(prefix, "plugins", "logs", "--f") == ["--follow"]
    assert complete(prefix, "plugins", "logs", "--h") == ["--help"]
    for command in (["ping", "kvcache"], ["describe", "kvcache"], ["plugins", "list"]):
        assert complete(prefix, *command, "--format", "") == ["terminal", "json"]
        assert complete(prefix, *command, "--url", "") == []
    (tmp_path / "result.json").touch()
    assert complete(prefix, "ping", "--output", tmp_path / "res") == [str(tmp_path / "result.json")]
    assert "--timeout" in complete(prefix, "call", "--t")
    (tmp_path / "payload.json").write_text("{}")
    assert complete(prefix, "call", "tcp://localhost:5555", "a.b", f"@{tmp_path}/pay") == [f"@{tmp_path}/payload.json"]
    assert complete(prefix, "check-module", f"{tmp_path}/p") == [f"{tmp_path}/payload.json"]
    assert complete(prefix, "plugins", "run", f"{tmp_path}/p") == [f"{tmp_path}/payload.json"]


def test_the_unit_starts_the_program_that_was_installed(prefix):
    unit = (prefix / "lib/systemd/system/lmcached.service").read_text()
    assert re.search(r"^ExecStart=/\S+/bin/lmcached server ", unit, re.M) and "@" not in unit


def test_the_server_accepts_the_line_in_the_unit(prefix):
    unit = (prefix / "lib/systemd/system/lmcached.service").read_text()
    words = re.search(r"^ExecStart=\S+ server (.*)", unit, re.M)[1].split()
    done = subprocess.run([BINARY, "server", "--check-config", *words], capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(prefix, tmp_path):
    copy = tmp_path / "lmcached.service"
    unit = (prefix / "lib/systemd/system/lmcached.service").read_text()
    copy.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={BINARY}", unit, flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers")
def test_the_units_user_can_be_made_from_what_is_installed(prefix, tmp_path):
    lines = (prefix / "lib/sysusers.d/lmcached.conf").read_text()
    command = ["systemd-sysusers", "--dry-run", f"--root={tmp_path}", "-"]
    told = subprocess.run(command, input=lines, capture_output=True, text=True).stderr
    user = re.search(r"^User=(\w+)", (prefix / "lib/systemd/system/lmcached.service").read_text(), re.M)[1]
    assert f"Creating group '{user}'" in told and f"Creating user '{user}'" in told


def test_nothing_that_is_installed_names_the_folder_it_was_built_in(prefix):
    naming = [p.name for p in prefix.rglob("*") if p.is_file() and not p.is_symlink() and p.suffix in (".pc", ".service")
              and str(ROOT).encode() in p.read_bytes()]  # fmt: skip
    assert naming == []
