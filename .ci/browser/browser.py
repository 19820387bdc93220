"""Opens page.html in Chromium from an origin, and prints what the page reports.

    browser.py --server ORIGIN --token FILE --owner FILE --port PORT [--foreign] [--trust SPKI]

The page comes from http://127.0.0.1:PORT. Exits with 1 if the page fails or does not report.
"""

import argparse
import http.server
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

PAGE = pathlib.Path(__file__).with_name("page.html").read_bytes()
PATIENCE = 60


def handler(reports):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_page = self.path == "/"
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(PAGE if is_page else b"")

        def do_POST(self):
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser()
    for name in ["--server", "--token", "--owner", "--port"]:
        parser.add_argument(name, required=True)
    parser.add_argument("--foreign", action="store_true")
    parser.add_argument("--trust", default="")
    options = parser.parse_args()

    reports = queue.Queue()
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", int(options.port)), handler(reports))
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    work = {
        "server": options.server,
        "token": pathlib.Path(options.token).read_text().strip(),
        "owner": pathlib.Path(options.owner).read_text().strip(),
        "allowed": not options.foreign,
    }
    page = f"http://127.0.0.1:{options.port}/#" + urllib.parse.quote(json.dumps(work))
    profile = tempfile.mkdtemp()
    browser = subprocess.Popen(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
         "--remote-debugging-port=0", f"--ignore-certificate-errors-spki-list={options.trust}",
         page],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        report = reports.get(timeout=PATIENCE)
    except queue.Empty:
        report = {"passed": False, "error": "the page did not report"}
    finally:
        browser.terminate()
        try:
            _, said = browser.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            browser.kill()
            _, said = browser.communicate()
        pages.shutdown()
        shutil.rmtree(profile, ignore_errors=True)
    for line in report.get("seen", []):
        print(f"ok {line}")
    if not report["passed"]:
        sys.exit(f"{said}\n{report['error']}")


main()
