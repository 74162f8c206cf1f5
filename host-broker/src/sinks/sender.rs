//! Sends rows to the place of a sink: a program, a server, a syslog server, a receiver of traces. No attempt takes longer
//! than thirty seconds.

use super::rows::Rows;
use super::traces;
use config::Config;
use config::sinks::{SinkTable, Target};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use kernel::SyncedRows;
use platform::Platform;
use platform::commands::{Command, Commands};
use platform::delivery::connection::deliver;
use platform::delivery::{accepted, bearer, post, to_program, to_server};
use platform::http::Http;
use secrets::{Secret, Secrets};
use serde_json::Value;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::ledger::chain::Row;
use tokio::time::Instant;

/// The timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of the answer of a receiver of traces.
const ANSWER_MAX: usize = 64 * 1024;
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
    // The last request had spans that a receiver of traces has rejected.
    rejects: AtomicBool,
}

impl Sink {
    /// Makes the sinks of this configuration.
    pub fn all(config: &Config, secrets: &Secrets, platform: &Platform) -> Vec<Arc<Self>> {
        let sink = |table: &SinkTable| {
            let bearer = table.secret().map(|_| secrets.usable("bearer", &table.secret_name()));
            Arc::new(Self {
                table: table.clone(),
                bearer,
                commands: Arc::clone(&platform.commands),
                http: Arc::clone(&platform.http),
                host: host_name(),
                rejects: AtomicBool::new(false),
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
        self.table.word()
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
                let end = rows.end();
                let first = rows.next.first().map_or(0, |row| row.seq);
                let name = format!("{first}-{}-{}", end.seq, end.event_hash);
                let name = HeaderValue::try_from(name).map_err(|_bad| "a header cannot be written".to_owned())?;
                let mut headers = self.headers("application/x-ndjson", synced)?;
                headers.insert(IDEMPOTENCY_KEY, name);
                to_server(&*self.http, url, headers, self.lines(&rows).into_bytes(), deadline).await
            }
            Target::Syslog(server) => {
                deliver(server, self.messages(&rows).as_bytes(), deadline).await.map_err(|fault| fault.to_string())
            }
            Target::Otlp { url, .. } => self.trace(url, &rows, synced, deadline).await,
        }
    }

    /// Returns whether it gets the earlier rows of calls that end.
    pub(super) fn needs_earlier_rows(&self) -> bool {
        matches!(self.table.target, Target::Otlp { .. })
    }

    async fn run(&self, command: &[String], rows: &Rows, deadline: Instant) -> Result<(), String> {
        let Some((program, arguments)) = command.split_first() else { return Err("there is no program".to_owned()) };
        let mut command = arguments.iter().fold(Command::new(program, deadline), Command::arg);
        command.stdin = Some(self.lines(rows).into_bytes());
        // A file with all rows grows without end.
        command.limits.file_mib = NonZeroU32::MAX;
        // If this process dies in between, the program sees the end of its input. The numbers tell it from the real end.
        let end = rows.end();
        command.env = [
            ("EXT_SINK_ROWS", rows.next.len().to_string()),
            ("EXT_SINK_LAST", format!("{}:{}", end.seq, end.event_hash)),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
        to_program(&*self.commands, command).await
    }

    /// Sends the spans of the calls that end in these rows.
    async fn trace(&self, url: &str, rows: &Rows, synced: &SyncedRows, deadline: Instant) -> Result<(), String> {
        let Some(request) = traces::request(&self.host, rows) else { return Ok(()) };
        let headers = self.headers("application/x-protobuf", synced)?;
        let answer = self.http.ask(post(url, headers, request, deadline)?, ANSWER_MAX).await;
        let answer = answer.map_err(|fault| fault.to_string())?;
        // Source: OTLP specification, section "OTLP/HTTP Response": a client does not send these spans again.
        let rejected = if answer.status == 400 {
            Some("all".to_owned())
        } else {
            accepted(answer.status)?;
            traces::rejected(&answer.body).map(|spans| spans.to_string())
        };
        // A server that rejects each piece is named once.
        let was_rejected = self.rejects.swap(rejected.is_some(), Ordering::Relaxed);
        if let Some(spans) = rejected.filter(|_| !was_rejected) {
            tracing::warn!(sink = self.name(), row = rows.end().seq, spans, "the sink has rejected spans as invalid");
        }
        Ok(())
    }

    fn headers(&self, content: &'static str, synced: &SyncedRows) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content))]);
        if let Some(secret) = &self.bearer {
            let secret = secret.as_ref().map_err(Clone::clone)?;
            headers.insert(AUTHORIZATION, bearer("bearer", secret.expose_for_rows(synced).trim())?);
        }
        Ok(headers)
    }

    /// Returns the rows, one a line.
    fn lines(&self, rows: &Rows) -> String {
        let mut lines = String::new();
        for row in &rows.next {
            lines.push_str(&self.document(row));
            lines.push('\n');
        }
        lines
    }

    /// Returns the rows as syslog messages. Source: RFC 5424, section 6; RFC 6587, section 3.4.1 (octet counting).
    fn messages(&self, rows: &Rows) -> String {
        let (mut messages, process) = (String::new(), std::process::id());
        for row in &rows.next {
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
