"""Connections over HTTP that all call at once."""

import multiprocessing
import selectors
import socket
import statistics
import time

from program import CALL_HEADERS, Figures, State, call_body

TITLE = "Connections"
COUNTED = "connections"
SIZES = [1, 16, 256, 2_000]
CORPUS = (
    "Small reads without a session over kept connections, each with one call at a time, of one user for each hundred; the driver is one "
    "thread of Python on the same two processors. Beside it in turns, the floor: a server of a few lines of Python "
    "that sends the same bytes to whoever asks. Memory is of the server with all connections open, above what it had "
    "before the first."
)
PLOTS = ["ms"]
SECONDS = 4
# One user gets no more than a share of the server's threads, and 429 beyond it.
USERS_HAVE = 100


def measure(program, place, sizes, rounds):
    figures, state = Figures(), State(program, place)
    (state.space / "a.md").write_text("# Small\n\nOne line.\n")
    for _ in range(rounds):
        for size in sizes:
            with state.serve() as server:
                users = range(max(1, size // USERS_HAVE))
                tokens = [state.token("--scope", "read:/", "--user", f"u{user}", "--root", state.space) for user in users]
                answer = server.client(tokens[0])
                answer.call("text_read", {"path": "/a.md"})
                before = server.memory()
                bare = Bare(answer)
                for name, address in (("", server.address), ("floor: ", bare.address)):
                    load = Load(address, tokens, size)
                    if not name:
                        figures.add("memory of a connection", "KB", size, max(0, server.memory() - before) / size / 1e3)
                    done, took = load.run(SECONDS)
                    figures.add(f"{name}calls a second", "a second", size, done / SECONDS)
                    took.sort()
                    figures.add(f"{name}median", "ms", size, 1000 * statistics.median(took))
                    figures.add(f"{name}99th percentile", "ms", size, 1000 * took[int(len(took) * 0.99)])
                    load.close()
                bare.close()
    return figures.medians()


def request(host, token):
    body = call_body("text_read", {"path": "/a.md"})
    headers = CALL_HEADERS | {"Mcp-Name": "text_read", "Host": host, "Authorization": f"Bearer {token}",
                              "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode()


class Load:
    """Connections with one call in flight each."""

    def __init__(self, address, tokens, count):
        host, port = address.rsplit(":", 1)
        self.selector, self.sockets, self.requests = selectors.DefaultSelector(), [], {}
        requests = [request(address, token) for token in tokens]
        for number in range(count):
            connection = socket.create_connection((host, int(port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.append(connection)
            # Whoever shows no good token is a stranger, and of those there may be few at a time.
            self.requests[connection] = requests[number % len(requests)]
            connection.sendall(self.requests[connection])
            receive(connection)
        for connection in self.sockets:
            connection.setblocking(False)
            self.selector.register(connection, selectors.EVENT_READ)

    def run(self, seconds):
        began, took, sent, parts = time.perf_counter(), [], {}, {}
        for connection in self.sockets:
            sent[connection] = time.perf_counter()
            connection.send(self.requests[connection])
        while True:
            now = time.perf_counter()
            if now - began >= seconds:
                break
            for key, _ in self.selector.select(0.5):
                connection = key.fileobj
                part = parts.pop(connection, b"") + connection.recv(1 << 16)
                if not is_whole(part):
                    parts[connection] = part
                    continue
                if not part.startswith(b"HTTP/1.1 200"):
                    raise AssertionError(part[:300])
                now = time.perf_counter()
                took.append(now - sent[connection])
                sent[connection] = now
                connection.send(self.requests[connection])
        return len(took), took

    def close(self):
        for connection in self.sockets:
            connection.close()


def is_whole(part):
    head, found, body = part.partition(b"\r\n\r\n")
    if not found:
        return False
    at = head.lower().find(b"content-length:")
    length = int(head[at + 15:].split(b"\r\n", 1)[0]) if at >= 0 else 0
    return len(body) >= length


def receive(connection):
    part = b""
    while not is_whole(part):
        more = connection.recv(1 << 16)
        if not more:
            raise AssertionError(f"the connection ended after {part[:200]}")
        part += more
    return part


def read(connection):
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


class Bare:
    """A server that sends the same bytes for every request, and reads no more than it must."""

    def __init__(self, client):
        host, port = client.connection.host, client.connection.port
        with socket.create_connection((host, port)) as connection:
            token = client.headers["Authorization"].removeprefix("Bearer ")
            connection.sendall(request(f"{host}:{port}", token))
            self.answer = receive(connection)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.process = multiprocessing.get_context("fork").Process(target=self.serve, daemon=True)
        self.process.start()

    def serve(self):
        selector = selectors.DefaultSelector()
        selector.register(self.listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    selector.register(connection, selectors.EVENT_READ)
                elif read(key.fileobj):
                    key.fileobj.send(self.answer)
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()

    def close(self):
        self.process.terminate()
        self.process.join()
        self.listener.close()
