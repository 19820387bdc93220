"""Makes a wheel of a program.

The wheel has the program as a script, which an installer puts beside its Python, so nothing is
built or downloaded where it is installed.
"""

import base64
import hashlib
import pathlib

import release


def _metadata(version):
    return f"""\
Metadata-Version: 2.4
Name: {release.DISTRIBUTION}
Version: {version}
Summary: {release.SUMMARY}
License-Expression: {release.LICENCE}
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
License-File: THIRD-PARTY-LICENCES.txt
Project-URL: Homepage, {release.HOMEPAGE}
Keywords: mcp,model-context-protocol,notes,markdown,agents
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{release.read_me("pypi")}"""


def _wheel(tag):
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.split("."))
    return f"Wheel-Version: 1.0\nGenerator: stile\nRoot-Is-Purelib: false\n{tags}"


def _record(files, record):
    """Returns the list of files with their checksums, which is itself in the list without one."""
    rows = []
    for name, _, content in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join(rows) + f"{record},,\n"


def write(program, target, licences, out, version):
    """Writes the wheel into `out`, and returns its path. `licences` is a list of files."""
    name = f"{release.DISTRIBUTION.replace('-', '_')}-{version}"
    scripts, info = f"{name}.data/scripts", f"{name}.dist-info"
    # Windows starts no script without an ending, whatever its first line says.
    ending = ".cmd" if target.npm_os == "win32" else ""
    launcher = release.ROOT / f"packaging/pypi/stile-mcp{ending}"
    files = [
        (f"{scripts}/{target.program}", 0o755, pathlib.Path(program).read_bytes()),
        (f"{scripts}/{release.DISTRIBUTION}{ending}", 0o755, launcher.read_bytes()),
        (f"{info}/METADATA", 0o644, _metadata(version).encode()),
        (f"{info}/WHEEL", 0o644, _wheel(target.wheel).encode()),
    ]
    files += [(f"{info}/licenses/{path.name}", 0o644, path.read_bytes()) for path in licences]
    record = f"{info}/RECORD"
    files.append((record, 0o644, _record(files, record).encode()))
    path = out / f"{name}-py3-none-{target.wheel}.whl"
    release.write_zip(path, files)
    return path
