//! The people who are signed in: twelve hours at most, and an hour without a page.

use shared::Timestamp;
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::time::Duration;
use subtle::ConstantTimeEq as _;

/// The longest session.
pub(super) const LIFE: Duration = Duration::from_hours(12);
/// The longest time without a page.
const IDLE: Duration = Duration::from_hours(1);
/// How many sessions of one person there are at once; the one that was used least recently gives way.
const SESSIONS_MAX: usize = 8;

/// The kind of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A person looks at a page or answers.
    Page,
    /// A page renews itself, which says nothing of a person.
    Watch,
}

/// A person who is signed in.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The person.
    pub person: String,
    /// The value that each form of this session must carry.
    pub form: String,
    /// Whether the person may read the pages about all groups. A session does not know it; the configuration does.
    pub audits: bool,
}

impl Visitor {
    /// Checks whether a form that carries this is one of this session's pages.
    pub fn sent(&self, form: &str) -> bool {
        bool::from(self.form.as_bytes().ct_eq(form.as_bytes()))
    }
}

struct Session {
    person: String,
    begun: Timestamp,
    used: Timestamp,
}

impl Session {
    fn lives(&self, now: Timestamp) -> bool {
        now.since(self.begun) < LIFE && now.since(self.used) < IDLE
    }
}

/// The sessions, by the digest of the cookie's value.
#[derive(Default)]
pub(super) struct Sessions(BTreeMap<Digest, Session>);

impl Sessions {
    pub(super) fn begin(&mut self, cookie: &str, person: String, now: Timestamp) {
        self.0.retain(|_, session| session.lives(now));
        let mine = self.0.iter().filter(|(_, session)| session.person == person);
        if mine.clone().count() >= SESSIONS_MAX
            && let Some(oldest) = mine.min_by_key(|(_, session)| session.used).map(|(digest, _)| *digest)
        {
            self.0.remove(&oldest);
        }
        self.0.insert(Digest::of(cookie.as_bytes()), Session { person, begun: now, used: now });
    }

    pub(super) fn visitor(&mut self, cookie: &str, how: Use, now: Timestamp) -> Option<Visitor> {
        let session = self.0.get_mut(&Digest::of(cookie.as_bytes())).filter(|session| session.lives(now))?;
        if how == Use::Page {
            session.used = now;
        }
        let form = Digest::keyed(cookie.as_bytes(), b"the forms of this session").hex();
        Some(Visitor { person: session.person.clone(), form, audits: false })
    }

    pub(super) fn end(&mut self, cookie: &str) {
        self.0.remove(&Digest::of(cookie.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(5_000_000);

    fn minutes(n: u64) -> Timestamp {
        START.plus(Duration::from_mins(n))
    }

    #[test]
    fn a_session_ends_an_hour_after_the_last_page_and_always_after_twelve_hours() {
        let mut sessions = Sessions::default();
        sessions.begin("a", "alice".into(), START);
        assert!(sessions.visitor("a", Use::Watch, minutes(59)).is_some());
        assert!(sessions.visitor("a", Use::Page, minutes(60)).is_none(), "a page that renews itself is no person");
        sessions.begin("b", "alice".into(), START);
        for half_hour in 1..24 {
            assert!(sessions.visitor("b", Use::Page, minutes(half_hour * 30)).is_some(), "{half_hour}");
        }
        assert!(sessions.visitor("b", Use::Page, minutes(12 * 60 - 1)).is_some());
        assert!(sessions.visitor("b", Use::Page, minutes(12 * 60)).is_none());
    }

    #[test]
    fn a_person_has_so_many_sessions_and_the_one_least_used_gives_way() {
        let mut sessions = Sessions::default();
        sessions.begin("bob", "bob".into(), START);
        for n in 0..SESSIONS_MAX {
            sessions.begin(&n.to_string(), "alice".into(), minutes(1));
        }
        sessions.visitor("0", Use::Page, minutes(2));
        sessions.begin("one more", "alice".into(), minutes(3));
        assert_eq!(sessions.0.len(), SESSIONS_MAX + 1);
        assert!(sessions.visitor("0", Use::Page, minutes(4)).is_some());
        assert!(sessions.visitor("bob", Use::Page, minutes(4)).is_some());
    }

    #[test]
    fn each_session_has_its_own_form_value_and_ends_when_it_is_left() {
        let mut sessions = Sessions::default();
        sessions.begin("a", "alice".into(), START);
        sessions.begin("b", "alice".into(), START);
        let (a, b) =
            (sessions.visitor("a", Use::Page, START).unwrap(), sessions.visitor("b", Use::Page, START).unwrap());
        assert!(a.sent(&a.form) && !a.sent(&b.form) && !a.sent("") && !a.sent("a"));
        sessions.end("a");
        assert!(sessions.visitor("a", Use::Page, START).is_none());
        assert!(sessions.visitor("c", Use::Page, START).is_none());
    }
}
