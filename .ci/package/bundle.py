"""Starts the command of an unpacked bundle with a person's answers, and reads the one file there is.

Checks too that the description for a registry names the bundle as the manifest does.
"""

import json
import re
import subprocess
import sys

bundle, folder, description = sys.argv[1:]
with open(f"{bundle}/manifest.json") as file:
    manifest = json.load(file)
with open(description) as file:
    server = json.load(file)

# The limits are those of the registry's schema of 2025-12-11. No package carries that schema.
assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"]), server["name"]
assert 1 <= len(server["description"]) <= 100, server["description"]
assert server["version"] == manifest["version"], server["version"]
[package] = server["packages"]
assert package["registryType"] == "mcpb" and package["identifier"].endswith(".mcpb"), package
assert re.fullmatch(r"[a-f0-9]{64}", package["fileSha256"]), package
assert package["transport"] == {"type": "stdio"}, package

answers = {name: field.get("default") for name, field in manifest["user_config"].items()}
answers["folder"] = folder


def filled(text):
    text = text.replace("${__dirname}", bundle)
    return re.sub(r"\$\{user_config\.(\w+)\}", lambda match: answers[match[1]], text)


config = manifest["server"]["mcp_config"]
command = [filled(config["command"]), *map(filled, config["args"])]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(identifier, method, params):
    request = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert answer["id"] == identifier and "result" in answer, answer
    return answer["result"]


client = {"name": "bundle-check", "version": "1"}
ask(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
names = [tool["name"] for tool in ask(2, "tools/list", {})["tools"]]
assert "text_read" in names and not any("." in name for name in names), names
read = ask(3, "tools/call", {"name": "text_read", "arguments": {"path": "/plan.md"}})
assert "the plan" in json.dumps(read), read
server.stdin.close()
assert server.wait(timeout=20) == 0, server.returncode
print("ok the bundle's command lists tools and reads a file")
