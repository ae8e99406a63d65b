"""Routes that native modules add to the HTTP port, under /ext/<class>/."""

import concurrent.futures
import re

import pytest

from modules import SOURCES, build, error_of, failed_start, flags, spec


def routes(name="RoutesModule"):
    return build(SOURCES / "routes.c", f'-DNAME="{name}"')


def test_a_module_answers_under_its_own_name_and_its_routes_are_in_the_log(server):
    one = server(*flags(spec(routes()), spec(routes("OtherModule"))))
    base = "/ext/RoutesModule"
    root = one.get(base)
    assert (root.status, root.json) == (201, {"root": True}) and root.headers["content-type"] == "application/json"
    assert one.get(base + "/").status == 201
    assert one.get(base + "/items/a%20b?q=1%262&r=3").text == "GET id=a b q=1&2 body="
    assert one.request("POST", base + "/items/7", b"the body").text == "POST id=7 q=none body=the body"
    assert one.request("HEAD", base + "/items/7").text == ""
    assert one.get("/ext/OtherModule/items/8").text == "GET id=8 q=none body="
    for path in ("/ext", "/ext/Nobody", base + "/items", base + "/items/7/more", "/ext/routesmodule"):
        assert one.get(path).status == 404, path
    wrong = one.request("DELETE", base + "/items/7")
    assert wrong.status == 405 and wrong.headers["allow"] == "GET, HEAD, POST"
    one.wait_log("Registered HTTP route: GET /ext/OtherModule/")
    assert one.log().count("Registered HTTP route: POST /ext/RoutesModule/items/{id}") == 1
    row = one.status()["server_modules"]["RoutesModule"]
    assert row["calls"] == 5 and row["errors"] == 0 and row["in_flight"] == 0


def test_what_a_module_answers_badly_is_told_and_harms_nobody(server):
    one = server(*flags(spec(routes())))
    one.allow("answers GET /(twice|odd) ")
    assert one.get("/ext/RoutesModule/silent").status == 500
    assert one.get("/ext/RoutesModule/twice").text == "first"
    odd = one.get("/ext/RoutesModule/odd")
    assert odd.status == 500 and "x-injected" not in odd.headers
    one.wait_log("RoutesModule answers GET /twice twice; the first answer counts")
    one.wait_log("RoutesModule answers GET /odd with a status or content type that cannot be sent")
    too_large = one.request("POST", "/ext/RoutesModule/items/1", b"x" * ((1 << 20) + 1))
    assert too_large.status == 413


@pytest.mark.parametrize(
    "add, text",
    [
        ("GET /items/{name}", "RoutesModule: duplicate HTTP route: GET /ext/RoutesModule/items/{name}"),
        ("GET /", "RoutesModule: duplicate HTTP route: GET /ext/RoutesModule/"),
        ("BREW /coffee", "RoutesModule: HTTP route /coffee: the method must be GET, POST, PUT, PATCH or DELETE, not BREW"),
        ("GET items", "RoutesModule: HTTP route 'items': a path is '/' or '/' and at most 6 names or {names} with '/' between"),
        ("GET /a//b", "RoutesModule: HTTP route '/a//b': a path is "),
        ("GET /a/", "RoutesModule: HTTP route '/a/': a path is "),
        ("GET /a/{}", "RoutesModule: HTTP route '/a/{}': a path is "),
        ("GET /a?b", "RoutesModule: HTTP route '/a?b': a path is "),
        ("GET /1/2/3/4/5/6/7", "RoutesModule: HTTP route '/1/2/3/4/5/6/7': a path is "),
    ],
)
def test_a_route_that_cannot_be_fails_the_start(tmp_path, add, text):
    assert error_of(failed_start(tmp_path, spec(routes(), add=add))).startswith(text)


def test_a_module_that_declines_has_no_routes(server):
    one = server(*flags(spec(routes(), decline=True), spec(routes("OtherModule"))))
    assert one.get("/ext/RoutesModule").status == 404 and one.get("/ext/OtherModule").status == 201
    assert "/ext/RoutesModule" not in re.sub(r'"GET [^"]*"', "", one.log())


def test_without_http_routes_are_accepted_and_not_served(server):
    one = server("--no-http", "--prometheus-port", "0", *flags(spec(routes())), wait=False)
    one.wait_log("Serving requests on")
    assert one.stop() == 0


def test_a_route_that_hangs_delays_no_other_answer_and_no_stop(server):
    one = server(*flags(spec(routes())))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        stuck = [pool.submit(one.get, "/ext/RoutesModule/hang") for _ in range(4)]  # more than there are threads
        for _ in range(20):
            assert one.get("/status").status == 200 and one.get("/healthcheck").status == 200
            assert one.get("/metrics").status == 200
        one.allow("a module's HTTP route has not returned", "RoutesModule has not returned from a call; it is not closed")
        assert one.stop() == 0
        for future in stuck:
            try:
                assert future.result(60).status == 503  # those that had not begun
            except (ConnectionError, OSError, Exception) as gone:
                assert not isinstance(gone, AssertionError), gone
    assert "a module's HTTP route has not returned; its clients get no answer" in one.log()
