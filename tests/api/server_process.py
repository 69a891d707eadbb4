"""A `quern serve` of its own for tests, and plain HTTP requests to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse

READY_SECONDS = 120  # a sanitized build on a busy machine loads slowly
STOP_SECONDS = 60
REQUEST_SECONDS = 300

SERVING = re.compile(r"quern: serving on (https?://\S+)")


class Response:
    """An answer read to its end: status, headers (names in lower case) and body."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def events(self):
        """The data of each server-sent event, as text."""
        events = []
        for block in self.body.decode().split("\n\n"):
            data = [line[len("data:"):].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
            if data:
                events.append("\n".join(data))
        return events


class Server:
    """A server process. `base_url` is set once wait_until_ready returned; `stderr` holds its lines so far: all that it
    wrote before an answer, since it writes to a file, where nobody has to read along."""

    def __init__(self, quern, model, flags, env, folder):
        command = [str(quern), "serve", str(model), "--port", "0", *map(str, flags)]
        self.base_url = None
        self.stopped = False
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, cwd=folder, env={**os.environ, **(env or {})},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log)

    @property
    def stderr(self):
        return self.stderr_text().split("\n")

    def stderr_text(self):
        written = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0)
        return written.decode(errors="replace")

    def wait_until_ready(self):
        latest = time.monotonic() + READY_SECONDS
        while self.base_url is None:
            ended = self.process.poll() is not None or time.monotonic() > latest
            found = SERVING.search(self.stderr_text())
            assert found or not ended, f"the server did not start:\n{self.stderr_text()}"
            if found:
                self.base_url = found.group(1).rstrip("/")
            else:
                time.sleep(0.01)

    def stop(self, sent=signal.SIGTERM):
        """Ends the server; what was wrong with how it ended, or None."""
        if self.stopped:
            return None
        self.stopped = True
        if self.process.poll() is None:
            self.process.send_signal(sent)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = f"none within {STOP_SECONDS} s of its signal"
        return None if code == 0 else f"the server's exit code: {code}; it said:\n{self.stderr_text()}"

    def connect(self, timeout=REQUEST_SECONDS):
        """A connection of http.client, for a test that reads a stream piece by piece or hangs up early."""
        address = urllib.parse.urlsplit(self.base_url)
        return http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=REQUEST_SECONDS):
        """One request, answered to its end. A body that is neither bytes nor None is sent as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)
