"""A note store for one check: answers well or badly, as the name of the note says.

    upstream.py >FILE
"""

import http.server
import json
import time

ANSWERS = {
    "good.md": (200, json.dumps({"frontmatter": {"title": "A"}, "body": "# A\n\ntext\n" + "x" * 200_000})),
    "missing.md": (404, json.dumps({"error": "missing"})),
    "broken.md": (500, "broken"),
    "garbage.md": (200, "<html>"),
    "huge.md": (200, json.dumps({"body": "x" * 5_000_000})),
    "slow.md": (200, json.dumps({"body": "late"})),
}


class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, body = ANSWERS.get(self.path.rsplit("/", 1)[-1], (404, ""))
        if self.path.endswith("slow.md"):
            time.sleep(3)
        body = body.encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            # Whoever asked has left: the note is too large, or too late.
            self.close_connection = True

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
server.daemon_threads = True
print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
