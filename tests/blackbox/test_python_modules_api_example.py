"""The example package of docs/python-modules.md passes its own tests."""

import os
import shutil
import subprocess

from house import BINARY, ROOT
from python_house import needs_host

pytestmark = needs_host


def test_the_example_package_passes_its_own_tests_wherever_it_lies(tmp_path):
    copy = tmp_path / "mine"
    shutil.copytree(ROOT / "examples" / "python_module", copy)
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(copy)],
        cwd=copy,
        env={**os.environ, "LMCACHED_BIN": BINARY, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout
