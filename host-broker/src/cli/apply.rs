//! An approval with an effect at once: the answer, then the outcome.

use crate::cli::Context;
use crate::cli::ask::{answer, running};
use crate::cli::output::CliError;
use engine::request::Command;
use serde_json::{Value, json};
use shared::{RequestId, limits};
use std::time::{Duration, Instant};
use store::ledger::calls;

/// How often it is looked whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// Sends a command whose effect follows at once, and prints the outcome.
///
/// # Errors
/// [`CliError`] if the broker refused it, or the effect failed or is not known.
pub fn ask(context: &Context, command: Command) -> Result<(), CliError> {
    if running(context)?.is_none() {
        return Err(CliError::refused(
            "no daemon is running, and only it changes files; start it with: host-broker serve",
        ));
    }
    let mut reply = answer(context, command)?;
    let request = reply.pointer("/data/applied_by").and_then(Value::as_str).and_then(|id| id.parse().ok());
    if let Some(request) = request {
        let outcome = outcome(context, &request)?;
        if let Some(data) = reply.get_mut("data").and_then(Value::as_object_mut) {
            data.insert("applied".into(), json!(true));
        }
        if let Some(object) = reply.as_object_mut() {
            object.insert("summary".into(), json!(outcome));
        }
    }
    context.output.reply(&reply)
}

/// Returns the outcome of the request, in one line.
fn outcome(context: &Context, request: &RequestId) -> Result<String, CliError> {
    let ledger = context.ledger()?;
    let started = Instant::now();
    while started.elapsed() < limits::TIMEOUT_DEFAULT {
        for row in calls::story(&ledger, request, None)? {
            match row.kind.as_str() {
                "succeeded" => return Ok(row.result_summary.unwrap_or_else(|| "The change was applied.".to_owned())),
                "refused" | "failed" | "unknown" | "timed_out" => {
                    let code = row.reason_code.unwrap_or_default();
                    let meaning = shared::Code::ALL.iter().find(|known| known.word() == code);
                    let meaning = meaning.map_or_else(String::new, |code| format!(" {}", code.meaning()));
                    let story = format!("the answer is recorded, but nothing was applied: {code}.{meaning}");
                    return Err(CliError::refused(story).with("code", code).with("request_id", request.as_str()));
                }
                _ => {}
            }
        }
        std::thread::park_timeout(LOOK);
    }
    Err(CliError::refused(format!("the change has no outcome yet; see: {} calls show {request}", context.program())))
}
