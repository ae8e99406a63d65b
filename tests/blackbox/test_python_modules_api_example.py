"""The example package of docs/python-modules.md passes its own tests."""

import os
import subprocess

from house import BINARY, ROOT
from python_house import needs_host

pytestmark = needs_host


def test_the_example_package_passes_its_own_tests():
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "examples" / "python_module")],
        env={**os.environ, "LMCACHED_BIN": BINARY, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout
