use super::*;
use crate::entry::Record;
use crate::severity::Severity;
use platform::commands::{Command, CommandError, Commands, Opened, SystemCommands};
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;

/// 2026-02-14T10:00:00Z in milliseconds.
const TEN: i64 = 1_771_063_200_000;
const REMOTE: [&str; 2] = ["/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-remote"];

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn search(limit: usize) -> Search {
    let window = Window { since: TEN, until: TEN + 3_600_000 };
    Search { window, before: None, service: None, needle: None, level: None, limit }
}

/// A real journal of 1,200 entries of three services, several in each millisecond; `None` where it cannot be made.
async fn journal() -> Option<(TempDir, Journald)> {
    let Some(remote) = REMOTE.iter().find(|path| std::path::Path::new(path).exists()) else {
        println!("skipped: there is no systemd-journal-remote");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut export = Vec::new();
    for n in 0..1200_i64 {
        let mut head = String::new();
        // 400 entries have the same microsecond.
        let micros = TEN * 1000 + if (400..800).contains(&n) { 400_000 } else { n * 1000 };
        writeln!(head, "__REALTIME_TIMESTAMP={micros}\n__MONOTONIC_TIMESTAMP={}", 1_000_000 + n).unwrap();
        writeln!(head, "_BOOT_ID=0123456789abcdef0123456789abcdef\n_MACHINE_ID=0123456789abcdef0123456789abcdef")
            .unwrap();
        let (name, unit) = [("sshd", "ssh.service"), ("cron", "cron.service"), ("--help", "x.service")]
            [usize::try_from(n).unwrap() % 3];
        writeln!(head, "SYSLOG_IDENTIFIER={name}\n_SYSTEMD_UNIT={unit}\nPRIORITY={}\n_PID={n}", n % 8).unwrap();
        export.extend_from_slice(head.as_bytes());
        if n == 7 {
            let message = b"two\nlines \xff\x00";
            export.extend_from_slice(b"MESSAGE\n");
            export.extend_from_slice(&u64::try_from(message.len()).unwrap().to_le_bytes());
            export.extend_from_slice(message);
            export.push(b'\n');
        } else if n == 8 {
            export.extend_from_slice(b"MESSAGE=first\nMESSAGE=second\n");
        } else if n == 9 {
            export.extend_from_slice(format!("MESSAGE={}\n", "long ".repeat(20_000)).as_bytes());
        } else if n != 10 {
            export.extend_from_slice(format!("MESSAGE=Entry {n}\n").as_bytes());
        }
        export.push(b'\n');
    }
    let mut command = Command::new(*remote, soon()).arg("-o").arg(dir.path().join("test.journal")).arg("-");
    command.stdin = Some(export);
    let done = SystemCommands::default().run(command).await.unwrap();
    assert_eq!(done.ending, Ending::Exited(0), "{}", String::from_utf8_lossy(&done.stderr));
    let journald = Journald::new(Arc::new(SystemCommands::default()), Place::Directory(dir.path().to_owned()));
    Some((dir, journald))
}

async fn records(journald: &Journald, search: &Search) -> Vec<Record> {
    let mut records = journald.search(search, soon()).await.unwrap().records;
    records.truncate(search.limit);
    records
}

#[tokio::test]
async fn a_real_journal_is_read_page_by_page_and_entry_by_entry() {
    let Some((_dir, journald)) = journal().await else { return };
    let whole = records(&journald, &search(5000)).await;
    assert_eq!(whole.len(), 1200);
    assert_eq!(whole[0].parsed.message, "Entry 1199");
    assert!(whole.windows(2).all(|pair| pair[0].position > pair[1].position));

    let mut paged: Vec<Record> = Vec::new();
    while paged.len() < 1200 {
        let before = paged.last().map(|record| record.position);
        let page = records(&journald, &Search { before, ..search(170) }).await;
        assert!(!page.is_empty());
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    for record in [&whole[0], &whole[500], &whole[1199]] {
        let found = journald.find(record.id(), soon()).await.unwrap().records.pop().unwrap();
        assert_eq!((found.id(), &found.parsed.message), (record.id(), &record.parsed.message));
        assert!(found.parsed.fields.contains_key("_BOOT_ID"));
    }
    let id = EntryId { check: 0, ..whole[0].id() };
    assert_eq!(journald.find(id, soon()).await.unwrap().records, []);
}

#[tokio::test]
async fn messages_of_every_shape_come_from_a_real_journal() {
    let Some((_dir, journald)) = journal().await else { return };
    let window = Window { since: TEN + 7, until: TEN + 11 };
    let messages: Vec<String> =
        records(&journald, &Search { window, ..search(10) }).await.into_iter().map(|r| r.parsed.message).collect();
    assert_eq!(
        messages,
        [String::new(), "long ".repeat(20_000), "first\nsecond".into(), "two\nlines \u{fffd}\0".into()]
    );
}

#[tokio::test]
async fn services_severities_and_texts_are_filtered() {
    let Some((_dir, journald)) = journal().await else { return };
    let of = |service: &str| Search { service: Some(service.to_owned()), ..search(5000) };
    for (service, name) in [("sshd", "sshd"), ("ssh.service", "sshd"), ("ssh", "sshd"), ("--help", "--help")] {
        let found = records(&journald, &of(service)).await;
        assert_eq!(found.len(), 400, "{service}");
        assert!(found.iter().all(|record| record.service == name));
    }
    assert_eq!(records(&journald, &of("no-such")).await, []);
    let errors = records(&journald, &Search { level: Some(Severity::Error), ..search(5000) }).await;
    assert_eq!(errors.len(), 600);
    let both = records(&journald, &Search { level: Some(Severity::Critical), ..of("sshd") }).await;
    assert!(!both.is_empty() && both.iter().all(|r| r.service == "sshd" && r.parsed.level == Some(Severity::Critical)));
    let texts = records(&journald, &Search { needle: Some("entry 3".into()), ..search(5000) }).await;
    assert_eq!(texts.len(), 1 + 10 + 100);
    // Rare text: the search goes on behind the first batch.
    let first = records(&journald, &Search { needle: Some("entry 11".into()), ..search(200) }).await;
    assert_eq!(first.len(), 1 + 10 + 100);
    let names: Vec<_> = journald.list_services(soon()).await.unwrap().services.into_iter().map(|s| s.service).collect();
    assert_eq!(names, ["--help", "cron", "sshd"]);
}

/// Notes what it is asked to run and answers what it is told.
struct Scripted {
    asked: Mutex<Vec<Vec<OsString>>>,
    answer: fn() -> Result<Finished, CommandError>,
}

impl Commands for Scripted {
    fn open(&self, command: Command) -> Result<Opened, CommandError> {
        Err(CommandError::NotFound(command.program))
    }

    fn limits_in_force(&self) -> String {
        String::new()
    }

    fn run(&self, command: Command) -> Pin<Box<dyn Future<Output = Result<Finished, CommandError>> + Send + '_>> {
        self.asked.lock().unwrap().push(command.args);
        let answer = (self.answer)();
        Box::pin(async move { answer })
    }
}

fn scripted(answer: fn() -> Result<Finished, CommandError>) -> (Arc<Scripted>, Journald) {
    let commands = Arc::new(Scripted { asked: Mutex::default(), answer });
    (Arc::clone(&commands), Journald::new(commands, Place::Machine))
}

fn empty(ending: Ending, stderr: &[u8]) -> Finished {
    Finished { ending, stdout: Vec::new(), stderr: stderr.to_vec(), exceeded: None }
}

/// Attack (Providers and modules): A user's text becomes an option of a program.
/// Defence: Argument vectors and `FIELD=value` matches; no shell.
#[tokio::test]
async fn text_of_an_agent_stands_behind_the_end_of_the_options() {
    let (commands, journald) = scripted(|| Ok(empty(Ending::Exited(0), b"")));
    let service = Some("--vacuum-size=1".to_owned());
    journald.search(&Search { service, needle: Some("--flush".into()), ..search(5) }, soon()).await.unwrap();
    let asked = commands.asked.lock().unwrap();
    let end = asked[0].iter().position(|arg| arg == "--").unwrap();
    assert_eq!(asked[0][end + 1], "SYSLOG_IDENTIFIER=--vacuum-size=1");
    assert!(asked[0][..end].iter().all(|arg| !arg.to_string_lossy().contains("vacuum")));
    assert!(asked[0].iter().all(|arg| !arg.to_string_lossy().contains("flush")));
}

#[tokio::test]
async fn faults_of_journalctl_are_told_apart() {
    let fault = |answer| async move { scripted(answer).1.search(&search(5), soon()).await.unwrap_err() };
    assert_eq!(fault(|| Err(CommandError::Deadline)).await, BackendError::Deadline);
    let absent = fault(|| Err(CommandError::NotFound("journalctl".into()))).await;
    assert_eq!(absent, unavailable("journalctl is not installed"));
    let failed = fault(|| Ok(empty(Ending::Exited(1), b"/secret/path: broken"))).await;
    assert_eq!(failed, unavailable("journalctl failed with status 1"));
    let none = fault(|| Ok(empty(Ending::Exited(0), b"No journal files were found."))).await;
    assert_eq!(none, unavailable("there is no journal, or the broker may not read it"));
    let partly =
        scripted(|| Ok(empty(Ending::Exited(0), b"Hint: You are currently not seeing messages from other users")));
    let found = partly.1.search(&search(5), soon()).await.unwrap();
    assert_eq!(found.skipped, [Skipped::new(WHAT, "the broker may read only a part of the journal")]);
    let big = scripted(|| Ok(empty(Ending::Overflowed(Stream::Stdout), b"")));
    assert_eq!(
        big.1.search(&search(5), soon()).await.unwrap().skipped,
        [Skipped::new(WHAT, "an entry is too big to be read, and those before it are missing")]
    );
}

/// Returns a line of `journalctl` about an entry at this many milliseconds after ten.
fn printed(after_ten: i64) -> String {
    let micros = (TEN + after_ten) * 1000;
    format!(
        "{{\"__CURSOR\":\"s=1;i={after_ten:x}\",\"__REALTIME_TIMESTAMP\":\"{micros}\",\"MESSAGE\":\"#{after_ten}\"}}\n"
    )
}

#[tokio::test]
async fn an_entry_that_cannot_be_decoded_is_counted_and_ends_nothing() {
    // The first batch is full, and one of its lines is no entry.
    let (commands, journald) = scripted(|| {
        static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let batch = i64::try_from(BATCH).unwrap();
        let first = CALLS.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let numbers: Vec<i64> = if first { (2000 - batch..2000).rev().collect() } else { vec![3, 2, 1] };
        let lines = numbers.into_iter().map(|n| if n == 1800 { "{\"__CURSOR\":7}\n".to_owned() } else { printed(n) });
        Ok(Finished { stdout: lines.collect::<String>().into_bytes(), ..empty(Ending::Exited(0), b"") })
    });
    let found = journald.search(&search(5000), soon()).await.unwrap();
    assert_eq!(commands.asked.lock().unwrap().len(), 2);
    assert_eq!(found.records.len(), BATCH - 1 + 3);
    assert_eq!(found.skipped, [Skipped::new(WHAT, "1 entry cannot be decoded")]);
}

#[tokio::test]
async fn a_clock_that_was_put_back_is_said() {
    let (_, journald) = scripted(|| {
        let lines = [300_000, 200_000, 290_000, 100_000].map(printed).concat();
        Ok(Finished { stdout: lines.into_bytes(), ..empty(Ending::Exited(0), b"") })
    });
    let found = journald.search(&search(5000), soon()).await.unwrap();
    assert_eq!(found.records.len(), 4);
    assert_eq!(found.skipped, [Skipped::new(WHAT, "the clock was put back, so entries may be missing")]);
}
