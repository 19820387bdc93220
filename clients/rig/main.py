"""Drives every client through the story, and writes down what came of it: see `run`."""

import argparse
import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import clients
import table
from server import Server
from story import STEPS, Story

HERE = Path(__file__).resolve().parent.parent


class Rig:
    """Where things are installed, and what the client that is being driven opened last."""

    def __init__(self, installed):
        self.installed = installed
        self.drivers = HERE / "drivers"
        self.last_opened = None

    def opened(self, url):
        self.last_opened = url

    def quiet(self, server):
        """Switches off what clients tell their makers, and whatever leads away from this machine."""
        return {
            "NO_COLOR": "1", "CI": "1", "DO_NOT_TRACK": "1", "NO_PROXY": "127.0.0.1,localhost",
            "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "", "OTEL_SDK_DISABLED": "true",
            "XDG_CONFIG_HOME": str(server.home / ".config"), "XDG_CACHE_HOME": str(server.home / ".cache"),
            "XDG_DATA_HOME": str(server.home / ".local/share"), "XDG_STATE_HOME": str(server.home / ".local/state"),
        }


def drive(kind, rig, program, keep):
    folder = Path(tempfile.mkdtemp(prefix="stile-client-"))
    server = Server(program, folder / "run")
    client = kind.make(rig)
    client.label = kind.key
    rig.last_opened = None

    def say(step, state, note):
        print(json.dumps({"client": kind.name, "version": kind.version(rig), "step": step, "state": state,
                          **({"note": note} if note else {})}), flush=True)

    story = Story(client, server, say)
    try:
        story.tell()
    finally:
        client.stop()
        server.stop()
        if keep:
            print(f"kept {folder}", file=sys.stderr)
        else:
            server.remove()
            folder.rmdir()
    return {"version": kind.version(rig), "date": datetime.date.today().isoformat(), "cells": story.cells}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="only hold that the page shows results.json")
    options.add_argument("--stile", help="the program to drive the clients against")
    options.add_argument("--installed", type=Path, help="where the clients are installed")
    options.add_argument("--keep", action="store_true", help="leave the folders with the logs")
    options.add_argument("--must", help="only these steps decide whether the run fails: find,call,restart")
    options.add_argument("--write", action="store_true", help="write results.json and the table")
    options.add_argument("names", nargs="*", help="only these clients")
    given = options.parse_args()
    rig = Rig(given.installed)
    known = {kind.key: kind for kind in clients.all()}
    if given.check:
        sys.exit(None if table.agrees(HERE, list(known)) else "docs/clients.md does not show clients/results.json")
    if not (given.stile and given.installed):
        options.error("give --stile and --installed")
    unknown = [name for name in given.names if name not in known]
    if unknown:
        options.error(f"there is no client {', '.join(unknown)}; there are {', '.join(known)}")
    results = table.results(HERE)
    failed = 0
    for key in given.names or known:
        results[key] = {"name": known[key].name, **drive(known[key], rig, given.stile, given.keep)}
        must = given.must.split(",") if given.must else STEPS
        failed += sum(results[key]["cells"][step]["state"] == "fails" for step in must)
        if given.write:
            table.write(HERE, results, list(known))
    print(f"{failed} steps failed", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
