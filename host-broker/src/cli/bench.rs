//! `bench`: the time of a call on this machine, and the part of the disk in it.
//!
//! A temporary home on the same disk as the chosen one, the real daemon as a process of its own with full evidence, a
//! scripted provider that takes no time. All figures come from one run, in turn, so that a busy machine is busy for all.

mod client;
mod figures;
mod scratch;

use crate::cli::Context;
use crate::cli::interrupt;
use crate::cli::output::{CliError, Output};
use anyhow::bail;
use clap::Args;
use client::{ByFiles, BySocket};
use figures::{Figures, millis};
use scratch::Scratch;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Instant;

/// Measure the time of a call on this machine.
///
/// It uses a temporary home beside the ledger and a scripted provider. It shows the time of a sync of the disk, and of
/// reads and writes over the socket and as files, with full evidence.
#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {sync, socket: {read, write, reads_per_second}, files: {read, write}, verdict: [TEXT]}. \
    sync, read and write are {p50_us, p99_us}."
)]
pub struct Bench {
    /// The number of calls of each kind.
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    calls: u32,
}

/// The calls in flight at once for the throughput.
const IN_FLIGHT: u32 = 16;
/// The calls between two changes from one kind to the next.
const ROUND: u32 = 10;
/// The actions of the scripted provider.
const ACTIONS: [&str; 2] = ["read", "write"];

/// The figures of one run. Those of calls are of reads and of writes.
struct Measured {
    sync: Figures,
    socket: [Figures; 2],
    files: [Figures; 2],
    reads_per_second: f64,
}

impl Bench {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no disk space, or the daemon does not start.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        if !context.output.json {
            context.output.say("measuring; this takes some seconds");
        }
        // After a signal, the daemon is stopped and the home is removed.
        interrupt::watch(context)?;
        let measured = self.measure(context).map_err(|error| {
            let failed = CliError::failed(format!("{error:#}"));
            interrupt::check()
                .map_err(|interrupted| interrupted.and_so("the temporary home was removed"))
                .err()
                .unwrap_or(failed)
        })?;
        context.output.show(&measured.document(), || measured.text());
        Ok(())
    }

    fn measure(&self, context: &Context) -> anyhow::Result<Measured> {
        let scratch = Scratch::start(context)?;
        let (mut socket, mut files) = (BySocket::connect(&scratch.mailbox())?, ByFiles::open(&scratch.mailbox())?);
        let mut disk = scratch.disk()?;
        let (mut sync, mut over_socket, mut as_files) =
            (Figures::default(), <[Figures; 2]>::default(), <[Figures; 2]>::default());
        for _ in 0..self.calls.div_ceil(ROUND) {
            if interrupt::is_received() {
                bail!("interrupted");
            }
            for _ in 0..ROUND {
                sync.time(|| disk.sync())?;
            }
            for (action, (by_socket, by_files)) in ACTIONS.into_iter().zip(over_socket.iter_mut().zip(&mut as_files)) {
                for _ in 0..ROUND {
                    by_socket.time(|| socket.call(action))?;
                }
                for _ in 0..ROUND {
                    by_files.time(|| files.call(action))?;
                }
            }
        }
        let (calls, began) = (self.calls.max(IN_FLIGHT), Instant::now());
        socket.calls("read", calls, IN_FLIGHT)?;
        let reads_per_second = f64::from(calls) / began.elapsed().as_secs_f64();
        Ok(Measured { sync, socket: over_socket, files: as_files, reads_per_second })
    }
}

impl Measured {
    fn document(&self) -> Value {
        let [socket, files] = [&self.socket, &self.files]
            .map(|[read, write]| json!({ "read": read.document(), "write": write.document() }));
        let mut document = json!({
            "sync": self.sync.document(), "socket": socket, "files": files, "verdict": self.verdict(),
        });
        if let Some(socket) = document.get_mut("socket").and_then(Value::as_object_mut) {
            socket.insert("reads_per_second".to_owned(), self.reads_per_second.round().into());
        }
        document
    }

    fn text(&self) -> String {
        let row = |name: &str, figures: &Figures| vec![name.to_owned(), millis(figures.p50()), millis(figures.p99())];
        let rows = [
            row("sync of the disk", &self.sync),
            row("read over the socket", &self.socket[0]),
            row("write over the socket", &self.socket[1]),
            row("read as files", &self.files[0]),
            row("write as files", &self.files[1]),
        ];
        let mut text = Output::table(&["", "P50 MS", "P99 MS"], &rows);
        let rate = self.reads_per_second;
        write!(text, "\n\nReads per second over the socket, {IN_FLIGHT} in flight: {rate:.0}\n").ok();
        for line in self.verdict() {
            write!(text, "\n{line}").ok();
        }
        text
    }

    /// The meaning of the figures, in sentences.
    fn verdict(&self) -> Vec<String> {
        let ([read, write], [by_files, _]) = (&self.socket, &self.files);
        let (sync, both) = (self.sync.p50(), self.sync.p50() * 2);
        let share = 100.0 * both.as_secs_f64() / write.p50().as_secs_f64();
        let mut lines = vec![format!(
            "A sync of this disk takes {} ms. A read waits for one and a write for two: {share:.0} % of a write over the \
             socket.",
            millis(sync)
        )];
        lines.push(if share >= 50.0 {
            "The disk is most of a call. A disk with a faster sync makes calls faster.".to_owned()
        } else {
            format!("The broker is most of a call: {} ms of a write.", millis(write.p50().saturating_sub(both)))
        });
        let more = by_files.p50().saturating_sub(read.p50());
        if !more.is_zero() {
            lines.push(format!(
                "Files take {} ms more than the socket. Shims use the socket by themselves where the sandbox has it.",
                millis(more)
            ));
        }
        lines
    }
}
