//! How SQLite looks things up: no statement of the product scans more rows than it returns.
//!
//! The test reads the statements from the source, so that none is forgotten. It prepares each one on a ledger of this
//! version. A plan that scans a table is a fault, unless the list below says why that table is small.

use super::scribe::raw;
use super::world::World;
use regex::Regex;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// The permitted scans: the file, the step of the plan, and the reason.
const SCANNED: [(&str, &str, &str); 49] = [
    ("state/counters.rs", "FROM breakers LIMIT 1", "one row"),
    ("ledger/segments.rs", "FROM burnt_ids LIMIT 1", "one row"),
    ("", "SCAN delivered", "one row"),
    ("", "SCAN flow_grants_count", "one row"),
    ("", "SCAN json_each", "what the statement was given"),
    ("", "SCAN CONSTANT ROW", "no table"),
    ("", "SCAN open_intents", "so many as are under way"),
    ("", "SCAN reply_bytes", "one row a caller, once a second"),
    ("", "SCAN kill_switches", "people set few"),
    ("", "SCAN operator_tokens", "people make few"),
    ("", "SCAN chat_misses", "rows of a few minutes"),
    ("", "SCAN one_time_values", "rows of ten minutes, each with a person's approval"),
    ("", "USING INDEX standing_approvals_in_force", "at most 100 of a group"),
    ("state/standing_approvals.rs", "SCAN standing_approvals", "on a connection of its own, for a person"),
    ("", "SCAN breakers", "at the start, on a person's command, and for a scrape"),
    ("", "USING INDEX approvals_not_closed", "questions that are open"),
    ("state/approvals.rs", "state = 'closed' ORDER BY id DESC LIMIT", "the last ones, for a person"),
    ("state/clock.rs", "SCAN", "a person accepts a clock that was ahead"),
    ("state/restore.rs", "SCAN", "a person restores a backup"),
    ("gates.rs", "SCAN tasks", "a person lists them all"),
    ("gates.rs", "SCAN gate_approvals", "a person lists them all"),
    ("grants.rs", "SCAN grants", "a person or the main group lists them all"),
    ("grants.rs", "SCAN temporary_grants", "a person gives each one, and none is stored long after its end"),
    ("state/counters.rs", "SCAN quotas", "a person lists them all"),
    ("accounts.rs", "SCAN accounts", "a person lists them all"),
    ("accounts.rs", "SCAN account_shares", "a person lists them all"),
    ("accounts.rs", "SCAN account_refusals", "a person lists them all"),
    ("sessions.rs", "SCAN flow_grants", "a person lists or resets sessions"),
    ("sessions.rs", "SCAN exposures", "a person lists them all"),
    ("sessions.rs", "SCAN (subquery", "a person names a session"),
    ("state/external_grants.rs", "SCAN flow_grants", "a person asks for the status"),
    ("quarantine.rs", "SCAN quarantine", "a person lists them all"),
    ("state/linking.rs", "SCAN auth_flows", "a person ends what was begun; rows of ten minutes"),
    ("linking/records.rs", "SCAN credentials", "a person changes the master key"),
    ("linking/records.rs", "SCAN account_links", "a person changes the master key"),
    ("linking/records.rs", "SCAN auth_flows", "a person changes the master key"),
    ("linking/asked.rs", "account_links", "a person unlinks; questions that are open"),
    ("ledger/calls.rs", "SCAN", "on a connection of its own, for a person"),
    ("ledger/export.rs", "SCAN ledger", "on a connection of its own, for a person; at the start the last rows"),
    ("ledger/segments.rs", "ORDER BY first DESC LIMIT 1", "one row"),
    ("ledger/segments.rs", "FROM segments ORDER BY first", "for a person"),
    ("state/intents.rs", "SCAN unknown_outcomes", "at the start"),
    ("ledger/figures.rs", "SCAN unknown_outcomes", "on a connection of its own, for a scrape, within a time"),
    ("state/replies.rs", "SCAN replies", "the oldest thousand"),
    ("state/notices.rs", "SCAN notice_events", "events of questions that nobody was told of yet"),
    ("state/notices.rs", "SCAN notices USING COVERING INDEX notices_due", "those that are due"),
    ("state/notices.rs", "1 ORDER BY id DESC LIMIT", "the last ones, for a person"),
    ("state/notices.rs", "fault IS NOT NULL AND", "for a person"),
    ("proposals.rs", "SCAN p", "questions that are open"),
];

/// Returns the SQL of one file: whole statements, and conditions that are put into a statement of the same file.
fn statements(source: &str) -> Vec<String> {
    let literal = Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).unwrap();
    let verb = Regex::new(r"^\s*(?:SELECT\s|INSERT\s|UPDATE\s|DELETE\s+FROM\s|WITH\s)").unwrap();
    let constant = Regex::new(r#"(?s)const ([A-Z]+): &str =\s*"((?:[^"\\]|\\.)*)""#).unwrap();
    // Code under test only is not part of the product.
    let product = source.split("#[cfg(test)]").next().unwrap_or_default();
    let product: String =
        product.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let continued = Regex::new(r"\\\n\s*").unwrap();
    let unescape = |text: &str| continued.replace_all(text, "").replace("\\\"", "\"");
    let literals: Vec<String> = literal.captures_iter(&product).map(|found| unescape(&found[1])).collect();
    let (whole, rest): (Vec<String>, Vec<String>) = literals.into_iter().partition(|text| verb.is_match(text));
    let is_condition = |text: &&String| text.contains(" = ?") || text.contains("<> '") || text.contains("ORDER BY");
    let conditions: Vec<&String> = rest.iter().filter(is_condition).collect();
    let mut found = Vec::new();
    for mut statement in whole {
        for constant in constant.captures_iter(&product) {
            statement = statement.replace(&format!("{{{}}}", &constant[1]), &unescape(&constant[2]));
        }
        let statement = statement.replace("{card}", "card");
        if statement.contains("{calls}") {
            let parts = constant.captures_iter(&product).filter(|found| ["MADE", "WAITING"].contains(&&found[1]));
            found.extend(parts.map(|part| statement.replace("{calls}", &unescape(&part[2]))));
        } else if statement.contains("{condition}") {
            found.extend(conditions.iter().map(|condition| statement.replace("{condition}", condition)));
        } else {
            found.push(statement);
        }
    }
    found
}

fn sources(directory: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push((entry.display().to_string(), std::fs::read_to_string(&entry).unwrap()));
        }
    }
}

#[test]
fn no_statement_scans_more_than_it_returns() {
    let world = World::new();
    let connection = raw(&world.ledger);
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/store/src")), &mut files);
    let (mut seen, mut unprepared, mut scans) = (0, String::new(), String::new());
    let mut used = BTreeSet::new();
    // The statements of a fleet are PostgreSQL's, or are made for each table: they find a row by its key, or copy all.
    let is_of_fleet = |file: &str| file.contains("/src/fleet");
    for (file, source) in files.into_iter().filter(|(file, _)| !is_of_fleet(file)) {
        for statement in statements(&source) {
            let mut prepared = match connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")) {
                Ok(prepared) => prepared,
                Err(error) => {
                    writeln!(unprepared, "{file}: {error}: {statement}").unwrap();
                    continue;
                }
            };
            seen += 1;
            let number = prepared.parameter_count();
            let nothing = vec![rusqlite::types::Null; number];
            let plan: Vec<String> = prepared
                .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            for step in plan.iter().filter(|step| step.starts_with("SCAN")) {
                let is_this = |(place, what, _): &&(&str, &str, &str)| {
                    (place.is_empty() || file.ends_with(place)) && format!("{step}: {statement}").contains(what)
                };
                match SCANNED.iter().find(is_this) {
                    Some((place, what, _)) => drop(used.insert((*place, *what))),
                    None => writeln!(scans, "{file}: {step}: {statement}").unwrap(),
                }
            }
        }
    }
    assert!(unprepared.is_empty(), "{unprepared}");
    assert!(seen > 100, "the statements are no longer found: {seen}");
    assert!(scans.is_empty(), "{scans}");
    let unused: Vec<_> = SCANNED.iter().filter(|(place, what, _)| !used.contains(&(*place, *what))).collect();
    assert!(unused.is_empty(), "nothing is scanned there any more: {unused:?}");
}

/// The main group's agent lists calls on the loop.
#[test]
fn a_list_of_calls_reads_the_rows_between_its_two_ends() {
    let world = World::new();
    let connection = raw(&world.ledger);
    let source = include_str!("../../store/src/ledger/calls.rs");
    let lists = statements(source).into_iter().filter(|statement| statement.contains("id < ?6"));
    let mut seen = 0;
    for statement in lists.filter(|statement| statement.contains("FROM ext_calls")) {
        let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let nothing = vec![rusqlite::types::Null; prepared.parameter_count()];
        let plan: Vec<String> = prepared
            .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let wanted = "SEARCH first USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
        assert!(plan.iter().any(|step| step == wanted), "{plan:#?}");
        seen += 1;
    }
    assert_eq!(seen, 1);
}

/// The files of every crate inside host-broker but these.
fn others(but: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let directories = [root.to_owned(), root.join("providers")];
    let directories = directories.iter().flat_map(|parent| std::fs::read_dir(parent).unwrap());
    for directory in directories.map(|entry| entry.unwrap().path()) {
        let is_other = directory.file_name().is_some_and(|name| but.iter().all(|but| name != *but));
        if is_other && directory.join("Cargo.toml").exists() {
            sources(&directory.join("src"), &mut files);
        }
    }
    assert!(files.iter().any(|(file, _)| file.contains("providers/github/src/")), "the providers are not read");
    assert!(files.len() > 300, "{} files", files.len());
    files
}

#[test]
fn no_statement_stands_outside_the_store() {
    for (file, source) in others(&["store"]) {
        let found = statements(&source);
        assert!(found.is_empty(), "{file}: {found:?}");
        assert!(!source.contains("rusqlite"), "{file} names rusqlite");
    }
}

/// The types let every crate open a store of its own. The product does not.
#[test]
fn only_the_kernel_opens_a_store_and_begins_a_transaction() {
    for (file, source) in others(&["store", "kernel"]) {
        for word in ["Store::open", ".transaction(", "replies::keep(", "intents::open(", "idempotency::claim("] {
            assert!(!source.contains(word), "{file} has {word}");
        }
    }
}
