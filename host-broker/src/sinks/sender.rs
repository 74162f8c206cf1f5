//! Sends rows to the place of a sink: a program, a request, a syslog server. No attempt takes longer than thirty seconds.

use super::rows::Rows;
use config::Config;
use config::sinks::{SinkTable, Target};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use kernel::SyncedRows;
use platform::Platform;
use platform::commands::{Command, CommandError, Commands, Ending, Finished};
use platform::delivery::deliver;
use platform::http::{Exchange, Http};
use secrets::{Secret, Secrets};
use serde_json::Value;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::Row;
use tokio::time::Instant;

/// The timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a program's output.
const OUTPUT_MAX: usize = 64 * 1024;
/// The same for the same rows, so that a server can tell a repeated request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The priority of each message: facility 13 (log audit), severity 6 (informational). Source: RFC 5424, section 6.2.1.
const PRIORITY: u8 = 13 * 8 + 6;

/// A sink with its secret.
pub struct Sink {
    table: SinkTable,
    // The secret, or the reason why it is missing.
    bearer: Option<Result<Arc<Secret>, String>>,
    commands: Arc<dyn Commands>,
    http: Arc<dyn Http>,
    // The name of this machine.
    host: String,
}

impl Sink {
    /// Makes the sinks of this configuration.
    pub fn all(config: &Config, secrets: &Secrets, platform: &Platform) -> Vec<Arc<Self>> {
        let sink = |table: &SinkTable| {
            let name = table.secret_name();
            let fault = || secrets.fault(&name).map_or_else(|| "missing".to_owned(), ToString::to_string);
            let bearer =
                table.secret().map(|_| secrets.get(&name).ok_or_else(|| format!("its secret `bearer` is {}", fault())));
            Arc::new(Self {
                table: table.clone(),
                bearer,
                commands: Arc::clone(&platform.commands),
                http: Arc::clone(&platform.http),
                host: host_name(),
            })
        };
        config.sinks.iter().map(sink).collect()
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// Returns its kind.
    pub fn kind(&self) -> &'static str {
        self.table.kind()
    }

    /// Sends the rows, and returns when they are accepted.
    ///
    /// # Errors
    /// A sentence for the operator, without anything of the rows or of the answer. The rows may have arrived all the same.
    pub(super) async fn send(&self, rows: Rows, synced: &SyncedRows) -> Result<(), String> {
        let deadline = Instant::now() + TIMEOUT;
        match &self.table.target {
            Target::Command(command) => self.run(command, &rows, deadline).await,
            Target::Http { url, .. } => {
                let exchange = self.request(url, &rows, synced, deadline)?;
                match self.http.send(exchange).await {
                    Ok(200..=299) => Ok(()),
                    Ok(status @ 300..=399) => {
                        Err(format!("it answered HTTP {status}: name the address that it leads to"))
                    }
                    Ok(status) => Err(format!("it answered HTTP {status}")),
                    Err(fault) => Err(fault.to_string()),
                }
            }
            Target::Syslog(server) => {
                deliver(server, self.messages(&rows).as_bytes(), deadline).await.map_err(|fault| fault.to_string())
            }
        }
    }

    async fn run(&self, command: &[String], rows: &Rows, deadline: Instant) -> Result<(), String> {
        let Some((program, arguments)) = command.split_first() else { return Err("there is no program".to_owned()) };
        let mut command = arguments.iter().fold(Command::new(program, deadline), Command::arg);
        (command.stdin, command.stdout_max, command.stderr_max) =
            (Some(self.lines(rows).into_bytes()), OUTPUT_MAX, OUTPUT_MAX);
        // A file with all rows grows without end.
        command.limits.file_mib = NonZeroU32::MAX;
        // If this process dies in between, the program sees the end of its input. The numbers tell it from the real end.
        let end = rows.end();
        command.env = [
            ("EXT_SINK_ROWS", rows.rows.len().to_string()),
            ("EXT_SINK_LAST", format!("{}:{}", end.seq, end.event_hash)),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        let finished = self.commands.run(command).await;
        if let Ok(Finished { exceeded: Some(limit), .. }) = &finished {
            return Err(format!("`{program}` has exceeded its limit {limit}"));
        }
        match finished.map(|finished| finished.ending) {
            Ok(Ending::Exited(0)) => Ok(()),
            Ok(Ending::Exited(status)) => Err(format!("`{program}` ended with status {status}")),
            Ok(Ending::Signalled(signal)) => Err(format!("`{program}` was ended by signal {signal}")),
            Ok(Ending::Overflowed(_)) => {
                Err(format!("`{program}` printed more than {OUTPUT_MAX} bytes and was stopped"))
            }
            Err(CommandError::Deadline) => {
                Err(format!("`{program}` was not done within {} s and was stopped", TIMEOUT.as_secs()))
            }
            Err(fault) => Err(fault.to_string()),
        }
    }

    fn request(&self, url: &str, rows: &Rows, proof: &SyncedRows, deadline: Instant) -> Result<Exchange, String> {
        let header = |text: &str| HeaderValue::from_str(text).map_err(|_bad| "a header cannot be written".to_owned());
        let end = rows.end();
        let first = rows.rows.first().map_or(0, |row| row.seq);
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
            (IDEMPOTENCY_KEY, header(&format!("{first}-{}-{}", end.seq, end.event_hash))?),
        ]);
        if let Some(secret) = &self.bearer {
            let secret = secret.as_ref().map_err(Clone::clone)?;
            let mut value = header(&format!("Bearer {}", secret.expose_for_rows(proof).trim()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let uri = url.parse().map_err(|_bad| "the url is no address".to_owned())?;
        Ok(Exchange::post(uri, headers, self.lines(rows).into_bytes(), deadline))
    }

    /// Returns the rows, one a line.
    fn lines(&self, rows: &Rows) -> String {
        let mut lines = String::new();
        for row in &rows.rows {
            lines.push_str(&self.document(row));
            lines.push('\n');
        }
        lines
    }

    /// Returns the rows as syslog messages. Source: RFC 5424, section 6; RFC 6587, section 3.4.1 (octet counting).
    fn messages(&self, rows: &Rows) -> String {
        let (mut messages, process) = (String::new(), std::process::id());
        for row in &rows.rows {
            let message = format!(
                "<{PRIORITY}>1 {} {} host-broker {process} {} - {}",
                row.time(),
                self.host,
                row.kind,
                self.document(row)
            );
            write!(messages, "{} {message}", message.len()).ok();
        }
        messages
    }

    /// Returns a row as a line of an export.
    fn document(&self, row: &Row) -> String {
        let line = store::ledger::export::line(row);
        if self.table.has_bodies {
            return line;
        }
        let mut document: Value = serde_json::from_str(&line).unwrap_or_default();
        document.as_object_mut().map(|members| members.remove("body"));
        document.to_string()
    }
}

/// Returns the name of this machine, or `-`, which RFC 5424 has for an unknown one.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_plain = !name.is_empty() && name.len() <= 255 && name.chars().all(|c| c.is_ascii_graphic());
    if is_plain { name } else { "-".to_owned() }
}
