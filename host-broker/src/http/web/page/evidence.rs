//! The ledger as evidence.

use super::plot::{Bar, Plot};
use super::{frame, moment, seen, size, time};
use crate::http::web::evidence::{EvidencePage, LedgerState};
use crate::http::web::last_day;
use crate::http::web::sessions::Visitor;
use config::BrokerTable;
use maud::{Markup, html};
use shared::Timestamp;
use store::ledger::health::Verification;
use store::ledger::segments::Segment;

/// The newest segments, which are listed.
const SEGMENTS_SHOWN: usize = 20;

/// The page.
pub(in crate::http::web) fn page(
    visitor: &Visitor,
    now: Timestamp,
    table: &BrokerTable,
    evidence: &EvidencePage,
) -> Markup {
    let content = html! {
        h1 { "Evidence" }
        // Nothing says when a verification has come further, so the page asks.
        div #live data-fragment="/evidence/fragment" data-every="5000" { (fragment(now, &evidence.present)) }
        (growth(now, evidence))
        (segments(table, &evidence.segments, now))
        (disk(table, evidence))
    };
    frame("Evidence", Some(visitor), now, &content)
}

/// The part that renews itself.
pub(in crate::http::web) fn fragment(now: Timestamp, present: &LedgerState) -> Markup {
    html! { (head(now, present)) (verification(&present.health.verification)) }
}

fn head(now: Timestamp, present: &LedgerState) -> Markup {
    html! {
        section.card {
            h2 { "Head" }
            @match &present.head {
                Some(row) => {
                    dl.facts {
                        div { dt { "row" } dd { (row.seq) } }
                        div { dt { "hash" } dd { code { (row.event_hash) } } }
                        div { dt { "written" } dd { (moment(row.time(), now)) } }
                    }
                    p.by {
                        "Keep this on another machine: " code { (row.seq) ":" (row.event_hash) } ". Later, "
                        code { "host-broker evidence verify --kept SEQ:HASH" } " finds a truncated or rewritten ledger."
                    }
                },
                None => p.none { "The ledger has no rows yet." },
            }
            @if let Some(cannot) = &present.health.cannot_write {
                p.fault { "The ledger cannot be written, so no call is admitted: " (cannot.reason.sentence()) "." }
                p { "Since " (moment(cannot.since, now)) ": " (seen(&cannot.error)) }
            }
        }
    }
}

fn verification(found: &Verification) -> Markup {
    html! {
        section.card {
            h2 { "Verification" }
            @match found {
                Verification::Waiting => p { "Only the last rows are verified, as with each start." },
                Verification::Running { row, of } => {
                    p { label for="verified" { "Verified to row " (row) " of " (of) " so far" } }
                    progress id="verified" max=(of) value=(row) {}
                },
                Verification::Whole { row } => p.ended.yes { "All rows up to row " (row) " are valid." },
                Verification::Broken { row, error } => {
                    p.fault { "The evidence is broken at row " (row) ", so no call is admitted." }
                    p { (seen(error)) }
                },
                Verification::Unfinished { row, error } => {
                    p.fault { "The verification stopped at row " (row) "." }
                    p { (seen(error)) }
                },
            }
            p.by {
                "The daemon verifies all rows once after each start, slowly and beside the calls. To verify them now: "
                code { "host-broker evidence verify" }
                ". This command follows every row and its link to the row before, in a process of its own."
            }
        }
    }
}

fn growth(now: Timestamp, evidence: &EvidencePage) -> Markup {
    let bar = |(begin, rows): (Timestamp, &u64)| Bar { label: last_day::label(begin), parts: vec![*rows] };
    let bars: Vec<Bar> = last_day::parts(now).zip(&evidence.rows).map(bar).collect();
    let plot = Plot { id: "rows", title: "Rows in each of the last 24 hours", series: &["rows"], bars: &bars };
    html! {
        section.card {
            h2 { "Rows over time" }
            (plot.draw())
            details {
                summary { "The same as a table" }
                div.scroll tabindex="0" role="region" aria-label="Rows over time" {
                    table {
                        caption { "Rows in each of the last 24 hours" }
                        thead { tr { th scope="col" { "From" } th scope="col" { "Rows" } } }
                        tbody {
                            @for (begin, rows) in last_day::parts(now).zip(&evidence.rows) {
                                tr { th scope="row" { (time(begin)) } td.number { (rows) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn segments(table: &BrokerTable, all: &[Segment], now: Timestamp) -> Markup {
    html! {
        section.card {
            h2 { "Segments" }
            @match all.last() {
                Some(newest) => {
                    p { (all.len()) " segments hold the rows 1 to " (newest.last.seq) ". The database has the rest." }
                    div.scroll tabindex="0" role="region" aria-label="Segments" {
                        table {
                            caption { "The newest segments" }
                            thead { tr { th scope="col" { "File" } th scope="col" { "Rows" } th scope="col" { "Last row written" } } }
                            tbody {
                                @for segment in all.iter().rev().take(SEGMENTS_SHOWN) {
                                    tr {
                                        th scope="row" { code { (segment.name()) } }
                                        td.number { (segment.first) " to " (segment.last.seq) }
                                        td { (moment(Timestamp::from_millis(segment.last.ts), now)) }
                                    }
                                }
                            }
                        }
                    }
                },
                None => p.none { "All rows are in the database." },
            }
            @if table.ledger_mib == 0 {
                p.by { "Rows never move into segments (" code { "ledger_mib = 0" } ")." }
            } @else {
                p.by { "Above " (table.ledger_mib) " MiB, the oldest rows of the database move into segments (" code { "ledger_mib" } ")." }
            }
        }
    }
}

fn disk(table: &BrokerTable, evidence: &EvidencePage) -> Markup {
    let sizes = evidence.sizes;
    html! {
        section.card {
            h2 { "Disk" }
            dl.facts {
                div { dt { "database" } dd { (size(sizes.database)) } }
                div { dt { "log" } dd { (size(sizes.log)) } }
                div { dt { "segments" } dd { (size(sizes.segments)) } }
                div { dt { "free" } dd { @match evidence.free { Some(free) => (size(free)), None => "unknown" } } }
                div { dt { "least free" } dd { (table.free_space_mib) " MiB (" code { "free_space_mib" } "), at most a fiftieth of the disk" } }
                div {
                    dt { "budget" }
                    dd {
                        @match table.evidence_mib_per_hour {
                            0 => "no limit",
                            mib => { (mib) " MiB an hour for each group and each access" },
                        }
                        " (" code { "evidence_mib_per_hour" } ")"
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::ledger::health::{CannotWrite, Health, Reason};

    fn shown(verification: Verification, cannot_write: Option<CannotWrite>) -> String {
        let present = LedgerState { head: None, health: Health { cannot_write, verification } };
        fragment(Timestamp::from_millis(0), &present).into_string()
    }

    #[test]
    fn each_state_of_the_verification_has_its_words() {
        let error = || "</p><script>\u{202e}".to_owned();
        for (found, words) in [
            (Verification::Waiting, "Only the last rows are verified"),
            (Verification::Running { row: 64, of: 128 }, "<progress id=\"verified\" max=\"128\" value=\"64\">"),
            (Verification::Whole { row: 128 }, "All rows up to row 128 are valid."),
            (Verification::Broken { row: 5, error: error() }, "broken at row 5, so no call is admitted"),
            (Verification::Unfinished { row: 7, error: error() }, "stopped at row 7."),
        ] {
            let page = shown(found, None);
            assert!(page.contains(words), "no `{words}` in {page}");
            assert!(page.contains("The ledger has no rows yet.") && !page.contains("<script"), "{page}");
        }
    }

    #[test]
    fn a_ledger_that_cannot_be_written_says_why() {
        let cannot = CannotWrite { since: Timestamp::from_millis(0), reason: Reason::DiskFull, error: "<b>".into() };
        let page = shown(Verification::Waiting, Some(cannot));
        assert!(page.contains("no call is admitted: the disk is full") && page.contains("&lt;b&gt;"), "{page}");
    }
}
