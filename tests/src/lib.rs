//! The harness: a whole world in a temporary directory, with a real host in it.
//!
//! A test makes a [`World`], speaks to it as a sandbox does (files) and as a person does (the control socket), and
//! looks at what became of it: replies, rows, effects. When a world ends, it checks what every test must leave
//! behind: a chain that verifies, no open intent, and none of the world's secrets anywhere they do not belong.
//!
//! Nothing here sleeps as a way to wait, and nothing asserts how long anything takes.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a harness panics to fail the test")]
#![expect(clippy::missing_panics_doc, reason = "all of it panics, to fail the test")]
#![expect(clippy::disallowed_methods, reason = "the harness starts programs and knows the real clock")]

pub mod bitwarden;
pub mod bridges;
pub mod calendar_server;
pub mod canary;
pub mod chromium;
pub mod containers;
pub mod fakes;
pub mod evidence;
pub mod fleet_database;
pub mod fuzz;
pub mod github;
pub mod google;
pub mod group;
pub mod history;
pub mod logs;
pub mod mail_servers;
pub mod matrix_server;
pub mod password_store;
pub mod postgres_server;
pub mod programs;
pub mod prometheus_server;
mod sender;
pub mod scraper;
pub mod scripted_http;
pub mod servers;
pub mod shim;
pub mod slack;
pub mod socket;
mod standin;
pub mod strace;
pub mod tcp_proxy;
pub mod telegram;
pub mod terminal;
pub mod visitor;
mod waiting;
pub mod world;

pub use fakes::FakeClock;
pub use group::Group;
pub use history::History;
pub use waiting::{DEADLINE, skipped, until};
pub use world::{Builder, World};

/// Whether a process with this argument runs anywhere on this machine.
pub fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("cmdline")));
    let lines = processes.filter_map(|path| std::fs::read(path).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())).count() > 0
}

/// Whether there is time for everything: `EXT_TEST_LONG=1`. Otherwise what is enumerated is sampled evenly.
pub fn is_long() -> bool {
    std::env::var_os("EXT_TEST_LONG").is_some_and(|value| value == "1")
}

/// At most so many of these, evenly spread; all of them if there is time.
pub fn sampled<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let (step, taken) = (all.len(), most.min(all.len()));
    if is_long() || taken == step {
        return all;
    }
    let is_taken = |n: &usize| (n * taken) / step != ((n + 1) * taken) / step;
    all.into_iter().enumerate().filter(|(n, _)| is_taken(n)).map(|(_, one)| one).collect()
}
