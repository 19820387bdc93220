"""Packs a program for everybody who hands it out. `packaging/dist` builds it and calls this.

    pack.py PROGRAM TARGET OUT [--native NATIVE] [--indexes-only] [--version VERSION]

NATIVE is the same program for this machine, which writes the manual pages and completions; it is
PROGRAM by default. With --indexes-only it makes the wheel and the packages for npm alone.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess

import bill
import npm_packages
import registry_rules
import release
import wheels

SHELLS = ("bash", "zsh", "fish", "powershell", "elvish")
OWN_LICENCES = [release.ROOT / "LICENSE-APACHE", release.ROOT / "LICENSE-MIT"]
# The documents of an archive, by their paths in the source, and what else they lead to there.
DOCUMENTS = {
    "README.md": "README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "docs/connect.md": "connect.md",
    "docs/install.md": "install.md",
}
BESIDE = DOCUMENTS | {path.name: path.name for path in OWN_LICENCES}
# A home that stands for everybody's in the unit, where systemd calls it %h.
HOME = "/home-of-the-person"


def _say(native, *arguments):
    clean = {"HOME": HOME, "PATH": os.environ["PATH"]}
    return subprocess.run(
        [native, *arguments], env=clean, check=True, capture_output=True, text=True
    ).stdout


def unit(native):
    """Returns the unit for the service manager of a person, for ~/stile and ~/.local/bin/stile."""
    text = _say(native, "service", "install", f"{HOME}/stile", "--print")
    return text.replace(f'"{native}"', '"%h/.local/bin/stile"').replace(HOME, "%h")


def fill_folder(folder, program, native, target):
    """Fills the folder of which the archive is made."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "completions").mkdir(parents=True)
    shutil.copy(program, folder / target.program)
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copy(release.ROOT / name, folder)
    for path, name in DOCUMENTS.items():
        text = release.document(path, BESIDE)
        (folder / name).write_text(text, encoding="utf-8")
    _say(native, "man", str(folder / "man"))
    for shell in SHELLS:
        script = _say(native, "completions", shell)
        (folder / f"completions/{release.COMMAND}.{shell}").write_text(script, encoding="utf-8")
    if target.npm_os == "linux":
        (folder / "stile.service").write_text(unit(native), encoding="utf-8")
    shutil.copy(release.ROOT / "crates/server/src/mcp/icon.svg", folder / "stile.svg")
    shutil.copy(release.ROOT / "packaging/icons/stile.png", folder)
    bill.main(target.triple, folder)


def write_bundle(folder, target, out):
    """Writes the MCP bundle, which a client installs by a double click."""
    with open(release.ROOT / "packaging/mcpb/manifest.json", encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["version"] = release.VERSION
    manifest["compatibility"] = {"platforms": [target.npm_os]}
    server = manifest["server"]
    server["entry_point"] = f"server/{target.program}"
    server["mcp_config"]["command"] = f"${{__dirname}}/server/{target.program}"
    content = (json.dumps(manifest, indent=2) + "\n").encode()
    files = [("manifest.json", 0o644, content)]
    for name in ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENCES.txt"):
        files.append((name, 0o644, (folder / name).read_bytes()))
    files.append(("icon.png", 0o644, (folder / "stile.png").read_bytes()))
    files.append((f"server/{target.program}", 0o755, (folder / target.program).read_bytes()))
    release.write_zip(out, files)


def bundles(out, made):
    """Returns the bundles that a release has: of the targets that are released, or else `made`."""
    names = [f"{release.COMMAND}-{release.VERSION}-{it.triple}.mcpb" for it in release.RELEASED]
    return [out / name for name in names if (out / name).exists()] or [made]


def description(bundles):
    """Returns the description for the registry of MCP servers: three ways to get one server."""
    arguments = [
        {"type": "positional", "value": "stdio"},
        {
            "type": "positional",
            "valueHint": "folder",
            "description": "The folder that agents are let into.",
            "format": "filepath",
            "isRequired": True,
        },
    ]
    stdio = {"transport": {"type": "stdio"}}
    index = {"identifier": release.DISTRIBUTION, "version": release.VERSION}
    return {
        "$schema": registry_rules.SCHEMA,
        "name": release.SERVER_NAME,
        "title": "Stile",
        "description": release.SUMMARY,
        "version": release.VERSION,
        "websiteUrl": release.HOMEPAGE,
        "packages": [
            {"registryType": "npm", "runtimeHint": "npx"} | index | stdio
            | {"packageArguments": arguments},
            {"registryType": "pypi", "runtimeHint": "uvx"} | index | stdio
            | {"packageArguments": arguments},
        ] + [
            {
                "registryType": "mcpb",
                "identifier": release.download(bundle.name),
                "fileSha256": release.sha256(bundle),
            } | stdio
            for bundle in bundles
        ],
    }


def write_recipes(archive, target, out):
    """Fills in the recipes for package managers that fetch the archive of a release."""
    machine = target.triple.partition("-")[0]
    values = {
        "@VERSION@": release.VERSION,
        "@MACHINE@": machine,
        "@BREW_ARCH@": {"aarch64": "arm64"}.get(machine, machine),
        "@TARGET@": target.triple,
        "@URL@": release.download(archive.name),
        "@SHA256@": release.sha256(archive),
        "@HOMEPAGE@": release.HOMEPAGE,
        "@SUMMARY@": release.SUMMARY,
        # A formula says it in at most 80 characters and without a period.
        "@SHORT@": release.SUMMARY.replace("one bounded and authorized", "one authorized").rstrip("."),
        "@FOLDER@": f"{release.COMMAND}-{release.VERSION}-{target.triple}",
        "@NAMESPACE@": release.NAMESPACE,
        "@LICENCE@": release.LICENCE,
    }
    out.mkdir(exist_ok=True)
    for recipe in sorted((release.ROOT / "packaging/recipes").glob("*.in")):
        # Winget fetches the program for Windows alone, and nothing else fetches that.
        if recipe.name.startswith("winget") != (target.npm_os == "win32"):
            continue
        text = recipe.read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(name, value)
        (out / recipe.name.removesuffix(".in")).write_text(text, encoding="utf-8")


def write_indexes(program, target, licences, out, version):
    """Writes the wheel and the packages for npm, and returns their paths."""
    return [
        wheels.write(program, target, licences, out, version),
        npm_packages.write_platform(program, target, licences, out, version),
        npm_packages.write_main(licences, out, version),
    ]


def write_checksums(name, files, out):
    """Writes the checksums as `sha256sum -c` reads them."""
    lines = "".join(f"{release.sha256(file)}  {file.name}\n" for file in files)
    (out / f"{name}.sha256").write_text(lines, encoding="utf-8")
    print(lines, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("target", type=release.target)
    parser.add_argument("out", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--native", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--indexes-only", action="store_true")
    parser.add_argument("--version", default=release.VERSION)
    given = parser.parse_args()
    program, target, out = given.program, given.target, given.out
    out.mkdir(parents=True, exist_ok=True)
    if target in release.RELEASED and release.needs_libraries(program):
        raise SystemExit(f"{program} needs libraries of the machine: it is not for {target.triple}")
    if given.indexes_only:
        release.level = 1
        write_indexes(program, target, OWN_LICENCES, out, given.version)
        return
    name = f"{release.COMMAND}-{release.VERSION}-{target.triple}"
    folder = out / name
    fill_folder(folder, program, given.native or program, target)
    ending, write_archive = release.archive_of(target)
    archive, bundle = out / f"{name}{ending}", out / f"{name}.mcpb"
    write_archive(archive, release.tree(folder, name))
    write_bundle(folder, target, bundle)
    licences = [*OWN_LICENCES, folder / "THIRD-PARTY-LICENCES.txt"]
    indexes = write_indexes(program, target, licences, out, given.version)
    server = description(bundles(out, bundle))
    (out / "server.json").write_text(json.dumps(server, indent=2) + "\n", encoding="utf-8")
    write_recipes(archive, target, out / "recipes")
    write_checksums(name, [archive, bundle, *indexes], out)
    # What was made last, for tools that are told one place.
    for kind in ("", ending, ".mcpb", ".sha256"):
        link = out / f"current{kind}"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{name}{kind}")
    if broken := registry_rules.violations(server):
        raise SystemExit("server.json: " + "; ".join(broken))
    for reason in registry_rules.hindrances(server):
        print(f"note: server.json cannot be published yet: {reason}")


if __name__ == "__main__":
    main()
