"""Holds that Cargo.lock has no version that .ci/advisories.tsv names as vulnerable. Needs no network.

    advisories.py CARGO_LOCK LIST
"""

import re
import sys
import tomllib


def parts(version):
    return tuple(int(number) for number in re.findall(r"\d+", version.split("-")[0].split("+")[0]))


def main(lock, listed):
    with open(lock, "rb") as file:
        packages = tomllib.load(file)["package"]
    with open(listed, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    wrong = []
    for identifier, library, mended, what in rows:
        versions = [package["version"] for package in packages if package["name"] == library]
        if not versions:
            wrong.append(f"{identifier}: nothing depends on {library} any more; remove the row")
        wrong += [
            f"{identifier}: {library} {version} is older than {mended}: {what}"
            for version in versions
            if parts(version) < parts(mended)
        ]
    print("\n".join(wrong) or f"ok   {len(rows)} advisories, none of a version in Cargo.lock")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
