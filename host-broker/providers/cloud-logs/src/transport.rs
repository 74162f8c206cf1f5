//! Requests to servers that hold logs: one attempt each, a bounded answer, and the reasons for the agent.

use http::StatusCode;
use platform::http::{Exchange, Http, HttpError};
use provider::remote::{self, BodyError};
use shared::limits::RESULT_BYTES_MAX;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A part of the request has no form in HTTP.
pub(crate) const UNWRITABLE: &str = "the request cannot be written as HTTP";
const LATE: &str = "it does not answer in time";

/// Bounds how many answers are decoded at once: a decoded answer takes many times the memory of its bytes.
static DECODERS: Semaphore = Semaphore::const_new(2);

/// Runs the decoding of an answer on a thread for long work. `None` if it panics.
pub(crate) async fn decoded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let permit = DECODERS.acquire().await;
    let decoded = spawn_blocking(move || {
        let result = work();
        drop(permit);
        result
    });
    decoded.await.ok()
}

/// An answer that was read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The body; `None` if it has more bytes than are read.
    pub(crate) body: Option<Vec<u8>>,
    /// The pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
}

/// Says that a server limits requests.
pub(crate) fn limited(retry_after: Option<Duration>) -> String {
    let when = match retry_after {
        Some(pause) => format!("in {} s", pause.as_secs_f64().ceil()),
        None => "later".to_owned(),
    };
    format!("it limits requests now; try again {when}")
}

/// Sends a request.
///
/// # Errors
/// The reason why there is no answer that can be read.
pub(crate) async fn send(http: &dyn Http, exchange: Exchange) -> Result<Answer, &'static str> {
    let deadline = exchange.deadline;
    let response = http.exchange(exchange).await.map_err(|error| match error {
        HttpError::Deadline => LATE,
        HttpError::NotHttp => UNWRITABLE,
        HttpError::Setup(_) | HttpError::Unreachable(_) | HttpError::Lost(_) | HttpError::TooLong => {
            "it cannot be reached"
        }
    })?;
    let (head, body) = remote::read(response, RESULT_BYTES_MAX, deadline).await;
    let answer = |body| Answer { status: head.status, body, retry_after: remote::retry_after(&head.headers) };
    match body {
        Ok(body) => Ok(answer(Some(body))),
        // The status says more than the body of such an answer.
        Err(_) if head.status != StatusCode::OK => Ok(answer(None)),
        Err(BodyError::TooLarge) => Ok(answer(None)),
        Err(BodyError::Encoded) => Err("its answer is compressed, although nobody asked for that"),
        Err(BodyError::Broken) => Err("its answer breaks off"),
        Err(BodyError::Late) => Err(LATE),
    }
}
