"""Makes the packages for npm: one with a program for each kind of machine, and one that finds it.

The main package names the others as optional, with their `os` and `cpu`, so that npm installs the
one that fits. No package has a script that runs where it is installed.
"""

import json
import pathlib

import release


def _pack(out, manifest, files, version):
    content = (json.dumps(manifest, indent=2) + "\n").encode()
    path = out / f"{manifest['name']}-{version}.tgz"
    release.write_tar(
        path, [(f"package/{name}", mode, data) for name, mode, data in files]
        + [("package/package.json", 0o644, content)]
    )
    return path


def _manifest(name, version, description):
    return {
        "name": name,
        "version": version,
        "description": description,
        "license": release.LICENCE,
        "homepage": release.HOMEPAGE,
    }


def write_platform(program, target, licences, out, version):
    """Writes the package with the program, and returns its path."""
    about = f"The program of {release.DISTRIBUTION} for {target.npm_os} on {target.npm_cpu}."
    manifest = _manifest(target.npm_package, version, about)
    manifest |= {"os": [target.npm_os], "cpu": [target.npm_cpu], "preferUnplugged": True}
    if target.npm_libc:
        manifest["libc"] = [target.npm_libc]
    files = [(f"bin/{target.program}", 0o755, pathlib.Path(program).read_bytes())]
    files.append(("README.md", 0o644, f"{about}\n".encode()))
    files += [(path.name, 0o644, path.read_bytes()) for path in licences]
    return _pack(out, manifest, files, version)


def write_main(licences, out, version):
    """Writes the package that people install, and returns its path."""
    manifest = _manifest(release.DISTRIBUTION, version, release.SUMMARY)
    manifest |= {
        "mcpName": release.SERVER_NAME,
        "keywords": ["mcp", "model-context-protocol", "notes", "markdown", "agents"],
        "bin": {name: "stile.js" for name in (release.COMMAND, release.DISTRIBUTION)},
        "engines": {"node": ">=18"},
        "optionalDependencies": {target.npm_package: version for target in release.RELEASED},
    }
    launcher = (release.ROOT / "packaging/npm/stile.js").read_text(encoding="utf-8")
    launcher = launcher.replace("@DISTRIBUTION@", release.DISTRIBUTION)
    files = [
        ("stile.js", 0o755, launcher.encode()),
        ("README.md", 0o644, release.read_me("npm").encode()),
    ]
    files += [(path.name, 0o644, path.read_bytes()) for path in licences]
    return _pack(out, manifest, files, version)
