"""HTTP as bytes, for tests of what no client library would send."""

import socket
import urllib.parse


def open_socket(server, timeout=60):
    address = urllib.parse.urlsplit(server.base_url)
    return socket.create_connection((address.hostname, address.port), timeout=timeout)


def read_all(connection):
    """Everything up to the end of the connection."""
    pieces = []
    try:
        while piece := connection.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def raw(server, data, hang_up=False):
    """What the server says to these bytes before it closes the connection. hang_up: our side ends behind them."""
    with open_socket(server) as connection:
        try:
            connection.sendall(data)
            if hang_up:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed before it had read all: what it said is there to be read
        return read_all(connection)


def head(body=b"", path="/v1/chat/completions", method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
