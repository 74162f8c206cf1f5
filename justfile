# Tasks of development. `just` lists them; each is also a plain command.

default:
    @just --list

# Run the main job: a complete demonstration.
demo:
    cargo run --release -p host-broker -- demo

# Run all tests.
test *ARGS:
    cargo test --workspace --locked {{ARGS}}

# Run the tests of one crate, for example `just test-crate policy`.
test-crate CRATE:
    cargo test -p {{CRATE}} --locked

# Check format, lints and documentation.
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --quiet

# Write the pages of docs/reference from the code.
docs:
    UPDATE_DOCS=1 cargo test --workspace --locked --test all reference

# Run one benchmark: roundtrip, providers, policy, siege, work or scale.
bench NAME *ARGS:
    cargo bench --profile dist --workspace --bench {{NAME}} -- {{ARGS}}

# Run the whole gate, as continuous integration does.
gate:
    bash .ci/run
