"""Facts about a release, and archives that come out alike from the same files.

Every other script here imports this one. It needs Python 3.11 and nothing else.
"""

import gzip
import hashlib
import io
import os
import pathlib
import posixpath
import re
import struct
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMAND = "stile"
SUMMARY = "Lets AI agents into a folder of yours, one bounded and authorized step at a time."
LICENCE = "Apache-2.0 OR MIT"

with open(ROOT / "Cargo.toml", "rb") as _file:
    _WORKSPACE = tomllib.load(_file)["workspace"]
VERSION = _WORKSPACE["package"]["version"]
_PUBLISHER = _WORKSPACE["metadata"]["release"]
# The name of the packages on PyPI and npm.
DISTRIBUTION = _PUBLISHER["distribution"]
HOMEPAGE = _PUBLISHER["homepage"]
NAMESPACE = _PUBLISHER["namespace"]
# The name in the registry of MCP servers.
SERVER_NAME = f"{NAMESPACE}/{COMMAND}"
# Nobody can own this namespace, so a release with it cannot be published in a registry.
IS_EXAMPLE = NAMESPACE == "org.example"


def download(file, version=VERSION):
    """Returns the address of a file of a release."""
    return f"{_PUBLISHER['downloads'].format(version=version)}/{file}"


def source(path, version=VERSION):
    """Returns the address at which a file of the source of a version is read."""
    return f"{_PUBLISHER['source'].format(version=version)}/{path}"


LINK = re.compile(r"\]\(([^)\s]+)\)")


def document(path, beside):
    """Returns a document of the source, whose links lead somewhere without the source.

    `beside` has the names of the files that are beside it, by their paths in the source. A link to
    any other file of the source becomes a whole address.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    folder = posixpath.dirname(path)

    def leads(match):
        target, mark, place = match[1].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        return f"]({beside.get(file) or source(file)}{mark}{place})"

    return LINK.sub(leads, text)


@dataclass(frozen=True)
class Target:
    """A kind of machine, as each of its users names it."""

    triple: str
    # The `os` and `cpu` of a package on npm.
    npm_os: str
    npm_cpu: str
    # The C library that npm asks for; `None` for a program that needs none.
    npm_libc: str | None
    # The tag of a wheel. `pip` of Debian refuses a wheel that names musl alone, and Alpine one that
    # does not name musl. So the wheel of a static program names both.
    wheel: str

    @property
    def program(self):
        """The name of the file of the program."""
        return f"{COMMAND}.exe" if self.npm_os == "win32" else COMMAND

    @property
    def npm_package(self):
        return f"{DISTRIBUTION}-{self.npm_os}-{self.npm_cpu}"


def _static(machine, cpu):
    tags = [f"manylinux_2_17_{machine}", f"manylinux2014_{machine}", f"musllinux_1_1_{machine}"]
    return Target(f"{machine}-unknown-linux-musl", "linux", cpu, None, ".".join(tags))


# What a release has: the main package on npm names one package for each.
RELEASED = [_static("x86_64", "x64"), _static("aarch64", "arm64")]
# What is linked here and was started on no such system: no release has them.
UNPROVED = [
    Target("aarch64-apple-darwin", "darwin", "arm64", None, "macosx_11_0_arm64"),
    Target("x86_64-apple-darwin", "darwin", "x64", None, "macosx_11_0_x86_64"),
    Target("x86_64-pc-windows-gnu", "win32", "x64", None, "win_amd64"),
]
# What a machine builds for itself. An index takes no wheel with such a tag.
LOCAL = [
    Target("x86_64-unknown-linux-gnu", "linux", "x64", "glibc", "linux_x86_64"),
    Target("aarch64-unknown-linux-gnu", "linux", "arm64", "glibc", "linux_aarch64"),
]


def target(triple):
    """Returns the target with this name; fails for one that nobody has packed yet."""
    for known in RELEASED + UNPROVED + LOCAL:
        if known.triple == triple:
            return known
    raise SystemExit(f"packaging does not know the target {triple}")


def needs_libraries(program):
    """Returns whether a program for Linux needs a loader, and so the libraries of the machine."""
    with open(program, "rb") as file:
        head = file.read(64)
        assert head[:5] == b"\x7fELF\x02", f"{program} is not a program for 64-bit Linux"
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for number in range(count):
            file.seek(table + number * size)
            # A header of the type PT_INTERP names the loader.
            if struct.unpack("<I", file.read(4)) == (3,):
                return True
    return False


def sha256(path):
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mode(path):
    return 0o755 if os.access(path, os.X_OK) else 0o644


# How hard archives are compressed, 1 to 9. A check that packs for itself has no time for 9.
level = 9


def write_tar(out, files):
    """Writes a gzipped archive of `(name, mode, bytes)`: sorted, with one time and no owner."""
    with open(out, "wb") as raw, gzip.GzipFile("", "wb", level, raw, 0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, mode, content in sorted(files):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), mode
                archive.addfile(entry, io.BytesIO(content))


def write_zip(out, files):
    """Writes a zip file of `(name, mode, bytes)`, in the order given and with one time."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, mode, content in files:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            # The name of the system in the entry; other systems write another one.
            entry.create_system = 3
            archive.writestr(entry, content)


def archive_of(target):
    """Returns the ending of the archive for a kind of machine, and what writes one."""
    return (".zip", write_zip) if target.npm_os == "win32" else (".tar.gz", write_tar)


def tree(folder, prefix):
    """Returns the files of a folder as `(name, mode, bytes)`, with `prefix` before each name."""
    folder = pathlib.Path(folder)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        (f"{prefix}/{path.relative_to(folder).as_posix()}", _mode(path), path.read_bytes())
        for path in paths
    ]


def read_me(audience):
    """Returns the text that an index shows about a package: `packaging/README.package.md`.

    `audience` is `npm` or `pypi`. The registry of MCP servers looks for the line `mcp-name:`.
    """
    text = (ROOT / "packaging/README.package.md").read_text(encoding="utf-8")
    run = {"npm": f"npx {DISTRIBUTION}", "pypi": f"uvx {DISTRIBUTION}"}[audience]
    install = {
        "npm": f"npm install --global {DISTRIBUTION}",
        "pypi": f"uv tool install {DISTRIBUTION}`, or `pipx install {DISTRIBUTION}",
    }[audience]
    for name, value in [
        ("@RUN@", run),
        ("@INSTALL@", install),
        ("@HOMEPAGE@", HOMEPAGE),
        ("@SERVER_NAME@", SERVER_NAME),
    ]:
        text = text.replace(name, value)
    return text
