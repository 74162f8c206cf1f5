//! Measures how the broker's costs grow with the rows of its ledger and with its groups.
//!
//! ```text
//! cargo bench --profile dist --workspace --bench scale                         # up to a million rows
//! SCALE_ROWS=10000000 cargo bench --profile dist --workspace --bench scale     # 4 GB of disk, some minutes
//! ```
//! All brokers of a table run at once, and their calls alternate, so that a busy machine is busy for all. The rows are
//! written as the broker writes those of a call, with their chain. `-- rows` or `groups` runs only that part, and
//! `save` keeps the figures.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::indexing_slicing, reason = "figures")]
#![expect(clippy::print_stdout, reason = "the figures")]
#![expect(clippy::disallowed_methods, reason = "it starts processes")]
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures")]

#[path = "../roundtrip/figures.rs"]
mod figures;
mod groups;
#[path = "../roundtrip/history.rs"]
mod history;
#[path = "../roundtrip/parts.rs"]
#[expect(dead_code, reason = "shared with the other benches, which start more")]
mod parts;
mod rows;

use history::History;
use parts::{Programs, Scratch};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let parts = ["rows", "groups"];
    let chosen: Vec<&str> =
        parts.into_iter().filter(|part| arguments.iter().any(|argument| argument == part)).collect();
    let runs = |part: &str| chosen.is_empty() || chosen.contains(&part);
    let programs = Programs::build();
    let scratch = Scratch::new();
    let mut history = History::of("scale");
    if runs("rows") {
        rows::measure(&programs, &scratch.0, &mut history).await;
    }
    if runs("groups") {
        groups::measure(&programs, &scratch.0, &mut history).await;
    }
    history.close();
}
