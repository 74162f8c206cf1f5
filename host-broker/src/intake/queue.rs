//! The waiting documents of one group: their names, and when they are read.

use super::worker::{Job, Reading};
use super::{ForeignTypes, ParseWorker};
use crate::call::{self, Desk, Parsed};
use crate::effects::clock::Clock;
use crate::event::Event;
use crate::mailroom::{Room, RoomError};
use shared::mailbox::{Listing, ReadFault, is_document};
use shared::{Code, Group, limits};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many names of one group wait; more are found again by the next listing.
const NAMES_MAX: usize = 4096;
/// How many names of a directory are read in one turn.
const LISTED_MAX: usize = 128;
/// The largest document, in bytes, that is read and parsed on the loop's thread.
const SHORT_BYTES_MAX: usize = 4 * 1024;
/// Listing takes a tenth of the time at most, so a full directory does not delay the other groups.
const LISTING_REST: u32 = 9;
/// When a directory that cannot be listed is tried again.
const LISTING_RETRY: Duration = Duration::from_secs(1);
/// The long documents of one group take half of the worker's time at most.
const PARSING_REST: u32 = 1;

/// One group's documents that are not read yet.
pub(super) struct Queue {
    room: Arc<Room>,
    names: VecDeque<String>,
    // The names of long documents, which the worker takes one by one.
    long: VecDeque<String>,
    is_parsing: bool,
    parses_from: Instant,
    // More names than fit, or a file that could not be read yet: list again.
    again: bool,
    listing: Option<Listing>,
    lists_from: Instant,
    spent: Duration,
    // Other groups are served now.
    others: bool,
    notices: u32,
    noticed_since: Instant,
    unwatched_until: Option<Instant>,
}

impl Queue {
    pub(super) fn new(room: Arc<Room>, now: Instant) -> Self {
        Self {
            room,
            names: VecDeque::new(),
            long: VecDeque::new(),
            is_parsing: false,
            parses_from: now,
            again: true,
            listing: None,
            lists_from: now,
            spent: Duration::ZERO,
            others: false,
            notices: 0,
            noticed_since: now,
            unwatched_until: None,
        }
    }

    pub(super) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    pub(super) fn group(&self) -> &Group {
        &self.room.group
    }

    /// Opens the group's directories again if they were replaced. Returns whether they were.
    pub(super) fn refresh(&mut self) -> Result<bool, RoomError> {
        let replaced = self.room.refresh();
        if matches!(replaced, Ok(true)) {
            // The listing is of the earlier directory.
            self.listing = None;
        }
        replaced
    }

    pub(super) fn list_again(&mut self) {
        self.again = true;
    }

    /// Returns whether there is work that no notice will announce.
    pub(super) fn waits(&self) -> bool {
        self.again || self.listing.is_some() || !self.names.is_empty() || !self.long.is_empty() && !self.is_parsing
    }

    pub(super) fn can_be_served(&self, now: Instant) -> bool {
        let has_short = !self.names.is_empty() && self.room.takes_short();
        (has_short || self.may_parse(now) && !self.long.is_empty())
            && self.room.pace.permits(self.others, now)
            && self.room.has_place()
    }

    pub(super) fn wants_listing(&self, now: Instant) -> bool {
        (self.again || self.listing.is_some()) && self.names.is_empty() && self.lists_from <= now
    }

    pub(super) fn push(&mut self, name: &str) {
        if self.names.len() < NAMES_MAX { self.names.push_back(name.to_owned()) } else { self.again = true }
    }

    /// Counts a notice about the group's directory. Returns how many there were within the second.
    pub(super) fn count_notice(&mut self, now: Instant) -> u32 {
        if now.saturating_duration_since(self.noticed_since) >= Duration::from_secs(1) {
            (self.notices, self.noticed_since) = (0, now);
        }
        self.notices = self.notices.saturating_add(1);
        self.notices
    }

    pub(super) fn unwatch_until(&mut self, until: Instant) {
        self.unwatched_until = Some(until);
    }

    pub(super) fn is_unwatched(&mut self, now: Instant) -> bool {
        self.unwatched_until = self.unwatched_until.filter(|until| *until > now);
        self.unwatched_until.is_some()
    }

    /// Begins a turn. `others` says whether other groups are served now.
    pub(super) fn begin_turn(&mut self, others: bool) {
        (self.spent, self.others) = (Duration::ZERO, others);
    }

    /// Returns how long the group was served in this turn.
    pub(super) fn spent(&self) -> Duration {
        self.spent
    }

    /// Reads a bounded part of the directory, and goes on there the next time.
    pub(super) fn list(&mut self) {
        let began = Instant::now();
        match self.list_some() {
            Ok(()) => self.lists_from = Instant::now() + began.elapsed() * LISTING_REST,
            Err(error) => {
                (self.listing, self.again) = (None, true);
                self.lists_from = Instant::now() + LISTING_RETRY;
                tracing::warn!(group = %self.room.group, %error, "the group's tasks cannot be listed");
            }
        }
    }

    fn list_some(&mut self) -> Result<(), shared::mailbox::MailboxError> {
        let Some(handles) = self.room.handles() else {
            self.again = false;
            return Ok(());
        };
        let listing = if let Some(listing) = &mut self.listing {
            listing
        } else {
            self.again = false;
            let listing = handles.tasks.list()?;
            self.room.begin_listing();
            self.listing.insert(listing)
        };
        let mut found = Vec::new();
        let more = listing.next_names(LISTED_MAX, |name| {
            if is_document(name) {
                found.push(name.to_owned());
            }
        })?;
        // The queue would only skip a file in hand again.
        found.retain(|name| handles.tasks.look(name).is_some_and(|identity| !self.room.has(name, identity)));
        self.names.extend(found);
        if !more {
            self.listing = None;
            self.room.end_listing();
        }
        Ok(())
    }

    fn may_parse(&self, now: Instant) -> bool {
        !self.is_parsing && self.parses_from <= now && self.room.takes_long()
    }

    /// Notes that the worker has parsed the group's document, in this time.
    pub(super) fn is_parsed(&mut self, took: Duration) {
        self.is_parsing = false;
        self.parses_from = Instant::now() + took * PARSING_REST;
    }

    /// Returns the event of a parsed document; `None` for one that is left alone.
    pub(super) fn accept(&self, parsed: Parsed, desk: &Desk) -> Option<Event> {
        if let Parsed::Rubbish(rubbish) = &parsed {
            self.room.pace.count(Instant::now());
            if rubbish.code == Code::UnknownType && desk.foreign_types == ForeignTypes::Leave {
                return None;
            }
        }
        Some(Event::Arrived(parsed))
    }

    /// Handles one short document, or hands a long one to the worker. Returns `false` if there was none, or no place
    /// for it.
    pub(super) fn serve(
        &mut self,
        index: usize,
        desk: &Arc<Desk>,
        clock: &dyn Clock,
        worker: &ParseWorker,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let began = Instant::now();
        if !self.can_be_served(began) {
            return false;
        }
        let Some(slot) = self.room.slot() else { return false };
        let may_parse = self.may_parse(began);
        let next = if may_parse { self.long.pop_front() } else { None };
        let Some(name) = next.or_else(|| self.names.pop_front()) else { return false };
        let Some(reading) = self.find(&name) else { return true };
        match &reading {
            Reading::Found(found) if found.size() > SHORT_BYTES_MAX && !may_parse => {
                if self.long.len() < NAMES_MAX {
                    self.long.push_back(name);
                } else {
                    self.again = true;
                }
            }
            Reading::Found(_) | Reading::Refused(..) => {
                let is_long = matches!(&reading, Reading::Found(found) if found.size() > SHORT_BYTES_MAX);
                if !self.room.take(&name, reading.identity()) {
                    return true;
                }
                let room = Arc::clone(&self.room);
                let job = Job { queue: index, room, name, reading, slot, arrived: began, wall: clock.now() };
                if is_long {
                    self.is_parsing = worker.take(job, desk);
                } else if let Some(inbound) = job.read() {
                    events.extend(self.accept(call::parse(inbound, desk), desk));
                } else {
                    self.again = true;
                }
            }
        }
        self.spent += began.elapsed();
        true
    }

    /// Opens a document, or finds out why it cannot be read; `None` if there is nothing to be answered.
    fn find(&mut self, name: &str) -> Option<Reading> {
        let handles = self.room.handles()?;
        let malformed = |identity, reason: &str| Reading::Refused(identity, Code::MalformedRequest, reason.to_owned());
        Some(match handles.tasks.find(name, limits::REQUEST_BYTES_MAX, self.room.owner) {
            Ok(found) => Reading::Found(found),
            Err(ReadFault::Missing | ReadFault::BadName) => return None,
            // The holder of a lease must let go within the system's lease-break time; the next listing finds it again.
            Err(fault) if fault.is_passing() => {
                self.again = true;
                return None;
            }
            Err(ReadFault::TooLarge(identity)) => Reading::too_large(identity),
            Err(ReadFault::NotRegular(identity)) => malformed(identity, "The request is not a regular file."),
            Err(ReadFault::Linked(identity)) => malformed(identity, "The request's file has more than one link."),
            Err(ReadFault::WrongOwner(identity)) => {
                malformed(identity, "The request's file belongs to another user than configured for this group.")
            }
            Err(ReadFault::System(..) | ReadFault::Leased(_)) => {
                malformed(handles.tasks.look(name)?, "The request's file cannot be read.")
            }
        })
    }
}

impl Reading {
    fn too_large(identity: shared::mailbox::FileIdentity) -> Self {
        Self::Refused(identity, Code::OversizedRequest, Code::OversizedRequest.meaning().to_owned())
    }
}
