//! Lines in a form that appears behind the lines from which the reading of a file is learned.

use super::*;

/// Returns lines a second apart from this hour on, each with its number.
fn lines(prefix: &str, hour: u32, count: u32) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        writeln!(text, "{prefix}2026-02-14 {hour:02}:{:02}:{:02} ERROR {prefix}#{n}", n / 60, n % 60).unwrap();
        text
    })
}

fn hours(from: u32, to: u32) -> Search {
    let search = search(&format!("2026-02-14T{from:02}:00:00Z"), &format!("2026-02-14T{to:02}:00:00Z"));
    Search { limit: 10_000, ..search }
}

/// Returns how many entries a search finds, and its notes. The entries are found on pages and by their ids, too.
fn found(world: &World, search: &Search) -> (usize, Vec<String>) {
    let found = world.found(search);
    let mut paged: Vec<Record> = Vec::new();
    loop {
        let before = paged.last().map(|record| record.position);
        let mut page = world.found(&Search { before, limit: 70, ..search.clone() }).records;
        let more = page.len() > 70;
        page.truncate(70);
        paged.extend(page);
        if !more {
            break;
        }
    }
    assert!(paged == found.records, "{} of {}", paged.len(), found.records.len());
    for record in found.records.iter().step_by(found.records.len() / 50 + 1) {
        let by_id = world.files.find(record.id(), &meter()).unwrap().records;
        assert_eq!(by_id, std::slice::from_ref(record));
    }
    (found.records.len(), found.skipped.into_iter().map(|note| note.reason).collect())
}

fn misplaced(count: usize) -> Vec<String> {
    vec![match count {
        1 => "1 line with a time stamp stands in an entry that is not in the answer".to_owned(),
        _ => format!("{count} lines with a time stamp stand in entries that are not in the answer"),
    }]
}

/// Attack: see `every_line_is_in_one_entry_or_counted`.
#[test]
fn entries_of_a_form_that_appears_late_are_found() {
    for prefix in
        ["web-1  | ", "[web] [", "{\"x\":1} ", "worker: ", "level=error time=", "{\"level\":\"error\",\"time\":\""]
    {
        for (before, after) in [(50, 20), (2000, 200), (50, 2)] {
            let world = World::new();
            world.write_at("app.log", lines("", 6, before) + &lines(prefix, 10, after), NOW);
            let after = usize::try_from(after).unwrap();
            assert_eq!(found(&world, &hours(9, 12)), (after, vec![]), "{prefix}");
            assert_eq!(found(&world, &hours(5, 9)), (usize::try_from(before).unwrap(), vec![]), "{prefix}");
            let errors = Search { level: Some(crate::severity::Severity::Error), ..hours(9, 12) };
            assert_eq!(found(&world, &errors), (after, vec![]), "{prefix}");
            let services = world.files.list_services(&meter()).unwrap().services;
            assert!(services[0].latest.as_deref().unwrap() > "2026-02-14T10:00:00", "{services:?}");
            world.compress("app.log");
            assert_eq!(found(&world, &hours(9, 12)), (after, vec![]), "{prefix}");
        }
    }
}

#[test]
fn structured_lines_that_appear_late_are_parsed() {
    let world = World::new();
    let mut text = lines("", 6, 50);
    for n in 0..9 {
        writeln!(text, r#"{{"level":"error","ts":{}.5,"msg":"no route","n":{n}}}"#, 1_771_063_200 + n).unwrap();
    }
    world.write("app.log", text);
    let records = world.records(&hours(10, 11));
    assert_eq!(records.len(), 9);
    assert_eq!(records[0].parsed.message, "no route");
    assert_eq!(records[0].parsed.fields["n"], "8");
}

#[test]
fn plain_lines_behind_structured_ones_are_found() {
    for first in [r#"{"time":"2026-02-14T06:00:00Z","msg":"x"}"#, "1771048800 INFO x", "web-1 | 2026-02-14 06:00:00 x"]
    {
        for prefix in ["web-1  | ", "", "[web] ["] {
            let world = World::new();
            world.write("app.log", format!("{first}\n").repeat(50) + &lines(prefix, 10, 20));
            assert_eq!(found(&world, &hours(9, 12)), (20, vec![]), "{first} {prefix}");
        }
    }
}

#[test]
fn two_late_forms_that_alternate_are_found() {
    let world = World::new();
    let mut text = lines("", 6, 50);
    for n in 0..30 {
        for prefix in ["web-1  | ", "[db] (", ""] {
            writeln!(text, "{prefix}2026-02-14 10:{n:02}:00 INFO x\n  at y").unwrap();
        }
        if n % 3 == 0 {
            writeln!(text, "web-1  | 2026-02-14 10:{n:02}:30 INFO x").unwrap();
        }
    }
    world.write("app.log", text);
    assert_eq!(found(&world, &hours(9, 12)), (30 * 3 + 10, vec![]));
    let world = World::new();
    let both: String = lines("web-1  | ", 10, 40).lines().zip(lines("[db] (", 10, 40).lines()).fold(
        lines("", 6, 50),
        |mut text, (web, db)| {
            writeln!(text, "{web}\n{db}").unwrap();
            text
        },
    );
    world.write("app.log", both);
    assert_eq!(found(&world, &hours(9, 12)), (80, vec![]));
}

#[test]
fn lines_that_an_entry_quotes_stay_in_it() {
    let quoted = [
        // Written before the entry that quotes it.
        "worker: 2026-02-14 09:59:58 one\nworker: 2026-02-14 09:59:59 two\n",
        "worker: 2026-02-14 10:00:00 one\nworker: 2026-02-14 10:00:00 two\n",
        "Caused by: x at 2026-02-14 09:59:59\n\tat y\nCaused by: z at 2026-02-14 09:59:59\n",
        // Later than the entry behind it.
        "job a: 2026-02-14 11:30:00\njob b: 2026-02-14 11:40:00\n",
        "  worker: 2026-02-14 10:00:03 one\n  worker: 2026-02-14 10:00:04 two\n",
        // Once.
        "worker: 2026-02-14 10:00:03 one\n",
        "{\"time\":\"2026-02-14T09:00:00Z\"}\n{\"time\":\"2026-02-14T09:00:01Z\"}\n",
    ];
    for quoted in quoted {
        let world = World::new();
        let text = format!("{}2026-02-14 10:00:00 ERROR x\n{quoted}2026-02-14 10:00:05 next\n", lines("", 6, 50));
        world.write("app.log", text);
        let messages = world.messages(&hours(10, 11));
        assert_eq!(messages, ["next", &format!("ERROR x\n{}", quoted.trim_end())]);
        assert_eq!(found(&world, &hours(10, 11)), (2, vec![]), "{quoted}");
    }
}

/// Attack: see `every_line_is_in_one_entry_or_counted`.
#[test]
fn a_line_that_stays_in_an_entry_of_another_time_is_counted() {
    let world = World::new();
    let other = "2026-02-14 08:00:00 one\n";
    // A single line, and lines that go back in time.
    let text = lines("", 6, 50) + "web-1 | 2026-02-14 10:00:00 ERROR late\n";
    world.write("app.log", &text);
    world.write("other.log", other);
    assert_eq!(found(&world, &hours(9, 12)), (0, misplaced(1)));
    assert_eq!(found(&world, &hours(8, 9)), (1, vec![]));
    let of = |service: &str| Search { service: Some(service.into()), ..hours(9, 12) };
    assert_eq!(found(&world, &of("app")), (0, misplaced(1)));
    assert_eq!(found(&world, &of("other")), (0, vec![]));
    assert_eq!(found(&world, &Search { needle: Some("late".into()), ..hours(9, 12) }), (0, misplaced(1)));
    assert_eq!(found(&world, &Search { needle: Some("none".into()), ..hours(9, 12) }), (0, vec![]));
    assert_eq!(found(&world, &hours(6, 7)), (50, vec![]));
    let (count, notes) = found(&world, &Search { needle: Some("late".into()), ..hours(6, 7) });
    assert_eq!((count, notes), (1, vec![]));
    world.write("app.log", lines("", 10, 50) + &lines("web-1 | ", 6, 20));
    assert_eq!(found(&world, &hours(5, 7)), (0, misplaced(20)));
    // The lines of a paragraph belong to it.
    let paragraph = "\nStart-Date: 2026-02-14  06:00:00\nInstall: x\nEnd-Date: 2026-02-14  06:00:09\n";
    world.write("app.log", paragraph.repeat(20) + &lines("", 10, 20));
    assert_eq!(found(&world, &hours(9, 12)), (0, misplaced(20)));
}

#[test]
fn late_lines_are_found_or_counted_in_a_file_whose_last_change_was_put_back() {
    let world = World::new();
    world.write_at("app.log", lines("", 6, 50) + &lines("web-1 | ", 10, 20), "2026-02-01T00:00:00Z");
    let (count, notes) = found(&world, &hours(9, 12));
    // Without an entry behind them, and later than the last change, they may be dates of any kind.
    assert_eq!((count, notes), (0, misplaced(20)));
    world.write_at(
        "app.log",
        lines("", 6, 50) + &lines("web-1 | ", 10, 20) + &lines("", 11, 1),
        "2026-02-01T00:00:00Z",
    );
    assert_eq!(found(&world, &hours(9, 12)), (21, vec![]));
}

#[test]
fn a_line_that_a_level_leaves_out_with_its_entry_is_counted() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 INFO x\n".repeat(50) + "web-1 | 2026-02-14 10:00:01 ERROR y\n");
    let errors = Search { level: Some(crate::severity::Severity::Error), ..hours(9, 12) };
    assert_eq!(found(&world, &errors), (0, misplaced(1)));
    let worse = Search { level: Some(crate::severity::Severity::Critical), ..hours(9, 12) };
    assert_eq!(found(&world, &worse), (0, vec![]));
}

#[test]
fn a_late_form_is_found_across_rotation_and_behind_a_byte_order_mark() {
    let world = World::new();
    let mark = "\u{feff}";
    world.write_at("app.log.2", mark.to_owned() + &lines("", 6, 50) + mark + &lines("web-1 | ", 7, 20), NOW);
    world.write_at("app.log.1", mark.to_owned() + &lines("web-1 | ", 8, 20) + &lines("", 9, 20), NOW);
    world.write_at("app.log", mark.to_owned() + &lines("", 10, 50) + &lines("web-1 | ", 11, 20), NOW);
    let ids = |world: &World| world.records(&hours(5, 12)).iter().map(Record::id).collect::<Vec<_>>();
    let before = ids(&world);
    assert_eq!(found(&world, &hours(5, 12)), (180, vec![]));
    assert_eq!(found(&world, &hours(7, 8)), (20, vec![]));
    world.compress("app.log.2");
    world.compress("app.log.1");
    assert_eq!(ids(&world), before);
}

#[test]
fn a_line_before_the_first_entry_is_counted_until_its_form_is_learned() {
    let world = World::new();
    let text = "web-1 | 2026-02-14 05:00:00 first\n  at x\n".to_owned() + &lines("", 6, 50);
    world.write("app.log", &text);
    let leading = |count| vec![format!("{count} lines before the first time stamp belong to no entry")];
    assert_eq!(found(&world, &hours(5, 12)), (50, leading(2)));
    world.write("app.log", text + &lines("web-1 | ", 10, 20));
    assert_eq!(found(&world, &hours(5, 12)), (71, vec![]));
}

/// Writes a file of two hours with a late form in between, and returns the window of ten minutes of that.
fn write_long(world: &World, length: usize, late: std::ops::Range<i64>) -> Search {
    let start = millis("2026-02-14T06:00:00Z");
    let mut text = String::new();
    for n in 0..7200 {
        let prefix = if late.contains(&n) { "web-1 | " } else { "" };
        writeln!(text, "{prefix}{} INFO #{n}; {}", Timestamp::from_millis(start + n * 1000), "x".repeat(length))
            .unwrap();
    }
    world.write_at("app.log", text, "2026-02-14T08:00:00Z");
    let since = start + late.start * 1000;
    Search { limit: 100_000, window: Window { since, until: since + 600_000 }, ..day() }
}

#[test]
fn a_late_form_of_a_large_file_is_found_or_counted() {
    // Read whole, and searched by time: with many late lines, also at the end, and with fewer than samples find.
    for (length, late, is_found) in [
        (700, 3000..3600, true),
        (700, 3001..3004, true),
        (6_000, 1800..6000, true),
        (6_000, 6000..7200, true),
        (6_000, 3430..3530, false),
    ] {
        let world = World::new();
        let count = late.clone().count().min(600);
        let search = write_long(&world, length, late.clone());
        let meter = meter();
        let found = world.files.search(&search, &meter).unwrap();
        let bytes = meter.bytes();
        if is_found {
            assert_eq!(found.records.len(), 600, "{late:?}");
        } else {
            // They stand in the last entry before the window.
            assert_eq!(found.records.len(), 600 - count, "{late:?}");
            assert!(found.skipped.iter().any(|note| note.reason == misplaced(count)[0]), "{:?}", found.skipped);
        }
        if length > 700 {
            assert!(bytes < 16 * 1024 * 1024, "{bytes} bytes read");
        }
        for record in found.records.iter().step_by(100) {
            let by_id = world.files.find(record.id(), &self::meter()).unwrap().records;
            assert_eq!(by_id, std::slice::from_ref(record));
        }
    }
}
