"""An index of packages on loopback, for PyPI's clients and for npm, of the files in a folder.

    index.py FOLDER

prints its address. It reads the folder anew for each request, so a file that is added is published.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import sys
import tarfile

folder = pathlib.Path(sys.argv[1])


def versions(name):
    """Returns the versions of a package for npm, as its manifests describe them."""
    for path in folder.glob(f"{name}-*.tgz"):
        with tarfile.open(path) as archive:
            manifest = json.load(archive.extractfile("package/package.json"))
        if manifest["name"] == name:
            digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
            place = {"tarball": f"{address}/files/{path.name}", "integrity": f"sha512-{digest}"}
            yield manifest["version"], manifest | {"dist": place}


class Index(http.server.BaseHTTPRequestHandler):
    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self):
        first, _, rest = self.path.strip("/").partition("/")
        wheels = folder.glob(f"{rest.replace('-', '_')}-*.whl")
        links = "".join(f'<a href="/files/{path.name}">{path.name}</a>\n' for path in wheels)
        published = dict(versions(first))
        if first == "files" and (folder / rest).is_file():
            self.answer((folder / rest).read_bytes(), "application/octet-stream")
        elif first == "simple" and links:
            self.answer(f"<!DOCTYPE html>{links}".encode(), "text/html")
        elif published:
            listed = {"name": first, "versions": published, "dist-tags": {"latest": max(published)}}
            self.answer(json.dumps(listed).encode(), "application/json")
        else:
            self.send_error(404)

    # Some clients ask first how long a file is.
    do_HEAD = do_GET

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
address = f"http://127.0.0.1:{server.server_port}"
print(f"listening on {address}", flush=True)
server.serve_forever()
