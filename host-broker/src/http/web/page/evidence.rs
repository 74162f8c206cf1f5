//! The ledger as evidence.

use super::plot::{Bar, Plot};
use super::{frame, moment, seen, size, time};
use crate::http::web::evidence::{EvidencePage, LedgerState};
use crate::http::web::last_day;
use crate::http::web::sessions::Visitor;
use config::BrokerTable;
use maud::{Markup, html};
use shared::Timestamp;
use shared::numbers::counted;
use store::ledger::health::{Health, Verification, VerificationRun};
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
        // Where no stream says that something has changed, the page asks.
        div #live data-fragment="/evidence/fragment" data-events="/evidence/events" data-every="5000" {
            (fragment(visitor, now, &evidence.present))
        }
        (growth(now, evidence))
        (segments(table, &evidence.segments, now))
        (disk(table, evidence))
    };
    frame("Evidence", Some(visitor), now, &content)
}

/// The part that renews itself.
pub(in crate::http::web) fn fragment(visitor: &Visitor, now: Timestamp, present: &LedgerState) -> Markup {
    html! { (head(now, present)) (checkpoint(present)) (verification(visitor, now, &present.health)) }
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

fn checkpoint(present: &LedgerState) -> Markup {
    html! {
        section.card {
            h2 { "Last checkpoint" }
            @match &present.checkpoint {
                Some(last) => {
                    p { "Row " (last.seq) " is a signed checkpoint of " (counted(last.checkpoint.size(), "row", "rows")) "." }
                    div.scroll tabindex="0" role="region" aria-label="Last checkpoint" { pre { (last.checkpoint) } }
                    p.by {
                        "Keep it in a file on another machine. Later, "
                        code { "host-broker evidence verify --checkpoint FILE" }
                        " finds whether one of these rows was changed or removed."
                    }
                },
                None => p.none { "There is no checkpoint yet. The daemon signs one each minute while rows are written." },
            }
        }
    }
}

fn verification(visitor: &Visitor, now: Timestamp, health: &Health) -> Markup {
    let found = &health.verification;
    let runs = health.run == VerificationRun::Running || matches!(found, Verification::Running { .. });
    html! {
        section.card {
            h2 { "Verification" }
            // A break stays until a later verification has found none.
            @if !runs || matches!(found, Verification::Broken { .. }) { (finding(found)) }
            @if runs { (progress(found)) } @else { (start(visitor, now, health.run)) }
            p.by {
                "The daemon verifies all rows after each start, slowly and beside the calls. The button starts another "
                "verification, which reads every row and its link to the row before. For one in a process of its own: "
                code { "host-broker evidence verify" }
            }
        }
    }
}

/// The result of the last verification. The script reads the sentence with `data-says` aloud when it changes.
fn finding(found: &Verification) -> Markup {
    html! {
        @match found {
            Verification::Waiting | Verification::Running { .. } => {
                p { "Only the last rows are verified, as with each start." }
            },
            Verification::Whole { row } => p.ended.yes data-says { "All rows up to row " (row) " are valid." },
            Verification::Broken { row, error } => {
                p.fault data-says { "The evidence is broken at row " (row) ", so no call is admitted." }
                p { (seen(error)) }
            },
            Verification::Unfinished { row, error } => {
                p.fault data-says { "The verification stopped at row " (row) "." }
                p { (seen(error)) }
            },
        }
    }
}

/// The progress of the verification that runs.
fn progress(found: &Verification) -> Markup {
    html! {
        @if let Verification::Running { row, of } = found {
            p { label for="verified" { "Verified to row " (row) " of " (of) " so far" } }
            progress #verified max=(of) value=(row) {}
        } @else {
            p { label for="verified" { "A verification of all rows has started" } }
            progress #verified {}
        }
        noscript { p { "Load this page again to see the progress." } }
    }
}

/// The button that starts a verification, and the end of the last one.
fn start(visitor: &Visitor, now: Timestamp, run: VerificationRun) -> Markup {
    html! {
        @if let VerificationRun::Ended(at) = run { p { "The last verification ended " (moment(at, now)) "." } }
        form method="post" action="/evidence/verify" {
            input type="hidden" name="form" value=(visitor.form);
            button #verify .go type="submit" { "Verify all rows" }
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
                    p { (counted(all.len(), "segment holds", "segments hold")) " the rows 1 to " (newest.last.seq) ". The database has the rest." }
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
    use store::ledger::health::{CannotWrite, Reason};

    fn of_run(run: VerificationRun, verification: Verification, cannot_write: Option<CannotWrite>) -> String {
        let visitor = Visitor { person: "alice".into(), form: "\"of-the-session".into(), audits: true };
        let present = LedgerState { head: None, checkpoint: None, health: Health { cannot_write, verification, run } };
        fragment(&visitor, Timestamp::from_millis(60_000), &present).into_string()
    }

    fn shown(verification: Verification, cannot_write: Option<CannotWrite>) -> String {
        of_run(VerificationRun::Never, verification, cannot_write)
    }

    /// Whether a page has the button with its form.
    fn has_button(page: &str) -> bool {
        let parts = [
            "<form method=\"post\" action=\"/evidence/verify\">",
            "name=\"form\" value=\"&quot;of-the-session\"",
            "type=\"submit\">Verify all rows</button>",
        ];
        let found = parts.map(|part| page.contains(part));
        assert!(found == [true; 3] || found == [false; 3], "{page}");
        found[0]
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
    fn the_button_is_absent_while_a_verification_runs() {
        let broken = || Verification::Broken { row: 5, error: "row 5".to_owned() };
        let running = || Verification::Running { row: 64, of: 128 };
        for found in [Verification::Waiting, Verification::Whole { row: 128 }, broken()] {
            assert!(has_button(&shown(found.clone(), None)), "{found:?}");
            let page = of_run(VerificationRun::Running, found.clone(), None);
            assert!(!has_button(&page), "{page}");
            assert!(page.contains("<label for=\"verified\">A verification of all rows has started"), "{page}");
            assert!(page.contains("<progress id=\"verified\"></progress>"), "its progress is not known yet: {page}");
            assert!(!page.contains("are valid") && !page.contains("Only the last rows"), "{page}");
            // The break counts until the end of the verification that finds none.
            assert_eq!(page.contains("broken at row 5"), matches!(found, Verification::Broken { .. }), "{page}");
        }
        let ended = VerificationRun::Ended(Timestamp::from_millis(0));
        for run in [VerificationRun::Never, VerificationRun::Running, ended] {
            let page = of_run(run, running(), None);
            assert!(!has_button(&page) && page.contains("Verified to row 64 of 128 so far"), "{page}");
        }
    }

    #[test]
    fn after_a_verification_the_page_says_when_it_ended_and_offers_another_one() {
        let ended = VerificationRun::Ended(Timestamp::from_millis(0));
        let page = of_run(ended, Verification::Whole { row: 128 }, None);
        assert!(has_button(&page) && page.contains("The last verification ended "), "{page}");
        assert!(page.contains("1970-01-01 00:00:00") && page.contains("1 min 0 s ago"), "{page}");
        assert!(!shown(Verification::Whole { row: 128 }, None).contains("The last verification ended"));
    }

    #[test]
    fn a_ledger_that_cannot_be_written_says_why() {
        let cannot = CannotWrite { since: Timestamp::from_millis(0), reason: Reason::DiskFull, error: "<b>".into() };
        let page = shown(Verification::Waiting, Some(cannot));
        assert!(page.contains("no call is admitted: the disk is full") && page.contains("&lt;b&gt;"), "{page}");
    }
}
