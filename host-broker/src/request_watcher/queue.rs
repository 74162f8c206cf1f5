//! The waiting documents of one group: their names, and when they are read.

use super::lane::{has_any, lane};
use super::worker::{Job, Look, OpenedDocument, ParsedDocuments, PendingDocument, Reading, RefusedDocument, is_long};
use super::{ParseWorker, UnknownRequests};
use crate::mailboxes::{GroupMailbox, Handles, MailboxesError};
use crate::sockets::FrameDocument;
use engine::event::Event;
use engine::request;
use engine::request::{ParseContext, Parsed};
use kernel::call::{Lane, Origin};
use model::Clock;
use shared::mailbox::{Listing, is_document};
use shared::snapshot::Snapshot;
use shared::{Code, Group};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many names of one group wait; more are found again by the next listing.
const NAMES_MAX: usize = 4096;
/// How many names of a directory are read in one turn.
const LISTED_MAX: usize = 128;
/// How many refused documents of one group wait for their pace. Beyond, the later ones wait unread. It is less than the
/// number of files in hand, so that these ones can always be answered.
const REFUSED_MAX: usize = 3072;
/// How many documents of a group are looked at in one task of the worker.
const LOOKED_MAX: usize = 64;
/// Listing takes a tenth of the time at most, so a full directory does not delay the other groups.
const LISTING_REST: u32 = 9;
/// When a directory that cannot be listed is tried again.
const LISTING_RETRY: Duration = Duration::from_secs(1);
/// The pause between two looks at whether a group's directories were replaced, after a first one. It doubles while the
/// group goes on, because each replacement is a row of its own.
const REFRESH_PAUSE: Duration = Duration::from_secs(1);
const REFRESH_PAUSE_MAX: Duration = Duration::from_secs(60);
/// One group takes half of the worker's time at most.
const PARSING_REST: u32 = 1;

/// The next work for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next long document, by the worker.
    Long,
    /// The next document that was looked at and will be refused.
    Refused,
    /// The next document of any lane.
    Any,
    /// The permitted ones among those that wait.
    Look,
}

/// One group's documents that are not read yet.
pub(super) struct Queue {
    mailbox: Arc<GroupMailbox>,
    documents: VecDeque<PendingDocument>,
    // The long ones, which the worker takes one by one.
    long: VecDeque<PendingDocument>,
    // Those that were looked at and will be refused.
    refused: VecDeque<RefusedDocument>,
    // The last read of the socket brought a request.
    reads_well: bool,
    // The last snapshot of the group.
    snapshot: Option<Arc<Snapshot>>,
    worker: Worker,
    parses_from: Instant,
    // More names than fit, or a file that could not be read yet: list again.
    again: bool,
    // With the directories that it is of.
    listing: Option<(Arc<Handles>, Listing)>,
    lists_from: Instant,
    spent: Duration,
    // Other groups are served now.
    others: bool,
    notices: u32,
    noticed_since: Instant,
    unwatched_until: Option<Instant>,
    refresh: Refresh,
}

/// The state of the worker for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    Free,
    /// It parses a long document.
    Parses,
    /// It looks for permitted documents.
    Looks,
}

/// When to look whether a group's directories were replaced.
struct Refresh {
    // They may have been.
    is_due: bool,
    from: Instant,
    pause: Duration,
}

impl Queue {
    pub(super) fn new(mailbox: Arc<GroupMailbox>, now: Instant) -> Self {
        Self {
            mailbox,
            documents: VecDeque::new(),
            long: VecDeque::new(),
            refused: VecDeque::new(),
            reads_well: true,
            snapshot: None,
            worker: Worker::Free,
            parses_from: now,
            again: true,
            listing: None,
            lists_from: now,
            spent: Duration::ZERO,
            others: false,
            notices: 0,
            noticed_since: now,
            unwatched_until: None,
            refresh: Refresh { is_due: false, from: now, pause: REFRESH_PAUSE },
        }
    }

    pub(super) fn mailbox(&self) -> &Arc<GroupMailbox> {
        &self.mailbox
    }

    pub(super) fn group(&self) -> &Group {
        &self.mailbox.group
    }

    /// Notes that the group's directories may have been replaced.
    pub(super) fn refresh_later(&mut self) {
        self.refresh.is_due = true;
        self.mailbox.may_be_replaced();
    }

    /// Returns when to look whether the group's directories were replaced, if they may have been.
    pub(super) fn refreshes_at(&self) -> Option<Instant> {
        self.refresh.is_due.then_some(self.refresh.from)
    }

    /// Opens the group's directories again if they were replaced. Returns whether they were.
    pub(super) fn refresh(&mut self) -> Result<bool, MailboxesError> {
        let now = Instant::now();
        let refresh = &mut self.refresh;
        if std::mem::take(&mut refresh.is_due) {
            let was_long_ago = now.saturating_duration_since(refresh.from) >= refresh.pause;
            refresh.pause = if was_long_ago { REFRESH_PAUSE } else { (refresh.pause * 2).min(REFRESH_PAUSE_MAX) };
            refresh.from = now + refresh.pause;
        }
        let replaced = self.mailbox.refresh();
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
        self.again
            || self.listing.is_some()
            || !self.documents.is_empty()
            || self.mailbox.socket.can_be_read()
            || !self.refused.is_empty()
            || !self.long.is_empty() && self.worker == Worker::Free
    }

    pub(super) fn can_be_served(&self, now: Instant) -> bool {
        !self.is_idle() && (self.next(now).is_some() || self.may_read(now))
    }

    /// Returns whether there is neither a document nor anything to read.
    ///
    /// The loop asks every group with each wake-up, and most have nothing. So this does not read the clock.
    fn is_idle(&self) -> bool {
        !self.has_documents() && !self.mailbox.socket.can_be_read()
    }

    fn has_documents(&self) -> bool {
        !(self.documents.is_empty() && self.long.is_empty() && self.refused.is_empty())
    }

    pub(super) fn wants_listing(&self, now: Instant) -> bool {
        (self.again || self.listing.is_some()) && self.documents.is_empty() && self.lists_from <= now
    }

    pub(super) fn push(&mut self, name: &str) {
        if self.documents.len() < NAMES_MAX {
            self.documents.push_back(PendingDocument::File(name.to_owned()));
        } else {
            self.again = true;
        }
    }

    /// A document that came over the socket waits, too.
    pub(super) fn push_frame(&mut self, frame: FrameDocument) {
        self.documents.push_back(PendingDocument::Frame(Box::new(frame)));
    }

    fn push_long(&mut self, document: PendingDocument) {
        match document {
            PendingDocument::File(_) if self.long.len() >= NAMES_MAX => self.again = true,
            document @ (PendingDocument::File(_) | PendingDocument::Frame(_)) => self.long.push_back(document),
        }
    }

    /// Returns whether the group's connections may be read.
    ///
    /// A read that brings no request is paid for like a refused document.
    fn may_read(&self, now: Instant) -> bool {
        self.mailbox.socket.can_be_read()
            && (self.reads_well || self.mailbox.pace(Lane::Refused).permits(self.others, now))
    }

    /// Reads from one of the group's connections, if that may be done now.
    fn read_socket(&mut self, began: Instant) -> bool {
        if !self.may_read(began) {
            return false;
        }
        let read = self.mailbox.socket.read(began);
        self.reads_well = !read.is_empty();
        if read.is_empty() {
            self.mailbox.pace(Lane::Refused).spend(began.elapsed(), Duration::ZERO, began);
        }
        for frame in read {
            self.push_frame(frame);
        }
        true
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
                tracing::warn!(group = %self.mailbox.group, %error, "the group's tasks cannot be listed");
            }
        }
    }

    fn list_some(&mut self) -> Result<(), shared::mailbox::MailboxError> {
        let Some(handles) = self.mailbox.handles() else {
            self.again = false;
            return Ok(());
        };
        // A reply may have opened the directories again; the listing is then of the earlier one.
        drop(self.listing.take_if(|(of, _)| !Arc::ptr_eq(of, &handles)));
        let (_, listing) = match &mut self.listing {
            Some(listing) => listing,
            none => {
                self.again = false;
                let listing = handles.tasks.list()?;
                self.mailbox.begin_listing();
                none.insert((Arc::clone(&handles), listing))
            }
        };
        let mut found = Vec::new();
        let more = listing.next_names(LISTED_MAX, |name| {
            if is_document(name) {
                found.push(name.to_owned());
            }
        })?;
        // The queue would only skip a file in hand again.
        found.retain(|name| handles.tasks.look(name).is_some_and(|identity| !self.mailbox.has(name, identity)));
        self.documents.extend(found.into_iter().map(PendingDocument::File));
        if !more {
            self.listing = None;
            self.mailbox.end_listing();
        }
        Ok(())
    }

    fn may_parse(&self, now: Instant) -> bool {
        self.worker == Worker::Free && self.parses_from <= now && self.mailbox.takes_long()
    }

    /// Returns when the worker may next have something of the group, if that is not now.
    pub(super) fn parses_at(&self, now: Instant) -> Option<Instant> {
        let has_some = !self.long.is_empty() || !self.documents.is_empty();
        (has_some && self.parses_from > now).then_some(self.parses_from)
    }

    /// Sets the permissions of the group.
    pub(super) fn set_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshot = Some(snapshot);
    }

    /// Takes the results of the worker. Returns the events to decide on.
    pub(super) fn is_parsed(&mut self, done: ParsedDocuments, parse_context: &ParseContext) -> Vec<Event> {
        let ParsedDocuments { parsed, refused, mut rest, long, again, took, queue: _ } = done;
        self.worker = Worker::Free;
        self.parses_from = Instant::now() + took * PARSING_REST;
        self.again |= again;
        self.refused.extend(refused);
        rest.append(&mut self.documents);
        self.documents = rest;
        for document in long {
            self.push_long(document);
        }
        parsed.into_iter().filter_map(|parsed| self.accept(parsed, Duration::ZERO, parse_context)).collect()
    }

    /// Returns the event of a parsed document; `None` for one that is left alone.
    ///
    /// `took` is the time that the loop read and parsed it. The group pays for that unless its snapshot permits the
    /// request.
    fn accept(&self, mut parsed: Parsed, took: Duration, parse_context: &ParseContext) -> Option<Event> {
        let (lane, now) = (lane(self.snapshot.as_deref(), &parsed), Instant::now());
        if lane == Lane::Refused {
            self.mailbox.pace(lane).spend(took, Duration::ZERO, now);
        }
        match parsed.origin_mut() {
            Origin::File(file) => file.lane = lane,
            Origin::Frame(frame) => frame.lane = lane,
            Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => {}
        }
        if let Parsed::InvalidDocument(invalid) = &parsed {
            self.mailbox.pace(lane).count(now);
            if invalid.code == Code::UnknownType && parse_context.unknown_requests == UnknownRequests::Ignore {
                return None;
            }
        }
        Some(Event::Arrived(parsed))
    }

    /// Returns the next work for the group.
    ///
    /// Returns `None` if there is none, no place for it, or the group's pace forbids it.
    fn next(&self, now: Instant) -> Option<Next> {
        if !self.has_documents() || !self.mailbox.has_place() {
            return None;
        }
        let permits = |lane| self.mailbox.pace(lane).permits(self.others, now);
        let (takes_short, refused_too) = (self.mailbox.takes_short(), permits(Lane::Refused));
        if refused_too && !self.long.is_empty() && self.may_parse(now) {
            return Some(Next::Long);
        }
        if refused_too && takes_short && !self.refused.is_empty() {
            return Some(Next::Refused);
        }
        if !takes_short || !permits(Lane::Permitted) || self.worker == Worker::Looks {
            return None;
        }
        if refused_too && self.refused.is_empty() {
            return (!self.documents.is_empty()).then_some(Next::Any);
        }
        let has_some = !self.documents.is_empty() || !self.long.is_empty() && self.mailbox.takes_long();
        let may_look = self.can_find() && self.worker == Worker::Free && self.parses_from <= now;
        (has_some && may_look).then_some(Next::Look)
    }

    /// Returns whether a look may find something.
    ///
    /// It cannot if nothing is permitted, or if there is no place for refused documents.
    fn can_find(&self) -> bool {
        self.refused.len() < REFUSED_MAX && self.snapshot.as_ref().is_some_and(|snapshot| has_any(snapshot))
    }

    /// Returns whether nothing of the group is served before its pace permits it.
    pub(super) fn waits_for_pace(&self, now: Instant) -> bool {
        let permits = |lane| self.mailbox.pace(lane).permits(self.others, now);
        !(permits(Lane::Refused) || permits(Lane::Permitted) && self.can_find())
    }

    /// Handles one short document, or hands something to the worker. Returns `false` if there was nothing, or no place
    /// for it.
    pub(super) fn serve(
        &mut self,
        index: usize,
        (parse_context, clock): (&Arc<ParseContext>, &Arc<dyn Clock>),
        worker: &ParseWorker,
        events: &mut VecDeque<Event>,
    ) -> bool {
        if self.is_idle() {
            return false;
        }
        let began = Instant::now();
        let has_read = self.read_socket(began);
        let Some(next) = self.next(began) else {
            self.spent += began.elapsed();
            return has_read;
        };
        if next == Next::Look {
            return self.look(index, (parse_context, clock), worker) || has_read;
        }
        // The worker may have taken the last place.
        let Some(slot) = self.mailbox.slot() else { return has_read };
        let document = match next {
            Next::Look => None,
            Next::Long => self.long.pop_front(),
            Next::Refused => self.refused.pop_front().map(|refused| match refused {
                RefusedDocument::File(name, identity) => {
                    self.mailbox.put_back(&name, identity);
                    PendingDocument::File(name)
                }
                RefusedDocument::Frame(frame) => PendingDocument::Frame(frame),
            }),
            Next::Any => self.documents.pop_front(),
        };
        let Some(document) = document else { return has_read };
        let Some((found, is_long)) = self.find(document, began) else { return true };
        let mailbox = Arc::clone(&self.mailbox);
        let job = Job { queue: index, mailbox, found, slot, arrived: began, wall: clock.now() };
        if is_long {
            if worker.take(job, self.snapshot.clone(), parse_context) {
                self.worker = Worker::Parses;
            }
        } else if let Some(inbound) = job.read() {
            let parsed = request::parse(inbound, parse_context);
            events.extend(self.accept(parsed, began.elapsed(), parse_context));
        } else {
            self.again = true;
        }
        self.spent += began.elapsed();
        true
    }

    /// Opens a document, and returns whether it is long. A long one that has to wait is put where it waits; of a file
    /// that is not there, or is in hand already, nothing is found.
    fn find(&mut self, document: PendingDocument, now: Instant) -> Option<(OpenedDocument, bool)> {
        match document {
            PendingDocument::File(name) => {
                let (reading, is_passing) = Reading::find(&self.mailbox, &name);
                self.again |= is_passing;
                let reading = reading?;
                let is_long = reading.is_long();
                if is_long && !self.may_parse(now) {
                    self.push_long(PendingDocument::File(name));
                    return None;
                }
                self.mailbox.take(&name, reading.identity()).then(|| (OpenedDocument::File(name, reading), is_long))
            }
            PendingDocument::Frame(frame) => {
                let is_long = is_long(&frame);
                if is_long && !self.may_parse(now) {
                    self.push_long(PendingDocument::Frame(frame));
                    return None;
                }
                Some((OpenedDocument::Frame(frame), is_long))
            }
        }
    }

    /// Has the worker find the permitted documents among those that wait.
    fn look(
        &mut self,
        index: usize,
        (parse_context, clock): (&Arc<ParseContext>, &Arc<dyn Clock>),
        worker: &ParseWorker,
    ) -> bool {
        let Some(snapshot) = self.snapshot.clone() else { return false };
        let mut documents = if self.mailbox.takes_long() { std::mem::take(&mut self.long) } else { VecDeque::new() };
        let fresh = self.documents.len().min(LOOKED_MAX.saturating_sub(documents.len()));
        documents.extend(self.documents.drain(..fresh));
        let (mailbox, clock) = (Arc::clone(&self.mailbox), Arc::clone(clock));
        let is_taken = worker.look(Look { queue: index, mailbox, documents, snapshot, clock }, parse_context);
        if is_taken {
            self.worker = Worker::Looks;
        }
        is_taken
    }
}
