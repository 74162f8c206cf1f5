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
    ("proposals.rs", "1 ORDER BY approval DESC LIMIT", "the last ones, for a person"),
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

/// Attack (Load and space): A caller repeats one id, idempotency key or approval request, so that
/// each lookup costs more.
/// Defence: Each statement finds its rows by an index. Tests check the plan of every statement:
/// what it scans, and what a search leaves out.
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

/// The permitted searches that read rows and leave some of them out: the file, a part of the step and its statement, and
/// the reason.
const FILTERED: [(&str, &str, &str); 24] = [
    ("ledger/calls.rs", "", "for a person, or between two ends"),
    ("", "ledger_request (caller=? AND request_id=?", "the rows of one request"),
    ("", "replies_of (caller=? AND request_id=?", "the replies of one request"),
    ("state/external_grants.rs", "flow_grants_listed", "a page of a list"),
    ("state/external_grants.rs", "flow_grants_given", "at most 10,000 of an issuer, when access is given"),
    ("state/external_grants.rs", "flow_grants_over", "the thousand that are deleted"),
    ("state/linking.rs", "auth_flows", "rows of ten minutes"),
    ("gates.rs", "gate_approvals_unspent", "the approvals of one gate that are not used"),
    ("state/notices.rs", "(approval=? AND event=?)", "the notices of one approval request"),
    ("state/notices.rs", "fault IS NOT NULL AND", "for a person"),
    ("state/notices.rs", "notices_lately (channel=? AND due_at>?)", "the notices of a short time"),
    ("state/plan_steps.rs", "(plan=?)", "the calls of one plan"),
    ("state/approvals.rs", "approvals_named (asked_seq=?)", "the approval requests of one row"),
    ("", "approvals_open (state=?)", "approval requests that are open"),
    ("", "USING PRIMARY KEY (caller=?): SELECT", "calls of one caller that are under way"),
    ("state/flows.rs", "sqlite_autoindex_flow_versions_1", "the versions of one flow, each with a person's approval"),
    ("state/flows.rs", "state = 'proposed' AND proposed_by", "at most 50 versions of a caller"),
    ("state/flows.rs", "(flow_id,version)>(?,?)", "a page of a list"),
    ("state/clock.rs", "SEARCH", "a person accepts a clock that was ahead"),
    ("linking/credentials.rs", "(person=?)", "the accounts of one person"),
    ("state/accounts.rs", "person=?", "the accounts of one person"),
    ("state/idempotency.rs", "idempotency_key", "one key of several persons"),
    ("state/standing_approvals.rs", "standing_approvals_in_force", "at most 100 of a group"),
    ("state/proposals.rs", "proposals_undoable", "the changes of a caller that can be undone"),
];

/// A search whose index lacks a column of the condition reads all rows that the index finds. That is as slow as a scan,
/// if a caller has many of them.
///
/// Attack: see `no_statement_scans_more_than_it_returns`.
#[test]
fn no_search_reads_many_rows_that_its_statement_leaves_out() {
    let world = World::new();
    let connection = raw(&world.ledger);
    let mut files = Vec::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/store/src")), &mut files);
    let step_of = Regex::new(r"^SEARCH (\S+) USING (?:COVERING )?(?:INDEX (\S+)|PRIMARY KEY) \((.*)\)").unwrap();
    let (mut seen, mut filtered, mut used) = (0, String::new(), BTreeSet::new());
    for (file, source) in files.into_iter().filter(|(file, _)| !file.contains("/src/fleet")) {
        for statement in statements(&source) {
            for step in plan_of(&connection, &statement) {
                let Some(found) = step_of.captures(&step) else { continue };
                seen += 1;
                let index = found.get(2).map(|index| index.as_str());
                if finds_one(&connection, &table_of(&statement, &found[1]), index, &found[3]) {
                    continue;
                }
                let known =
                    format!("{} {}", &found[3], index.map_or(String::new(), |index| index_text(&connection, index)));
                let left = conditions_on(&connection, &statement, &found[1]);
                let left: Vec<&String> = left.iter().filter(|column| !has_word(&known, column)).collect();
                if left.is_empty() {
                    continue;
                }
                let text = format!("{step}: {statement}");
                let is_this = |(place, what, _): &&(&str, &str, &str)| file.ends_with(place) && text.contains(what);
                match FILTERED.iter().find(is_this) {
                    Some((place, what, _)) => drop(used.insert((*place, *what))),
                    None => writeln!(filtered, "{file}: without {left:?}: {text}").unwrap(),
                }
            }
        }
    }
    assert!(seen > 100, "the searches are no longer found: {seen}");
    assert!(filtered.is_empty(), "{filtered}");
    let unused: Vec<_> = FILTERED.iter().filter(|(place, what, _)| !used.contains(&(*place, *what))).collect();
    assert!(unused.is_empty(), "nothing is left out there any more: {unused:?}");
}

fn plan_of(connection: &rusqlite::Connection, statement: &str) -> Vec<String> {
    let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let nothing = vec![rusqlite::types::Null; prepared.parameter_count()];
    let rows = prepared.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Returns the table with this name or alias in a statement.
fn table_of(statement: &str, alias: &str) -> String {
    let named = Regex::new(&format!(r"(?:FROM|JOIN|UPDATE|,)\s+(\w+)\s+(?:AS\s+)?{alias}\b")).unwrap();
    named.captures(statement).map_or_else(|| alias.to_owned(), |found| found[1].to_owned())
}

/// Returns whether a search binds all columns of a key.
fn finds_one(connection: &rusqlite::Connection, table: &str, index: Option<&str>, bound: &str) -> bool {
    let count = |query: &str, name: &str| connection.query_row(query, [name], |row| row.get::<_, i64>(0)).unwrap();
    let columns = match index {
        Some(index) => {
            if count(
                "SELECT count(*) FROM pragma_index_list((SELECT tbl_name FROM sqlite_master WHERE name = ?1)) WHERE \"unique\" = 1 AND name = ?1",
                index,
            ) == 0
            {
                return false;
            }
            count("SELECT count(*) FROM pragma_index_info(?1)", index)
        }
        None => count("SELECT count(*) FROM pragma_table_info(?1) WHERE pk > 0", table),
    };
    usize::try_from(columns).unwrap() == bound.split(" AND ").filter(|condition| condition.ends_with("=?")).count()
}

/// Returns the condition of a partial index, or nothing.
fn index_text(connection: &rusqlite::Connection, index: &str) -> String {
    let text: Option<String> =
        connection.query_row("SELECT sql FROM sqlite_master WHERE name = ?1", [index], |row| row.get(0)).unwrap();
    text.and_then(|text| text.split_once("WHERE ").map(|(_, condition)| condition.to_owned())).unwrap_or_default()
}

/// Returns the columns of the table with this name or alias that the conditions of a statement name.
fn conditions_on(connection: &rusqlite::Connection, statement: &str, alias: &str) -> BTreeSet<String> {
    let table = table_of(statement, alias);
    let mut columns =
        connection.prepare("SELECT name FROM pragma_table_info(?1) WHERE pk = 0 OR type <> 'INTEGER'").unwrap();
    let columns: BTreeSet<String> =
        columns.query_map([&table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    // A changed column is no condition.
    let changed = Regex::new(r"(?s)\bSET\s.*?\bWHERE\b").unwrap();
    let statement = changed.replace(statement, "WHERE");
    let condition = Regex::new(r"(?:(\w+)\.)?(\w+)\s*(?:=|<>|<=|>=|<|>|IS\b|IN\b)").unwrap();
    let found =
        condition.captures_iter(&statement).filter(|found| found.get(1).is_none_or(|name| name.as_str() == alias));
    found.map(|found| found[2].to_owned()).filter(|column| columns.contains(column)).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// The main group's agent lists calls on the loop.
///
/// Attack (Providers and modules): A list of calls makes the loop read the whole ledger.
/// Defence: one list looks at 500 rows, found by their numbers
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
