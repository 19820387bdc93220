#!/usr/bin/env node
// Starts the program of this machine's package, and is as transparent as a program that starts
// another one can be: arguments, standard input and output, signals and the exit code pass through.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");

const machine = `${process.platform}-${process.arch}`;
const ending = process.platform === "win32" ? ".exe" : "";
let program;
try {
  program = require.resolve(`@DISTRIBUTION@-${machine}/bin/stile${ending}`);
} catch {
  console.error(`error: this installation has no Stile for ${machine}; docs/install.md has other ways`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  // A shell reports a program that a signal ended as 128 and the number of the signal.
  process.exit(code ?? 128 + os.constants.signals[signal]);
});
