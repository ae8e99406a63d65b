"""The names under which the server is started by existing scripts.

``python -m lmcache.v1.multiprocess.http_server`` and its sisters run the ``lmcached`` program. This
package contains nothing else, and leaves every other ``lmcache`` module to an installed package of
that name.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
