"""Downloads the collections and unpacks their Markdown, once for each pinned archive.

The tools `npm`, `cargo`, `git` and `apt-get` download the archives, so the mirrors that they are set up for
work. A commit of `git` is its own checksum.
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path, PurePosixPath

DOWNLOAD_SECONDS = 300


class Unusable(Exception):
    """A collection that cannot be downloaded or is not the pinned one, and why."""


def pinned(here):
    """Returns the collections of collections.toml, in the order of the file."""
    with open(here / "collections.toml", "rb") as file:
        return tomllib.load(file)["collection"]


def collect(collection, folder):
    """Returns the folder with the Markdown of a collection, and downloads it if it is not there."""
    pages, stamp = folder / collection["name"], folder / f"{collection['name']}.unpacked"
    if stamp.exists() and stamp.read_text() == stamp_of(collection):
        return pages
    if pages.exists():
        raise Unusable(f"{pages} holds another state of the collection; remove it first")
    archive = DOWNLOADS[collection["registry"]](collection, folder)
    content = archive.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != collection.get("sha256", found):
        raise Unusable(f"{collection['package']} {collection['version']} has the checksum {found}, "
                       f"and {collection['sha256']} is pinned")
    # Unpacked beside its place, so that an interrupted run leaves no half of a collection there.
    with tempfile.TemporaryDirectory(dir=folder) as unpacked:
        for path, text, modified in pages_of(collection, content):
            target = Path(unpacked) / "pages" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            os.utime(target, (modified, modified))
        pages.parent.mkdir(parents=True, exist_ok=True)
        (Path(unpacked) / "pages").rename(pages)
    stamp.write_text(stamp_of(collection))
    return pages


def stamp_of(collection):
    """Returns a text that differs if a collection is pinned or unpacked differently."""
    return json.dumps(collection, sort_keys=True) + "\n"


def download_from_npm(collection, folder):
    run(["npm", "pack", "--silent", "--pack-destination", str(folder),
         f"{collection['package']}@{collection['version']}"], folder)
    name = collection["package"].removeprefix("@").replace("/", "-")
    return folder / f"{name}-{collection['version']}.tgz"


def download_from_cargo(collection, folder):
    """Lets `cargo` fetch a crate as a dependency of an empty one, and returns the archive."""
    empty = folder / f"{collection['name']}.fetch"
    (empty / "src").mkdir(parents=True, exist_ok=True)
    (empty / "src/lib.rs").touch()
    (empty / "Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
        f"[dependencies]\n{collection['package']} = \"={collection['version']}\"\n")
    run(["cargo", "fetch", "--quiet"], empty)
    metadata = json.loads(run(["cargo", "metadata", "--offline", "--format-version", "1"], empty))
    for package in metadata["packages"]:
        if package["name"] == collection["package"]:
            # …/registry/src/INDEX/NAME-VERSION/Cargo.toml, beside …/registry/cache/INDEX.
            source = Path(package["manifest_path"]).parent
            index = source.parent.name
            return source.parents[2] / "cache" / index / f"{source.name}.crate"
    raise Unusable(f"cargo fetched no {collection['package']}")


def download_from_git(collection, folder):
    """Fetches one commit of a public repository, and returns the Markdown of its folder as an archive."""
    copy = folder / f"{collection['name']}.git"
    archive = folder / f"{collection['name']}.tar.gz"
    run(["git", "init", "--quiet", "--bare", str(copy)], folder)
    git = ["git", "--git-dir", str(copy)]
    run([*git, "fetch", "--quiet", "--depth", "1", collection["package"], collection["version"]], folder)
    run([*git, "archive", "--prefix", "package/", "--output", str(archive), collection["version"], "--",
         f":(glob){collection['inside']}/**/*.md"], folder)
    return archive


def download_from_deb(collection, folder):
    """Lets `apt-get` download a package of Debian, and returns the archive of its files."""
    package = f"{collection['package']}_{collection['version']}_all.deb"
    run(["apt-get", "download", f"{collection['package']}={collection['version']}"], folder)
    return folder / package


DOWNLOADS = {"deb": download_from_deb, "npm": download_from_npm, "cargo": download_from_cargo, "git": download_from_git}


def run(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise Unusable(f"{' '.join(command[:2])}: {done.stderr.strip()[-400:]}")
    return done.stdout


def pages_of(collection, content):
    """Yields path, bytes and time of each Markdown page of an archive.

    The first folder of the archive has the package's name and counts for nothing.
    """
    if collection.get("registry") == "deb":
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", "/dev/stdin"], input=content,
                                 capture_output=True, check=True).stdout
    suffix = collection.get("suffix", ".md")
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
        for member in archive:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            if not member.isfile():
                continue
            if collection.get("json") == str(path):
                docs = json.load(archive.extractfile(member))["docs"]
                for folder, language in collection["languages"].items():
                    for name, page in docs[language].items():
                        inside = path_below(f"{name.removeprefix('/docs/')}.md", "")
                        yield PurePosixPath(folder) / inside, page["markdown"].encode(), member.mtime
            elif "inside" in collection and path.name.removesuffix(".gz").endswith(suffix):
                if inside := path_below(path, collection["inside"]):
                    content = archive.extractfile(member).read()
                    if inside.suffix == ".gz":
                        inside, content = inside.with_suffix(""), gzip.decompress(content)
                    yield inside, content, member.mtime


def path_below(path, folder):
    """Returns the path below a folder, or `None` for one that lies elsewhere or leads outwards."""
    path = PurePosixPath(path)
    if path.is_absolute() or ".." in path.parts or not path.is_relative_to(folder):
        return None
    return path.relative_to(folder)
