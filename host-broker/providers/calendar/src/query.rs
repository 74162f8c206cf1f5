//! The bodies of requests in XML.

use chrono::{DateTime, TimeDelta, Utc};

/// The properties of the account and of its calendars.
pub(crate) const PROPERTIES: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<D:propfind xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:prop><D:resourcetype/><D:displayname/><D:current-user-principal/><C:calendar-home-set/><C:supported-calendar-component-set/></D:prop></D:propfind>
"#;

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first instant.
    pub(crate) from: DateTime<Utc>,
    /// The instant after the last one.
    pub(crate) to: DateTime<Utc>,
}

impl Window {
    fn attributes(self) -> String {
        const FORM: &str = "%Y%m%dT%H%M%SZ";
        format!(r#"start="{}" end="{}""#, self.from.format(FORM), self.to.format(FORM))
    }

    /// Asks a calendar for the events in it, each occurrence by itself (RFC 4791, section 7.8). The request is one day
    /// longer on both sides, because the server places whole days in a time zone of its own.
    pub(crate) fn events(self) -> String {
        let (from, to) = (self.from - TimeDelta::days(1), self.to + TimeDelta::days(1));
        let times = Self { from, to }.attributes();
        format!(
            r#"<?xml version="1.0" encoding="utf-8"?>
<C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:prop><C:calendar-data><C:expand {times}/></C:calendar-data></D:prop><C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT"><C:time-range {times}/></C:comp-filter></C:comp-filter></C:filter></C:calendar-query>
"#
        )
    }
}
