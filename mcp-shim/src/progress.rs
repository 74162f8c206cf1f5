//! Progress on its way to a client.

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use shared::reply::Progress;
use std::time::Duration;

/// A listener for the progress of a call.
pub trait Listener {
    /// Takes a progress report; the listener's own faults do not matter to the call.
    fn hear(&mut self, progress: Progress) -> impl Future<Output = ()> + Send;
}

/// No listener.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Listener for Silent {
    async fn hear(&mut self, _: Progress) {}
}

/// An MCP client; it hears something only if it gave a token.
#[derive(Debug)]
pub struct Client {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    scale: Scale,
}

impl Client {
    /// A client that has heard nothing yet.
    pub fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { peer, token, scale: Scale::default() }
    }
}

impl Listener for Client {
    async fn hear(&mut self, progress: Progress) {
        let Some(token) = self.token.clone() else { return };
        let (value, total) = self.scale.next(&progress);
        let mut note = ProgressNotificationParam::new(token, value).with_message(progress.message);
        note.total = total;
        // A client that is gone needs no progress, and one that does not read must not hold up the call.
        tokio::time::timeout(TIMEOUT, self.peer.notify_progress(note)).await.ok();
    }
}

const TIMEOUT: Duration = Duration::from_secs(1);

/// The numbers beside the messages. MCP wants them to grow with every notification; the host may repeat them, take
/// them back, or give none.
#[derive(Debug, Default)]
struct Scale {
    last: f64,
    total: Option<f64>,
}

impl Scale {
    fn next(&mut self, progress: &Progress) -> (f64, Option<f64>) {
        self.total = progress.total.or(self.total);
        // Where there is a total a sign of life must not look like work done.
        let step = if self.total.is_some() { self.last.abs().max(1.0) * 1e-6 } else { 1.0 };
        self.last = progress.progress.filter(|value| *value > self.last).unwrap_or(self.last + step);
        (self.last, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_always_grows() {
        let told = |progress, total| Progress { message: String::new(), progress, total };
        let mut scale = Scale::default();
        let mut last = 0.0;
        for progress in [
            told(None, None),
            told(None, None),
            told(Some(50.0), Some(100.0)),
            told(Some(50.0), Some(100.0)),
            told(Some(10.0), Some(100.0)),
            told(None, None),
            told(Some(99.0), Some(100.0)),
            told(None, None),
        ] {
            let (value, total) = scale.next(&progress);
            assert!(value > last && total.is_none_or(|total| value < total), "{value} after {last}");
            last = value;
        }
        assert!(last < 99.1);
    }
}
