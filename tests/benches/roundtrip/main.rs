//! The cost of a brokered call, beside the cost of its parts and of other programs, in one run.
//!
//! Real processes: an MCP client here, the real shim over stdio, a real directory, the real broker with full evidence.
//! Comparators run in turn with it, round by round, so that a drifting machine drifts for all of them:
//! a direct SDK echo, the directory protocol without evidence, and the first specification's polling design.
//! It prints medians and ratios, and never judges. `-- latency`, `load`, `neighbours` or `footprint` runs only that part,
//! and `save` keeps the figures.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::print_stdout, reason = "the figures")]
#![expect(clippy::disallowed_methods, reason = "it starts processes")]
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures")]
#![expect(clippy::indexing_slicing, reason = "figures")]

mod figures;
mod footprint;
mod history;
mod latency;
mod load;
mod machine;
mod parts;

use history::History;
use parts::{Programs, Scratch};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let parts = ["latency", "load", "neighbours", "footprint"];
    let chosen: Vec<&str> =
        parts.into_iter().filter(|part| arguments.iter().any(|argument| argument == part)).collect();
    let runs = |part: &str| chosen.is_empty() || chosen.contains(&part);
    let programs = Programs::build();
    let scratch = Scratch::new();
    let f = machine::describe(&scratch.0);
    let mut history = History::of("roundtrip");
    history.add("F µs", figures::micros(f));
    if runs("latency") {
        latency::one_client(&programs, &scratch.0, f, &mut history).await;
    }
    if runs("load") {
        load::many_in_flight(&programs, &scratch.0, &mut history).await;
    }
    if runs("neighbours") {
        load::beside_a_neighbour(&programs, &scratch.0).await;
    }
    if runs("footprint") {
        footprint::shim(&programs, &scratch.0);
        footprint::broker(&programs, &scratch.0).await;
    }
    history.close();
}
