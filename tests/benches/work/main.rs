//! Measures the broker's own work for a call by stage, in one process: no shim, no transport, no other thread.
//!
//! ```text
//! cargo bench --profile dist --workspace --bench work
//! ```
//! The stages are those of `engine::pipeline`: the document is parsed, the intent is committed, the effect runs and its
//! result is filtered, the outcome is committed with the reply. For each stage: the time, the allocations, the
//! statements, the system calls that write, and the KiB that they write. "In 16" is the same work in batches of 16
//! calls, divided by 16. One `fdatasync` is F.
//!
//! `-- read` or `"read in 16"` runs only that part, and `save` keeps the figures.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot run has nothing to say"
)]
#![expect(clippy::indexing_slicing, reason = "figures")]
#![expect(clippy::print_stdout, reason = "the figures")]
#![expect(clippy::disallowed_methods, reason = "it starts processes")]
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures")]

#[path = "../roundtrip/figures.rs"]
mod figures;
#[path = "../roundtrip/history.rs"]
mod history;
#[path = "../roundtrip/machine.rs"]
mod machine;
#[path = "../roundtrip/parts.rs"]
#[expect(dead_code, reason = "shared with the other benches, which start more")]
mod parts;
mod stages;

use history::History;
use parts::{Broker, Programs, Scratch};
use stages::{Bench, Cost, STAGES};

/// The calls of each kind, after as many that warm up.
const CALLS: usize = 2_000;

fn main() {
    let chosen: Vec<String> =
        std::env::args().skip(1).filter(|argument| !["--bench", "save"].contains(&argument.as_str())).collect();
    if chosen.iter().any(|argument| argument == "--test") {
        return;
    }
    let programs = Programs::build();
    let scratch = Scratch::new();
    let mut history = History::of("work");
    history.add("F µs", figures::micros(machine::describe(&scratch.0)));
    let home = scratch.0.join("home");
    Broker::prepare_home(&home, 1);
    Broker::grant(&programs, &home, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let mut bench = Bench::open(&home, runtime.handle().clone());
    println!(
        "\n{:<26} {:>9} {:>9} {:>11} {:>7} {:>11}",
        "", "p50 µs", "allocated", "statements", "writes", "written KiB"
    );
    for (name, action, at_once) in [
        ("read", "echo", 1),
        ("write", "note", 1),
        ("refusal", "charge", 1),
        ("read in 16", "echo", 16),
        ("write in 16", "note", 16),
    ] {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        bench.calls(action, at_once, CALLS);
        let costs = bench.calls(action, at_once, CALLS);
        let sum = |of: fn(&Cost) -> f64| costs.iter().map(|stage| mean(stage, of)).sum::<f64>();
        let times = costs.iter().map(|stage| median_micros(stage)).sum::<f64>();
        print(name, times, sum);
        for (unit, figure) in
            [("µs", times), ("allocations", sum(|cost| cost.allocations)), ("statements", sum(|cost| cost.statements))]
        {
            history.add(format!("{name}, {unit}"), figure);
        }
        for (stage, costs) in STAGES.into_iter().zip(&costs) {
            if !costs.is_empty() {
                print(&format!("  {stage}"), median_micros(costs), |of| mean(costs, of));
            }
        }
    }
    history.close();
}

fn print(name: &str, micros: f64, mean: impl Fn(fn(&Cost) -> f64) -> f64) {
    println!(
        "{name:<26} {micros:>9.1} {:>9.0} {:>11.1} {:>7.1} {:>11.1}",
        mean(|cost| cost.allocations),
        mean(|cost| cost.statements),
        mean(|cost| cost.writes),
        mean(|cost| cost.bytes / 1024.0)
    );
}

fn mean(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    costs.iter().map(of).sum::<f64>() / costs.len().max(1) as f64
}

fn median_micros(costs: &[Cost]) -> f64 {
    if costs.is_empty() {
        return 0.0;
    }
    figures::micros(figures::median(&costs.iter().map(|cost| cost.time).collect::<Vec<_>>()))
}
