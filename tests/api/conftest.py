"""What the tests of the HTTP server and the commands share.

requirements.txt says what they need besides Python's standard library; `make api` installs it. The program under test
is build/release/quern, or the one that QUERN_BIN names (CI runs the same tests against a sanitized build).
"""

import os
import pathlib
import subprocess

import pytest

from server_process import Server

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def pytest_report_header():
    return f"quern: {quern_path()}"


def quern_path():
    return pathlib.Path(os.environ.get("QUERN_BIN") or ROOT / "build" / "release" / "quern").resolve()


@pytest.fixture(scope="session")
def quern_bin():
    """The program under test."""
    path = quern_path()
    assert path.is_file(), f"{path}: not built: run `make build`, or name a program in QUERN_BIN"
    return path


@pytest.fixture(scope="session")
def tiny():
    """The folder of the shipped model."""
    return ROOT / "models" / "quern-tiny"


@pytest.fixture(scope="session")
def shared():
    """The folder with files that are not in the repository; the test is skipped where it is absent, except in CI."""
    path = pathlib.Path(os.environ.get("QUERN_SHARED") or ROOT.parent / "shared")
    if not path.is_dir():
        message = f"SKIPPED: {path} is absent: name the folder in QUERN_SHARED"
        if os.environ.get("QUERN_REQUIRE_SHARED") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def run_quern(quern_bin):
    """Runs a command to its end: run_quern("inspect", "DIR", stdin=b"", env={...}) gives a CompletedProcess of bytes."""

    def run(*arguments, stdin=b"", env=None, timeout=300):
        return subprocess.run([quern_bin, *map(str, arguments)], input=stdin, capture_output=True, cwd=ROOT,
                              env={**os.environ, **(env or {})}, timeout=timeout, check=False)

    return run


@pytest.fixture
def start_server(quern_bin, tiny):
    """Starts servers of a test's own: start_server("--api-key", "x", model=DIR, env={...}) gives a Server.

    All of them are stopped after the test, which fails when one does not end cleanly (with exit code 0, within its
    time, and so without a sanitizer's report)."""
    servers = []

    def start(*flags, model=tiny, env=None):
        server = Server(quern_bin, model, flags, env, ROOT)
        servers.append(server)
        server.wait_until_ready()
        return server

    yield start
    stop_all(servers)


@pytest.fixture(scope="session")
def server(quern_bin, tiny):
    """One server with the shipped model and no flags, for all tests that leave it as they found it."""
    shared_server = Server(quern_bin, tiny, (), None, ROOT)
    shared_server.wait_until_ready()
    yield shared_server
    stop_all([shared_server])


@pytest.fixture(scope="session")
def base_url(server):
    """http://127.0.0.1:PORT of `server`."""
    return server.base_url


def stop_all(servers):
    """Stops every server before it complains about any."""
    complaints = [complaint for complaint in (server.stop() for server in servers) if complaint]
    assert not complaints, "\n".join(complaints)
