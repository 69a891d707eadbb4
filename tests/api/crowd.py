"""What tests share that watch a server while it serves many clients."""

import re
import threading
import time

WAIT_SECONDS = 120

SERIES = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+)$')


def metrics(server):
    """{(name, labels besides model_name and engine): value}; every line is checked to be one of the format's."""
    response = server.get("/metrics")
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    values, typed = {}, set()
    for line in response.body.decode().splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert kind in ("counter", "gauge", "histogram") and name not in typed
            typed.add(name)
        elif not line.startswith("# HELP "):
            name, labels, value = SERIES.match(line).groups()
            assert re.sub("_(bucket|sum|count)$", "", name) in typed or name in typed
            assert 'model_name="quern-tiny"' in labels
            kept = ",".join(each for each in re.findall(r'[a-z_]+="[^"]*"', labels)
                            if not each.startswith(("model_name=", "engine=")))
            values[(name, kept)] = float(value)
    return values


def metric(server, name, labels=""):
    return metrics(server)[(name, labels)]


def wait_for(condition):
    """Until it holds; a change that a running server makes within a step."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to be")


def load(server):
    """How many requests run and how many wait."""
    told = server.get("/load").json()
    assert told["server_load"] == told["running"] + told["waiting"]
    return told["running"], told["waiting"]


def in_threads(calls):
    """The results of all calls, made at the same time."""
    results = [None] * len(calls)

    def run(at):
        results[at] = calls[at]()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
