"""Starts the command of an unpacked bundle with a person's answers, and reads the file there is.

    bundle.py BUNDLE FOLDER SERVER_JSON

Checks too that the description for a registry, server.json, names the bundle's version.
"""

import json
import re
import sys

import mcp_calls

bundle, folder, description = sys.argv[1:]
with open(f"{bundle}/manifest.json", encoding="utf-8") as file:
    manifest = json.load(file)
with open(description, encoding="utf-8") as file:
    server = json.load(file)
assert server["version"] == manifest["version"], server["version"]

answers = {name: field.get("default") for name, field in manifest["user_config"].items()}
answers["folder"] = folder


def filled(text):
    text = text.replace("${__dirname}", bundle)
    return re.sub(r"\$\{user_config\.(\w+)\}", lambda match: answers[match[1]], text)


config = manifest["server"]["mcp_config"]
client = mcp_calls.Stdio([filled(config["command"]), *map(filled, config["args"])])
names = [tool["name"] for tool in client.ask("tools/list", {})["tools"]]
assert "text_read" in names and not any("." in name for name in names), names
assert "the plan" in client.read("/plan.md")
client.end()
print("ok the bundle's command lists tools and reads a file")
