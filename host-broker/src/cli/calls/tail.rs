//! `calls tail`: follows the calls by looking at the database, reading only.

use super::{cells, people};
use crate::cli::Context;
use crate::cli::output::{CliError, visible};
use std::collections::BTreeSet;
use std::time::Duration;
use store::View;
use store::ledger::calls;
use store::ledger::calls::{CallRecord, Filter};

/// How often the database is asked whether anything was written.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn tail(context: &Context, ledger: &View, filter: Filter, last: u32) -> Result<(), CliError> {
    let mut tail = Tail { context, ledger, filter, under_way: BTreeSet::new() };
    let mut version = calls::version(ledger)?;
    if !tail.begin(last)? {
        return Ok(());
    }
    loop {
        std::thread::park_timeout(PAUSE);
        let now = calls::version(ledger)?;
        if now != version {
            version = now;
            if !tail.look()? {
                return Ok(());
            }
        }
    }
}

struct Tail<'a> {
    context: &'a Context,
    ledger: &'a View,
    filter: Filter,
    // Calls that were told of before their outcome was there.
    under_way: BTreeSet<i64>,
}

impl Tail<'_> {
    fn begin(&mut self, last: u32) -> Result<bool, CliError> {
        // One moment for all three, so that nothing falls between them.
        let (records, newest, open) = self.ledger.at_one_moment(|view| {
            let records = calls::list(view, &self.filter, last)?;
            Ok((records, calls::list(view, &Filter::default(), 1)?, calls::open_intents(view)?))
        })?;
        // From here on, also where none of the filter's calls is there yet.
        self.filter.after = newest.first().map_or(0, |record| record.id);
        self.under_way = open.into_iter().map(|intent| intent.seq).collect();
        self.tell(&records)
    }

    /// Prints new calls, and calls that have ended; `false` once the output is closed.
    fn look(&mut self) -> Result<bool, CliError> {
        let mut news = Vec::new();
        for id in self.under_way.clone() {
            // The broker's own reads are under way too, and are no calls.
            let record = calls::one(self.ledger, id)?;
            if record.as_ref().is_none_or(|record| record.status != "authorized") {
                self.under_way.remove(&id);
                news.extend(record.and_then(|record| self.wanted(record)));
            }
        }
        // Not by status: a call that does not fit yet may fit when it has ended.
        let everything = Filter { status: None, ..self.filter.clone() };
        for record in calls::list(self.ledger, &everything, u32::MAX)? {
            self.filter.after = record.id;
            if record.status == "authorized" {
                self.under_way.insert(record.id);
            }
            news.extend(self.wanted(record));
        }
        self.tell(&news)
    }

    fn wanted(&self, record: CallRecord) -> Option<CallRecord> {
        let filter = &self.filter;
        let fits = filter.group.as_ref().is_none_or(|group| group.as_str() == record.group_folder)
            && filter.provider.as_ref().is_none_or(|provider| provider.as_str() == record.provider)
            && filter.status.as_ref().is_none_or(|status| *status == record.status);
        fits.then_some(record)
    }

    fn tell(&self, records: &[CallRecord]) -> Result<bool, CliError> {
        let output = self.context.output;
        let people = people(self.ledger, records)?;
        output.lines(|out| {
            for (record, person) in records.iter().zip(&people) {
                if output.json {
                    serde_json::to_writer(&mut *out, record)?;
                    writeln!(out)?;
                } else {
                    writeln!(out, "{}", visible(&cells(record, person.as_deref()).join("  ").replace('\n', " ")))?;
                }
            }
            Ok(())
        })
    }
}
