"""The rules for `server.json`, the description of a server for the registry of MCP servers.

    registry_rules.py SERVER_JSON

They are those of the registry's schema of 2025-12-11, as far as our description uses it, and what
the registry asks for beyond the schema, in our own words. No package known to us has the schema.
"""

import json
import re
import sys

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
TYPES = {"npm", "pypi", "mcpb", "oci", "nuget", "cargo"}
# The only index of each kind that the registry accepts.
BASES = {"npm": "https://registry.npmjs.org", "pypi": "https://pypi.org"}
FORMATS = {"string", "number", "boolean", "filepath"}
_SERVER = {"$schema", "name", "title", "description", "version", "websiteUrl", "packages", "icons",
           "repository", "remotes", "_meta"}
_PACKAGE = {"registryType", "registryBaseUrl", "identifier", "version", "fileSha256", "runtimeHint",
            "runtimeArguments", "packageArguments", "environmentVariables", "transport"}
_ARGUMENT = {"type", "name", "value", "valueHint", "description", "default", "isRequired",
             "isSecret", "isRepeated", "format", "placeholder", "choices", "variables"}


def _text(value, least, most):
    return isinstance(value, str) and least <= len(value) <= most


def _is_version(value):
    """Returns whether this is one version, and neither a range nor `latest`."""
    is_range = r"[\^~<>=*\s|]|(^|\.)[xX](\.|$)"
    return _text(value, 1, 255) and value != "latest" and not re.search(is_range, value)


def _argument(argument, where):
    if unknown := set(argument) - _ARGUMENT:
        yield f"{where}: unknown fields {sorted(unknown)}"
    kind = argument.get("type")
    if kind not in ("positional", "named"):
        yield f"{where}: the type is neither positional nor named"
    if kind == "named" and not _text(argument.get("name"), 1, 255):
        yield f"{where}: a named argument has no name"
    if kind == "positional" and not {"value", "valueHint"} & set(argument):
        yield f"{where}: a positional argument has neither a value nor a hint"
    if argument.get("format", "string") not in FORMATS:
        yield f"{where}: the format is unknown"


def _package(package, where):
    if unknown := set(package) - _PACKAGE:
        yield f"{where}: unknown fields {sorted(unknown)}"
    kind = package.get("registryType")
    if kind not in TYPES:
        yield f"{where}: the registryType is unknown"
    if not _text(package.get("identifier"), 1, 2048):
        yield f"{where}: the identifier is missing"
        return
    if package.get("transport", {}).get("type") not in ("stdio", "streamable-http", "sse"):
        yield f"{where}: the transport is unknown"
    if package.get("registryBaseUrl", BASES.get(kind)) != BASES.get(kind):
        yield f"{where}: the registry takes packages of {BASES.get(kind)} only"
    if "version" in package and not _is_version(package["version"]):
        yield f"{where}: the version is not one version"
    if kind in BASES and "version" not in package:
        yield f"{where}: the version is missing"
    checksum = package.get("fileSha256")
    if checksum is not None and not re.fullmatch(r"[a-f0-9]{64}", checksum):
        yield f"{where}: fileSha256 is not a SHA-256"
    if kind == "mcpb":
        if checksum is None:
            yield f"{where}: a bundle needs fileSha256"
        if not re.fullmatch(r"https://\S+", package["identifier"]):
            yield f"{where}: a bundle is named by an https address"
        if "mcp" not in package["identifier"]:
            yield f"{where}: the address of a bundle contains mcp"
    if "runtimeArguments" in package and "runtimeHint" not in package:
        yield f"{where}: runtimeArguments need a runtimeHint"
    for name in ("runtimeArguments", "packageArguments"):
        for number, argument in enumerate(package.get(name, [])):
            yield from _argument(argument, f"{where}.{name}[{number}]")


def violations(server):
    """Returns the rules that a description breaks, each with the place; none if it is valid."""
    found = []
    if server.get("$schema") != SCHEMA:
        found.append("$schema is not the version that these rules are of")
    if unknown := set(server) - _SERVER:
        found.append(f"unknown fields {sorted(unknown)}")
    name = server.get("name")
    if not _text(name, 3, 200) or not re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", name):
        found.append("the name is not a namespace, a slash and a name")
    for field in ("description", "title"):
        if field in server or field == "description":
            if not _text(server.get(field), 1, 100):
                found.append(f"the {field} has not 1 to 100 characters")
    if not _is_version(server.get("version")):
        found.append("the version is not one version")
    if "websiteUrl" in server and not re.fullmatch(r"https?://\S+", server["websiteUrl"]):
        found.append("the websiteUrl is not an address")
    for number, package in enumerate(server.get("packages", [])):
        found += _package(package, f"packages[{number}]")
    return found


def hindrances(server):
    """Returns what keeps the official registry from taking a valid description."""
    found = []
    if server["name"].startswith(("org.example/", "com.example/")):
        found.append("the namespace is an example; fill in [workspace.metadata.release]")
    for package in server.get("packages", []):
        hosts = r"https://(github|gitlab)\.com/"
        if package["registryType"] == "mcpb" and not re.match(hosts, package["identifier"]):
            found.append("bundles must be in releases on github.com or gitlab.com")
    return found


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as _file:
        _server = json.load(_file)
    _broken = violations(_server)
    print("\n".join(_broken) or "ok   server.json keeps the rules of the schema")
    for _reason in hindrances(_server):
        print(f"note: {_reason}")
    sys.exit(bool(_broken))
