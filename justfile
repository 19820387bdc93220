# Common tasks. `.ci/run` is what must pass before a merge.

# List the tasks.
default:
    @just --list

# Run all tests, or those whose names contain a text.
test *names:
    cargo test --workspace {{names}}

# Check format, lints and documentation, with warnings denied.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Write the snapshots and the generated pages anew. Read the difference before you commit.
docs:
    INSTA_UPDATE=always UPDATE_DOCS=1 cargo test --workspace

# Run the benchmarks, or those of one crate: `just bench -p stile-domain`.
bench *arguments="--workspace":
    cargo bench {{arguments}}

# Drive Stile and its peers over the same corpus in one run, and print the figures.
bench-peers *arguments:
    benches/peers/run {{arguments}}

# Measure how times grow with what is stored: `just bench-scale history --write`.
bench-scale *arguments:
    benches/scale/run {{arguments}}

# Build what is handed out, static, in target/dist-files: archive, bundle, wheel, packages for npm.
dist:
    packaging/dist

# Try the wheel and the packages for npm of a program, from an index on loopback.
try-packages program target:
    .ci/package/indexes.sh {{program}} {{target}}

# Build the documentation as a book, in .ci/out/book.
book:
    mdbook build docs

# Drive every real client through its story, or those that are named, and write the table of docs/clients.md.
clients *names:
    clients/run {{names}}

# Ask sixty questions about notes that others wrote, and count how often the right note is found.
recall *arguments:
    recall/run {{arguments}}

# Run everything that must pass before a merge, or the steps that are named.
ci *steps:
    .ci/run {{steps}}
