//! The calendars of the account, as the server names them (RFC 4791, section 6.2.1; RFC 5397).

use crate::api::Found;
use crate::client::Session;
use crate::failures::unusable;
use crate::multistatus::Resource;
use crate::query::PROPERTIES;
use crate::reference::{CalendarId, EventId};
use provider::contract::Failure;
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use url::Url;

/// The address of the calendars, which ends with a slash. Each calendar is one segment below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    url: Url,
    /// The one calendar that `url` of the table names.
    only: Option<CalendarId>,
}

/// The homes that the server has named, by the digest of the credential.
///
/// The name of an account is not a key. Two persons can have accounts of the same name, and an account can be linked again
/// with another credential.
#[derive(Default)]
pub(crate) struct Homes(RwLock<BTreeMap<[u8; 32], Home>>);

/// The most homes that are remembered.
const HOMES_MAX: usize = 256;

impl Homes {
    fn find(&self, credential: &Digest) -> Option<Home> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(credential.as_bytes()).cloned()
    }

    fn insert(&self, credential: &Digest, home: &Home) {
        let mut homes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if homes.len() >= HOMES_MAX {
            homes.clear();
        }
        homes.insert(*credential.as_bytes(), home.clone());
    }
}

impl Home {
    /// Returns the address of a calendar.
    ///
    /// # Errors
    /// [`Failure::Refused`]: the account is bound to another calendar.
    pub(crate) fn calendar(&self, id: &CalendarId) -> Result<Url, Failure> {
        let unknown = || Failure::Refused { message: format!("There is no calendar {id}. See list_calendars.") };
        if self.only.as_ref().is_some_and(|only| only != id) {
            return Err(unknown());
        }
        self.below(&format!("{id}/")).ok_or_else(unknown)
    }

    /// Returns the address of an event.
    ///
    /// # Errors
    /// [`Failure::Refused`], as [`calendar`](Self::calendar).
    pub(crate) fn event(&self, id: &EventId) -> Result<Url, Failure> {
        self.calendar(&id.calendar)?;
        let unknown = || Failure::Refused { message: format!("There is no event {id}.") };
        self.below(&id.to_string()).ok_or_else(unknown)
    }

    /// SECURITY: the address is exactly the home and the names behind it, however a library reads them.
    fn below(&self, path: &str) -> Option<Url> {
        let expected = format!("{}{path}", self.url.path());
        let mut url = self.url.clone();
        url.set_path(&expected);
        (url.path() == expected).then_some(url)
    }

    /// Returns the id of the event at an address that the server gave; `None` if it is not in the calendar.
    pub(crate) fn event_id(&self, calendar: &CalendarId, href: &str) -> Option<EventId> {
        let base = self.calendar(calendar).ok()?;
        let name = beneath(&base, href)?;
        EventId::new(calendar.clone(), name).ok()
    }

    fn calendar_id(&self, href: &str) -> Option<CalendarId> {
        let id = CalendarId::try_from(beneath(&self.url, href)?.trim_end_matches('/').to_owned()).ok()?;
        self.only.as_ref().is_none_or(|only| *only == id).then_some(id)
    }
}

/// Returns the part of an address behind `base`; `None` if it is elsewhere.
fn beneath(base: &Url, href: &str) -> Option<String> {
    let url = base.join(href).ok().filter(|url| is_at(base, url))?;
    url.path().strip_prefix(base.path()).filter(|rest| !rest.is_empty()).map(str::to_owned)
}

/// Returns whether an address is at the server of another, and shows no name before it.
fn is_at(base: &Url, url: &Url) -> bool {
    url.origin() == base.origin() && url.username().is_empty() && url.password().is_none()
}

/// Returns the address that a server refers to.
///
/// # Errors
/// [`Failure::Refused`]: it is at another server, which would get the password.
fn resolved(base: &Url, href: &str) -> Result<Url, Failure> {
    let url = base.join(href).map_err(|_bad| unusable("has an address that is none"))?;
    if !is_at(base, &url) {
        let shown: String = url.as_str().chars().take(200).collect();
        return Err(Failure::Refused {
            message: format!("The calendars are at another server. Set `url` to {shown} if you trust that server."),
        });
    }
    Ok(directory(url))
}

/// Returns the address with a slash at its end, without query and fragment.
fn directory(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    url
}

impl Session<'_> {
    /// Returns the home of the calendars. The server is asked once.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn home(&self) -> Result<Home, Failure> {
        let credential = Digest::of(self.authorization.as_bytes());
        if let Some(home) = self.calendar.homes.find(&credential) {
            return Ok(home);
        }
        let home = self.discovered().await?;
        self.calendar.homes.insert(&credential, &home);
        Ok(home)
    }

    /// Asks the server for the home of the calendars.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn discovered(&self) -> Result<Home, Failure> {
        let address = self.calendar.settings.address().map_err(|message| Failure::Refused { message })?;
        let resource = self.one(&directory(address.clone())).await?;
        if resource.is_calendar {
            return of_one_calendar(&directory(address));
        }
        let home = match (resource.home, resource.principal) {
            (Some(home), _) => Some((address, home)),
            (None, Some(principal)) => {
                let principal = resolved(&address, &principal)?;
                self.one(&principal).await?.home.map(|home| (principal, home))
            }
            (None, None) => None,
        };
        let Some((base, href)) = home else {
            let message = "The server names no calendars of the account. Set `url` to the address of one calendar.";
            return Err(Failure::Refused { message: message.into() });
        };
        Ok(Home { url: resolved(&base, &href)?, only: None })
    }

    async fn one(&self, url: &Url) -> Result<Resource, Failure> {
        let resources = self.propfind(url, "0", PROPERTIES).await?;
        resources.into_iter().next().ok_or_else(|| unusable("names no resource"))
    }

    /// Returns the calendars that can have events.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(crate) async fn calendars(&self, home: &Home) -> Result<Vec<Found>, Failure> {
        let resources = self.propfind(&home.url, "1", PROPERTIES).await?;
        let has_events = |resource: &Resource| {
            let components = resource.components.as_ref();
            resource.is_calendar && components.is_none_or(|names| names.iter().any(|name| name == "VEVENT"))
        };
        let calendars = resources.into_iter().filter(has_events);
        let mut found: Vec<Found> = calendars
            .filter_map(|resource| {
                let id = home.calendar_id(&resource.href)?;
                Some(Found { id, name: resource.display_name, is_changeable: true })
            })
            .collect();
        found.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(found)
    }
}

fn of_one_calendar(url: &Url) -> Result<Home, Failure> {
    let parent = url.join("..").map_err(|_bad| unusable("has an address that is none"))?;
    let only = beneath(&parent, url.as_str()).map(|name| name.trim_end_matches('/').to_owned());
    match only.map(CalendarId::try_from) {
        Some(Ok(only)) => Ok(Home { url: parent, only: Some(only) }),
        Some(Err(_)) | None => {
            Err(Failure::Refused { message: "The address of the calendar has a name that cannot be used.".into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home { url: Url::parse("https://cal.example.com/dav/ada/").unwrap(), only: None }
    }

    fn id(text: &str) -> CalendarId {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn addresses_are_the_home_and_the_names_behind_it() {
        assert_eq!(home().calendar(&id("work")).unwrap().as_str(), "https://cal.example.com/dav/ada/work/");
        let event: EventId = "my%20work/a@b.ics".parse().unwrap();
        assert_eq!(home().event(&event).unwrap().as_str(), "https://cal.example.com/dav/ada/my%20work/a@b.ics");
    }

    #[test]
    fn an_address_elsewhere_has_no_id() {
        let work = id("work");
        for href in ["/dav/ada/work/a.ics", "https://cal.example.com/dav/ada/work/a.ics"] {
            assert_eq!(home().event_id(&work, href).unwrap().to_string(), "work/a.ics");
        }
        for href in [
            "https://evil.example/dav/ada/work/a.ics",
            "http://cal.example.com/dav/ada/work/a.ics",
            "/dav/ada/work/",
            "/dav/ada/work/../private/a.ics",
            "/dav/ada/work/%2e%2e/private/a.ics",
            "/dav/ada/work/a/b.ics",
            "/dav/ada/work/a%2Fb.ics",
            "//evil.example/a.ics",
        ] {
            assert_eq!(home().event_id(&work, href), None, "{href}");
        }
    }

    #[test]
    fn another_server_does_not_get_the_password() {
        let base = Url::parse("https://cal.example.com/").unwrap();
        assert!(resolved(&base, "/dav/ada").is_ok_and(|url| url.as_str() == "https://cal.example.com/dav/ada/"));
        for href in [
            "https://evil.example/",
            "http://cal.example.com/",
            "//evil.example/",
            "file:///etc",
            "https://bank.example@cal.example.com/",
            "https://cal.example.com:444/",
        ] {
            assert!(resolved(&base, href).is_err(), "{href}");
        }
    }

    #[test]
    fn the_address_of_one_calendar_allows_no_other() {
        let home = of_one_calendar(&Url::parse("https://cal.example.com/dav/ada/work/").unwrap()).unwrap();
        assert!(home.calendar(&id("work")).is_ok());
        assert!(home.calendar(&id("private")).is_err());
        assert_eq!(home.calendar_id("/dav/ada/private/"), None);
    }
}
