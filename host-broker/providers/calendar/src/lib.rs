//! Calendars: those of an account, read and changed over CalDAV (RFC 4791) or the API of Google Calendar.
//!
//! Each action is one file: its fields are the parameters. The shared modules are:
//!
//! - `settings`: the table in the configuration; `reference`: the ids of calendars and events;
//! - `client`: one request and its answer; `api`: the operations of both APIs;
//! - `caldav`, `query`, `multistatus` and `discovery`: a CalDAV server;
//! - `google`, `google_reads` and `google_event`: Google Calendar;
//! - `content_lines`: iCalendar (RFC 5545); `moment` and `zone`: times and time zones;
//! - `event`, `occurrence` and `fields`: an event as it is read and as a caller gives it;
//! - `reading` and `change`: the common parts of reads and of changes; `failures`.

mod api;
mod caldav;
mod client;
mod connection;
mod content_lines;
mod discovery;
mod event;
mod failures;
mod fields;
mod google;
mod google_event;
mod google_reads;
mod moment;
mod multistatus;
mod occurrence;
mod query;
mod reference;
mod settings;
mod zone;

mod change;
mod create_event;
mod delete_event;
mod get_event;
mod list_calendar;
mod list_calendars;
mod reading;
mod update_event;

pub use moment::{BadZone, Zone};
pub use reference::{BadReference, CalendarId};
pub use settings::{Api, Auth, KIND, Settings};

use change::ChangeAction;
use discovery::Homes;
use model::{Clock, Exposure};
use platform::http::Http;
use provider::accounts::{Account, CallAccount};
use provider::contract::{Failure, Operation};
use provider::native::{BadDeclaration, SharedState, operation};
use reading::ReadAction;
use shared::{Provider, Timestamp};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The exposure of every read: text of other authors, some of it private.
const READS: Exposure = Exposure { untrusted: true, sensitive: true, egress: false };
/// The exposure of an event that is written: its parameters leave.
const WRITES: Exposure = Exposure { untrusted: false, sensitive: false, egress: true };
/// The exposure of a deletion: nothing leaves but the id.
const DELETES: Exposure = Exposure { untrusted: false, sensitive: false, egress: false };

/// The state that the actions share.
#[derive(Clone)]
struct Calendar {
    settings: Arc<Settings>,
    account: Account,
    http: Arc<dyn Http>,
    clock: Arc<dyn Clock>,
    homes: Arc<Homes>,
    parsers: Arc<Semaphore>,
}

impl SharedState for Calendar {
    fn account(&self) -> Option<CallAccount> {
        self.account.undecided()
    }

    fn with_account(&self, account: &CallAccount) -> Option<Self> {
        Some(Self { account: Account::Person(account.clone()), ..self.clone() })
    }
}

impl Calendar {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs the parsing of a server's answer on a thread for long work. At most two run at once.
    async fn parse<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = Arc::clone(&self.parsers).acquire_owned().await;
        let parsed = spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        parsed.await.unwrap_or_else(|_panic| Err(failures::unusable("cannot be parsed")))
    }
}

/// Returns the actions; without a password they are declared and refuse to run. It contacts no server.
fn operations(name: &Provider, shared: &Arc<Calendar>) -> Result<Vec<Arc<dyn Operation>>, BadDeclaration> {
    let all = [
        operation::<ReadAction<list_calendars::ListCalendars>>(name, shared),
        operation::<ReadAction<list_calendar::ListCalendar>>(name, shared),
        operation::<ReadAction<get_event::GetEvent>>(name, shared),
        operation::<ChangeAction<create_event::CreateEvent>>(name, shared),
        operation::<ChangeAction<update_event::UpdateEvent>>(name, shared),
        operation::<ChangeAction<delete_event::DeleteEvent>>(name, shared),
    ];
    all.into_iter().collect()
}
