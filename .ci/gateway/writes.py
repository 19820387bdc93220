"""What a trace of system calls tells of files that were written, or would have been.

    writes.py TRACE...

Prints each such line and ends with 1 if there is one. Files below /proc and /dev/null are none.
"""

import re
import sys

OPENS = {"open", "openat", "openat2"}
# Anything else that was traced changes a file or a folder, or makes one.
HARMLESS = {"execve", "exit", "exit_group"}
CALL = re.compile(r"(?:\d+\s+)?(?:\[pid\s+\d+\] )?(\w+)\((.*)")
WRITING = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
NO_FILE = re.compile(r'"(?:/dev/null|/proc/[^"]*)"')

calls, found = 0, []
for path in sys.argv[1:]:
    with open(path, errors="replace") as trace:
        for line in trace:
            call = CALL.match(line)
            if not call:
                continue
            name, rest = call.groups()
            calls += 1
            # The name of the file may hold anything, also the name of a flag.
            flags = re.sub(r'"(?:[^"\\]|\\.)*"', '""', rest)
            if name in HARMLESS or name in OPENS and (not WRITING.search(flags) or NO_FILE.search(rest)):
                continue
            found.append(line.rstrip())
if calls == 0:
    sys.exit("the trace is empty")
print("\n".join(found), end="\n" if found else "")
sys.exit(bool(found))
