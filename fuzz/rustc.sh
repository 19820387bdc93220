#!/bin/sh
# What Cargo calls in place of the compiler: it has edges counted for the fuzzing engine, but only in the crates
# whose laws are tried, not in dependencies and oracles. Comparisons are not traced: that took more than half of
# the time, and the seeds hold the words that the parsers compare with.
#
# These are plain options of a stable compiler. Only address sanitizer is not, and it has nothing to find in
# crates that forbid `unsafe`.
case " $* " in
  *" --crate-name stile_domain "* | *" --crate-name stile_store "* | *" --crate-name stile_records "* | *" --crate-name stile_import "* | *" --crate-name stile_tools "* | *" --crate-name stile_ladder "* | *" --crate-name stile_server "*)
    exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    ;;
  *) exec "$@" ;;
esac
