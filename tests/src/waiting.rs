//! Waiting for an event, and the reason why a test does not apply.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Reaching it is a failure, never an expectation.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// Looks again and again until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "it never happened: {what}");
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Says on standard error why a test does not apply here.
pub fn skipped(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").ok();
}
