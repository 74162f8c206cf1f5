//! Every line of a file is part of an entry that some query returns, or it is counted.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a search from 1970 on, so that every entry is inside.
fn always() -> Search {
    Search { limit: 100_000, ..search("1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z") }
}

/// Returns how many lines the notes of a search count.
fn counted(skipped: &[Skipped]) -> usize {
    skipped.iter().filter_map(|note| note.reason.split(' ').next()?.parse::<usize>().ok()).sum()
}

/// Returns in how many entries each mark `#17;` is.
fn marks(records: &[Record]) -> BTreeMap<usize, usize> {
    let mut seen = BTreeMap::new();
    for record in records {
        let texts = record.parsed.fields.values().chain([&record.parsed.message]);
        let own: BTreeSet<usize> = texts
            .flat_map(|text| text.split('#').skip(1))
            .filter_map(|text| text.split_once(';')?.0.parse().ok())
            .collect();
        for mark in own {
            *seen.entry(mark).or_default() += 1;
        }
    }
    seen
}

#[test]
fn entries_of_every_prefix_are_found() {
    for prefixes in [
        &["web-1  | ", "db-1   | ", "long_name-12 | "][..],
        &["api.log.1.2026-02-14_09:00:00 ", "compute.log.2.2026-02-14_09:30:01 ", "scheduler.log "],
        &["main: ", "worker: ", "io: "],
        &["", "web-1  | "],
        &["[web] ", "(db) "],
    ] {
        let world = World::new();
        let mut text = String::new();
        for n in 0..120 {
            // The last prefix appears behind the lines that decide how the file is read.
            let prefix = if n < 60 { prefixes[n % 2] } else { prefixes[n % prefixes.len()] };
            writeln!(text, "{prefix}2026-02-14 10:{:02}:{:02} INFO entry #{n};", n / 60, n % 60).unwrap();
        }
        world.write("app.log", &text);
        let found = world.found(&day());
        assert_eq!((found.records.len(), found.skipped), (120, vec![]), "{prefixes:?}");
        for record in &found.records {
            assert_eq!(record.parsed.level, Some(crate::severity::Severity::Info), "{record:?}");
        }
    }
}

#[test]
fn a_paragraph_is_one_entry() {
    let world = World::new();
    let paragraph = |minute: u32| {
        format!("\nStart-Date: 2026-02-14  10:{minute:02}:00\nInstall: x\nEnd-Date: 2026-02-14  10:{minute:02}:09\n")
    };
    world.write("history.log", (0..20).map(paragraph).collect::<String>());
    let messages = world.messages(&day());
    assert_eq!(messages.len(), 20);
    assert!(messages.iter().all(|message| message.contains("\nEnd-Date: ")));
}

#[test]
fn a_byte_order_mark_hides_nothing() {
    for line in ["2026-02-14 10:00:00 INFO one", r#"{"time":"2026-02-14T10:00:00Z","level":"info","msg":"one"}"#] {
        let world = World::new();
        world.write("app.log", format!("\u{feff}{line}\n"));
        let found = world.found(&day());
        assert_eq!((found.records.len(), found.skipped), (1, vec![]), "{line}");
        assert!(found.records[0].parsed.message.ends_with("one") && found.records[0].parsed.level.is_some(), "{line}");
        let id = found.records[0].id();
        assert_eq!(world.files.find(id, &meter()).unwrap().records, found.records);
    }
}

#[test]
fn lines_that_no_entry_has_are_counted_for_the_service_that_was_asked_for() {
    let world = World::new();
    world.write("a.log", "  at x\n\n  at y\n  at z\n2026-02-14 10:00:00 one\n");
    world.write("b.log", "2026-02-14 10:00:00 one\n");
    let skipped = |service: &str| world.found(&Search { service: Some(service.into()), ..day() }).skipped;
    assert_eq!(skipped("a"), [Skipped::new("a", "3 lines before the first time stamp belong to no entry")]);
    assert_eq!(skipped("b"), []);
    assert_eq!(skipped("sshd"), []);
    world.write("a.log", "  at x\n2026-02-14 10:00:00 one\n");
    assert_eq!(skipped("a"), [Skipped::new("a", "1 line before the first time stamp belongs to no entry")]);
    world.compress("a.log");
    assert_eq!(counted(&skipped("a")), 1);
}

#[test]
fn a_file_that_jumps_back_in_time_loses_no_entry() {
    // Small files, and some that are larger than the limit for reading whole.
    for (parts, lines) in [(3_i64, 100_i64), (2, 30), (3, 18_000)] {
        let world = World::new();
        let mut text = String::new();
        for part in 0..parts {
            for n in 0..lines {
                // Each part covers the same twelve hours.
                let time = millis("2026-02-13T20:00:00Z") + n * (12 * 3_600_000 / lines) + part;
                writeln!(text, "{} #{}; {}", Timestamp::from_millis(time), part * lines + n, "x".repeat(60)).unwrap();
            }
        }
        world.write("app.log", &text);
        for packed in [false, true] {
            let mut found = 0;
            for hour in 0..13 {
                let since = millis("2026-02-13T20:00:00Z") + hour * 3_600_000;
                let window = Window { since, until: since + 3_600_000 };
                let part = world.found(&Search { window, ..always() });
                assert_eq!(part.skipped, []);
                found += part.records.len();
            }
            assert_eq!(found, usize::try_from(parts * lines).unwrap(), "{parts} {lines} {packed}");
            // The newest of all come first, wherever they stand.
            let newest = world.records(&Search { limit: 3, ..always() });
            let all = world.records(&always());
            assert_eq!(newest[..], all[..3]);
            for record in [&all[0], &all[all.len() / 2], &all[all.len() - 1]] {
                assert_eq!(world.files.find(record.id(), &meter()).unwrap().records, std::slice::from_ref(record));
            }
            if !packed {
                world.compress("app.log");
            }
        }
    }
}

/// Writes a file of 80,000 lines, a second apart, of which some are of six hours before. Returns the window of ten of
/// those.
fn jumping_back(world: &World, jumping: i64, length: usize) -> Search {
    let start = millis("2026-02-13T12:00:00Z");
    let mut text = String::new();
    // No sample looks there, if they are few: the samples divide the file evenly.
    let jump = 41_250;
    for n in 0..80_000 {
        let back = if (jump..jump + jumping).contains(&n) { 6 * 3_600_000 } else { 0 };
        writeln!(text, "{} #{n}; {}", Timestamp::from_millis(start + n * 1000 - back + 500), "x".repeat(length))
            .unwrap();
    }
    world.write_at("app.log", &text, NOW);
    let since = start + jump * 1000 - 6 * 3_600_000;
    Search { window: Window { since, until: since + 10_000 }, ..always() }
}

/// Attack: see `every_line_is_in_one_entry_or_counted`.
#[test]
fn a_short_jump_back_in_time_that_no_sample_touches_hides_nothing() {
    let world = World::new();
    let search = jumping_back(&world, 10, 80);
    let found = world.found(&search);
    // Ten of that time, and ten that are written as of it.
    assert_eq!((found.records.len(), found.skipped), (20, vec![]));
}

/// Attack: see `every_line_is_in_one_entry_or_counted`.
#[test]
fn a_file_that_is_too_big_to_be_read_whole_is_said_to_be() {
    let world = World::new();
    let search = jumping_back(&world, 10, 500);
    let found = world.found(&search);
    assert_eq!(found.records.len(), 10);
    let note = "a file is too big to be read whole, so entries that are not in the order of time may be missing";
    assert_eq!(found.skipped, [Skipped::new("app", note)]);
    // Before its first entry, and beyond the content of a page, it is no other.
    let early = Window { since: millis("2026-02-12T12:00:00Z"), until: millis("2026-02-13T11:00:00Z") };
    assert_eq!(world.found(&Search { window: early, ..always() }).skipped, [Skipped::new("app", note)]);
    assert_eq!(world.found(&Search { limit: 1, ..always() }).skipped, [Skipped::new("app", note)]);
    // If many lines jump back, a sample shows it, and everything is read.
    let found = world.found(&jumping_back(&world, 20_000, 500));
    assert_eq!((found.records.len(), found.skipped), (20, vec![]));
    // A file whose end is before the window has nothing to hide.
    let late = Window { since: millis("2026-02-20T12:00:00Z"), until: millis("2026-02-20T13:00:00Z") };
    assert_eq!(world.found(&Search { window: late, ..always() }).skipped, []);
}

#[test]
fn a_text_that_is_only_partly_kept_is_said_to_be_cut() {
    let world = World::new();
    let mut text = "2026-02-14 10:00:00 one\n".to_owned();
    for n in 0..2000 {
        writeln!(text, "  at {n} {}", "ä".repeat(60)).unwrap();
    }
    text.push_str("  needle\n2026-02-14 10:00:01 ");
    text.push_str(&"x".repeat(100_000));
    text.push_str(" needle\n2026-02-14 10:00:02 needle\n");
    world.write("app.log", &text);
    let cut: Vec<bool> = world.records(&day()).iter().map(|record| record.cut).collect();
    assert_eq!(cut, [false, true, true]);
    // The part that was not kept may have held the text.
    let found = world.found(&Search { needle: Some("needle".into()), ..day() });
    assert_eq!(found.records.len(), 1);
    assert_eq!(found.skipped, [Skipped::new("app", "2 entries are too long to be searched to their end")]);
}

#[test]
fn a_page_that_ends_between_equal_places_of_two_files_loses_neither() {
    let world = World::new();
    world.write("app.log.1", "2026-02-14 10:00:00 one\n");
    world.write("app.log", "2026-02-14 10:00:00 two\n");
    let first = world.found(&Search { limit: 1, ..day() });
    assert_eq!(first.records.len(), 2);
    let cursor = day().cursor_after(first.records[0].position);
    let cursor: crate::position::Cursor = cursor.to_string().parse().unwrap();
    let second = world.records(&Search { before: Some(cursor.after), ..day() });
    assert_eq!(second, first.records[1..]);
}

/// How a line begins: with a time or without.
#[derive(Debug, Clone)]
enum Begins {
    Stamped { style: usize, jump: i64 },
    Continued(usize),
    Blank,
}

fn line() -> impl Strategy<Value = Begins> {
    prop_oneof![
        6 => (0_usize..3, prop_oneof![6 => 0_i64..20_000, 1 => -9_000_000_i64..9_000_000])
            .prop_map(|(style, jump)| Begins::Stamped { style, jump }),
        2 => (0_usize..4).prop_map(Begins::Continued),
        1 => Just(Begins::Blank),
    ]
}

/// How many kinds of files [`write_lines`] writes.
const FAMILIES: usize = 10;

/// Lines as programs write them, each with its mark.
fn write_lines(lines: &[Begins], family: usize) -> String {
    const PREFIXES: [[&str; 3]; 6] = [
        ["", "", ""],
        ["web-1  | ", "db-1   | ", "cache-1 | "],
        ["a.log.1.2026-02-14_01:02:03 ", "b.log ", "c.log.22 "],
        ["main: ", "worker: ", ""],
        ["[x] ", "", "(y) "],
        ["node-1 unit.hw ", "node-2 unit.sw ", "n3 other "],
    ];
    const CONTINUED: [&str; 4] = ["  at ", "Traceback ", "\tcaused by ", "} "];
    let mut time = millis("2026-02-14T06:00:00Z");
    let mut text = String::new();
    for (n, line) in lines.iter().enumerate() {
        match line {
            Begins::Stamped { style, jump } => {
                time = (time + jump).clamp(millis("2026-02-13T12:00:00Z"), millis("2026-02-14T11:00:00Z"));
                let stamp = Timestamp::from_millis(time).to_string();
                let (day, clock) = stamp.trim_end_matches('Z').split_once('T').unwrap();
                let day = day.rsplit_once('-').unwrap().1;
                let second = clock.split_once('.').unwrap().0;
                let prefix = PREFIXES.get(family).map_or("", |prefixes| prefixes[*style]);
                match family {
                    0..=4 => writeln!(text, "{prefix}{stamp} entry #{n};"),
                    5 => writeln!(text, "{prefix}{}.{:03} entry #{n};", time / 1000, time % 1000),
                    6 => writeln!(text, "{{\"time\":\"{stamp}\",\"msg\":\"entry #{n};\"}}"),
                    7 => writeln!(text, "Feb {day} {second} host app{style}[7]: entry #{n};"),
                    8 => writeln!(text, "::1 - - [{day}/Feb/2026:{second} +0000] \"GET /#{n}; HTTP/1.1\" 200 7"),
                    _ => writeln!(text, "02-{day} {clock}  1702  2395 D tag{style}: entry #{n};"),
                }
                .unwrap();
            }
            Begins::Continued(style) => writeln!(text, "{}#{n};", CONTINUED[*style]).unwrap(),
            Begins::Blank => text.push('\n'),
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Attack (Providers and modules): a writer hides log entries behind another prefix, a clock
    /// that is put back, a byte order mark
    /// Defence: files of up to 32 MiB are read whole, and larger ones if a sample or a part that
    /// was read is out of order; the answer counts lines that no entry has, and lines with a time
    /// in an entry of another time, and names each service of which a part stayed unread
    #[test]
    fn every_line_is_in_one_entry_or_counted(
        lines in prop::collection::vec(line(), 1..120),
        family in 0..FAMILIES,
        cut in 0_usize..120,
        mark in any::<bool>(),
        packed in any::<bool>(),
        limit in 1_usize..40,
    ) {
        let world = World::new();
        let text = write_lines(&lines, family);
        // Rotated in the midst of the lines.
        let at = text.split_inclusive('\n').take(cut).map(str::len).sum::<usize>();
        let (old, new) = text.split_at(at);
        let front = if mark { "\u{feff}" } else { "" };
        world.write("app.log.1", format!("{front}{old}"));
        if packed {
            world.compress("app.log.1");
        }
        world.write("app.log", new);
        let whole = world.found(&always());
        let seen = marks(&whole.records);
        prop_assert!(seen.values().all(|count| *count == 1), "{seen:?}");
        let wanted = lines.iter().filter(|line| !matches!(line, Begins::Blank)).count();
        let unread = whole.skipped.iter().filter(|note| note.reason == "has no time stamps").count();
        if unread == 0 {
            prop_assert_eq!(seen.len() + counted(&whole.skipped), wanted, "{}\n{:?}", text, whole.skipped);
        }
        // Any way to cut the time into windows and pages gives the same entries.
        let mut paged = Vec::new();
        let mut until = always().window.until;
        for since in ["2026-02-14T09:00:00Z", "2026-02-14T06:30:00Z", "2026-02-14T06:00:00Z", "2026-02-13T12:00:00Z", "1970-01-01T00:00:00Z"] {
            let window = Window { since: millis(since), until };
            until = window.since;
            let mut before = None;
            loop {
                let mut page = world.found(&Search { window, before, limit, ..always() }).records;
                let more = page.len() > limit;
                page.truncate(limit);
                before = page.last().map(|record| record.position);
                paged.extend(page);
                if !more {
                    break;
                }
            }
        }
        prop_assert_eq!(&paged, &whole.records);
        for record in &whole.records {
            let found = world.files.find(record.id(), &meter()).unwrap();
            prop_assert_eq!(&found.records, std::slice::from_ref(record));
        }
    }

    #[test]
    fn pages_go_on_where_they_stopped_while_files_are_rotated(
        lines in prop::collection::vec(line(), 1..60),
        family in 0..FAMILIES,
        cut in 0_usize..60,
        limit in 1_usize..20,
    ) {
        let world = World::new();
        let text = write_lines(&lines, family);
        let at = text.split_inclusive('\n').take(cut).map(str::len).sum::<usize>();
        let (old, new) = text.split_at(at);
        world.write("app.log.1", old);
        world.write("app.log", new);
        let whole = world.records(&always());
        let mut paged: Vec<Record> = Vec::new();
        for turn in 0.. {
            let before = paged.last().map(|record| record.position);
            let mut page = world.found(&Search { before, limit, ..always() }).records;
            let more = page.len() > limit;
            page.truncate(limit);
            paged.extend(page);
            if !more {
                break;
            }
            for age in (0..=turn + 1).rev() {
                for end in ["", ".gz"] {
                    let from = if age == 0 { "app.log".to_owned() } else { format!("app.log.{age}{end}") };
                    std::fs::rename(world.path(&from), world.path(&format!("app.log.{}{end}", age + 1))).ok();
                }
            }
            if world.path("app.log.2").exists() {
                world.compress("app.log.2");
            }
            world.write("app.log", format!("2026-02-14T11:30:00.{turn:03}Z later\n"));
        }
        prop_assert_eq!(&paged, &whole);
        for record in &whole {
            let found = world.files.find(record.id(), &meter()).unwrap();
            prop_assert_eq!(&found.records, std::slice::from_ref(record));
        }
    }
}
