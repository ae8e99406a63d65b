"""The plugin API of the original server, for modules inside lmcached, for runtime plugins and for
tests of both. ``docs/python-modules.md`` is its manual.

Also the names under which existing scripts start the server: ``python -m
lmcache.v1.multiprocess.http_server`` and its sisters run the ``lmcached`` program.

It must not be installed where a serving engine imports the real package of this name. Modules
that are not here are left to an installed package of that name.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
