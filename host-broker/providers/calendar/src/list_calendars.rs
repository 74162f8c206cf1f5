//! `list_calendars`.

use crate::client::Session;
use crate::event::{NAME_CHARS_MAX, shortened};
use crate::reading::{Read, is_zero};
use crate::reference::CalendarId;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters of `list_calendars`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCalendars {}

/// The calendars of the account.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    calendars: Vec<Entry>,
    /// The number of calendars that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    unreadable: usize,
}

/// A calendar.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Its id.
    id: CalendarId,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Whether its events can be changed.
    is_writable: bool,
}

impl Read for ListCalendars {
    type Output = Listed;

    const NAME: &'static str = "list_calendars";
    const DESCRIPTION: &'static str = "Lists the calendars of the account.";

    fn summary(&self) -> String {
        "list the calendars".to_owned()
    }

    async fn perform(self, session: &Session<'_>) -> Result<(Listed, String), Failure> {
        let (found, unreadable) = session.place().await?.calendars(session).await?;
        let writable = &session.calendar.settings.writable;
        let calendars: Vec<Entry> = found
            .into_iter()
            .map(|found| Entry {
                is_writable: found.is_changeable && writable.contains(&found.id),
                name: found.name.map(|name| shortened(&name, NAME_CHARS_MAX)),
                id: found.id,
            })
            .collect();
        let summary = format!("{} calendar{}", calendars.len(), if calendars.len() == 1 { "" } else { "s" });
        Ok((Listed { calendars, unreadable }, summary))
    }
}
