"""What the documents say of the program: lists that must be complete, code that must compile."""

import json
import os
import re
import subprocess
import sys

import pytest

from house import ROOT, run_cli

PAGES = {page.name: page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))}
C_FILES = [
    (name, match[1], match[0])
    for name, text in PAGES.items()
    for match in re.finditer(r"/\* (\w+\.c) \*/\n.*?(?=^```$)", text, re.M | re.S)
]


def plain(path):
    """Without the names in braces, which differ between a document and the source."""
    return re.sub(r"\{\w+\}", "{}", path)


def served():
    found = set()
    for source in (ROOT / "src" / "http").glob("*_routes.c"):
        for path, methods in re.findall(r'\{"(/[^"]*)",\s*((?:LMC_HTTP_[A-Z]+[ |\n]*)+),', source.read_text()):
            found |= {(plain(path), method) for method in re.findall(r"LMC_HTTP_([A-Z]+)", methods)}
    return found


def listed():
    """Code spans such as `GET /a`; `GET`, `PUT /b`, `/c` are both methods of both paths."""
    found, methods, waiting = set(), [], []
    for span in re.findall(r"`([^`\n]+)`", PAGES["http.md"]):
        match = re.fullmatch(r"(GET|POST|PUT|PATCH|DELETE)?(?:^| |$)(/[\w/{}-]*)?", span)
        if match is None:
            continue
        method, path = match.groups()
        if path is None:
            waiting.append(method)
            continue
        if method is not None:
            methods, waiting = [*waiting, method], []
        found |= {(plain(path), each) for each in methods}
    return found


def test_every_path_of_the_http_port_is_listed_and_nothing_else():
    routes = served()
    assert len(routes) > 40
    assert routes - listed() == set() and listed() - routes == set()


@pytest.mark.parametrize("page, name, text", C_FILES, ids=[f"{page}:{name}" for page, name, _ in C_FILES])
def test_a_c_file_in_a_document_compiles_as_it_stands_and_works(page, name, text, tmp_path, server):
    (tmp_path / name).write_text(text)
    module = tmp_path / name.replace(".c", ".so")
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    built = subprocess.run([*command, "-o", module, tmp_path / name], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    checked = run_cli("check-module", "--config", '{"greeting": "Good day"}', str(module))
    assert checked.returncode == 0, checked.stdout
    one = server("--server-module", json.dumps({"module_path": str(module), "config": {"greeting": "Good day"}}))
    assert run_cli("call", one.url, "hello.greet", "Ann").stdout == "Good day"


def test_there_are_c_files_in_the_documents():
    assert [name for page, name, _ in C_FILES if page == "native-modules.md"] == ["hello.c"]


def test_the_scrape_configuration_is_yaml():
    yaml = pytest.importorskip("yaml")
    block = re.search(r"```yaml\n(.*?)```", PAGES["http.md"], re.S)[1]
    assert yaml.safe_load(block)["scrape_configs"][0]["static_configs"][0]["targets"]


def test_every_metric_in_the_documents_exists(server):
    families = set(re.findall(r"^# TYPE (\w+) ", server().get("/metrics").text, re.M))
    named = set()
    for text in PAGES.values():
        named |= set(re.findall(r"(?<![\w/])(?:lmcache_mp|lmcached)_[a-z0-9_]*[a-z0-9](?![\w.<*])", text))
    named = {name for name in named if not name.startswith("lmcached_module")}
    assert named and named - families == set()


# ---- the client's page: every example of it runs as it is pasted ----

CLIENT_PAGE = (ROOT / "python" / "README.md").read_text()
CLIENT_EXAMPLES = re.findall(r"^```python\n(.*?)^```$", CLIENT_PAGE, re.M | re.S)
SAYS = ["stored: True\nshm 2 True\n", "stored: True\npickle True\n", "True b'Hello, engine' \n"]


def paste(example, url):
    assert "tcp://localhost:5555" in example
    done = subprocess.run(
        [sys.executable, "-c", example.replace("tcp://localhost:5555", url)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_of_the_python_client_do_what_they_say(server, tmp_path):
    module = tmp_path / "hello.so"
    source = ROOT / "examples" / "hello_module" / "hello.c"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{ROOT / 'include'}", "-o", module, source], check=True)
    one = server("--chunk-size", "256", "--server-module", json.dumps({"module_path": str(module)}), shm=True)
    assert [paste(example, one.url) for example in CLIENT_EXAMPLES] == SAYS


def test_what_the_examples_print_stands_beside_them():
    for text in ("shm 2 True", "pickle True", "True b'Hello, engine'"):
        assert re.search(rf"# {re.escape(text)}$", CLIENT_PAGE, re.M)


# ---- the page of modules in Python: its classes load, its test passes ----

PYTHON_BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGES["python-modules.md"], re.M | re.S)


@pytest.fixture
def pasted(tmp_path):
    """A folder with the classes of the page as modules, and how to run Python and the server with it."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "server_module.py").write_text(PYTHON_BLOCKS[0])
    (taken,) = [block for block in PYTHON_BLOCKS if "class CountingLookups" in block]
    (tmp_path / "taken.py").write_text(taken)
    return tmp_path, {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{tmp_path}"}


def test_the_classes_of_the_page_of_modules_in_python_load(pasted):
    _folder, environment = pasted
    for module, shown in (("my_package.server_module", "my_package.echo"), ("taken", "lookup (BLOCKING)")):
        done = run_cli("check-module", module, environment=environment)
        assert done.returncode == 0 and shown in done.stdout, done.stdout + done.stderr


def test_the_test_without_a_server_of_the_page_passes(pasted):
    folder, environment = pasted
    (block,) = [block for block in PYTHON_BLOCKS if "class FakeLookups" in block]
    done = subprocess.run([sys.executable, "-c", block], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_where_there_is_no_dpkg_the_packages_are_listed(tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    script = ROOT / "scripts" / "install-deps"
    done = subprocess.run(["/bin/sh", script, "build"], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0 and " libzmq3-dev " in done.stderr and "python3-dev" in done.stderr
