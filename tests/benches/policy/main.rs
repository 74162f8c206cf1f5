//! The cost of deciding and cleaning beside a whole call, in one run: rules, inspection, redaction. It prints figures
//! and never judges.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::print_stdout, reason = "the figures")]

mod rules;
mod texts;

use serde_json::json;
use std::time::{Duration, Instant};
use tests::World;

const CALLS: usize = 300;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let call = call();
    println!("a brokered read through files, without a shim: {:.0} µs (median of {CALLS})", us(call));
    rules::all(call);
    texts::all(call);
}

/// A call of an action that does nothing, from the file of the request to the file of the reply.
fn call() -> Duration {
    let world = World::with_grant();
    let developer = world.group("developer");
    let mut took: Vec<Duration> = (0..CALLS)
        .map(|n| {
            let begun = Instant::now();
            developer.call("echo", json!({ "n": n }));
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    took.get(CALLS / 2).copied().unwrap_or_default()
}

fn us(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

fn share(took: Duration, call: Duration) -> f64 {
    100.0 * took.as_secs_f64() / call.as_secs_f64()
}
