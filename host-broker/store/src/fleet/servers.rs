//! The servers of the URL, and the choice of one.

use super::error::FleetError;
use super::link::{Link, within};
use super::settings::Settings;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The longest time to connect to one of the servers, with the handshake.
const CONNECT: Duration = Duration::from_secs(3);

/// The servers.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) settings: Settings,
    /// The number of the server that is tried first: the last one that was used, or the one after it.
    first: AtomicUsize,
}

impl Servers {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, first: AtomicUsize::new(0) }
    }

    /// Connects to a server that takes writes and has this batch of the host. If `must_keep`, its settings must keep what
    /// it acknowledges.
    ///
    /// # Errors
    /// [`FleetError`], if no server is one.
    pub(super) async fn connect(&self, must_keep: bool, batch: i64) -> Result<Link, FleetError> {
        let mut faults = Vec::new();
        let servers = self.settings.servers();
        let first = self.first.load(Ordering::Relaxed).checked_rem(servers.len()).unwrap_or(0);
        for (number, server) in servers.iter().enumerate().cycle().skip(first).take(servers.len()) {
            match within(CONNECT, Link::open(&self.settings, server, (must_keep, batch))).await {
                Ok(link) => {
                    self.first.store(number, Ordering::Relaxed);
                    return Ok(link);
                }
                Err(error) => faults.push(error),
            }
        }
        Err(worst(faults))
    }

    /// Makes the next connection begin with another server. A primary that was cut off from its standbys accepts
    /// connections, and confirms nothing.
    pub(super) fn leave(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the error of servers of which none can be used. Settings that somebody can change come first.
fn worst(faults: Vec<FleetError>) -> FleetError {
    let is_setting = |fault: &&FleetError| !matches!(fault, FleetError::Unreachable(_) | FleetError::Older { .. });
    let is_older = |fault: &&FleetError| matches!(fault, FleetError::Older { .. });
    if let Some(fault) = faults.iter().find(is_setting).or_else(|| faults.iter().find(is_older)) {
        return fault.clone();
    }
    let text = |fault: FleetError| if let FleetError::Unreachable(text) = fault { text } else { fault.to_string() };
    FleetError::Unreachable(faults.into_iter().map(text).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_faults_the_one_that_somebody_can_change_is_named() {
        let away = || FleetError::Unreachable("db1 is away".to_owned());
        let older = || FleetError::Older { database: 1, home: 2 };
        let setting = || FleetError::Unsynced("fsync is off".to_owned());
        assert_eq!(worst(vec![away(), older(), setting()]), setting());
        assert_eq!(worst(vec![away(), older()]), older());
        let both = FleetError::Unreachable("db1 is away; db1 is away".to_owned());
        assert_eq!(worst(vec![away(), away()]), both);
    }
}
