//! The cost of cleaning a result, looking into a big log, changing files, calling a bridge and an MCP server,
//! and being called from outside cost, beside the plainest program that does part of the same, in one run. It prints figures and ratios, and never judges.
//!
//! The log is queried through the whole broker, in this process, so that the kernel's count of what the process reads
//! (`/proc/self/io`) is that of the query and of everything round it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::indexing_slicing, reason = "replies whose shape is known")]
#![expect(clippy::print_stdout, reason = "the figures")]
#![expect(clippy::disallowed_methods, reason = "it starts processes and reads the clock")]
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures")]

mod bridges;
mod files;
mod outside;
mod servers;

use filter::scrub::Scrubber;
use filter::{Rules, Strictness, clean};
use secrets::Secrets;
use secrets::search::mark::Stamp;
use secrets::source::{CommandOutput, Output, SecretSource};
use serde_json::{Value, json};
use shared::reply::Notice;
use shared::{Timestamp, limits};
use std::collections::BTreeMap;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::World;
use tests::fakes::real_now;

const ROUNDS: usize = 15;
/// How much of the machine's own texts is searched for redactions that nobody needed.
const TEXTS_BYTES_MAX: usize = 200 * 1024 * 1024;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let secrets: Vec<String> = (0..20).map(|n| format!("{n:02}zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ2qRt{n:02}")).collect();
    let scrubber = scrubber(&secrets);
    // `cargo bench -p tests --bench providers -- servers` measures that part only.
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let parts: [(&str, &dyn Fn()); 7] = [
        ("scrubbing", &|| scrubbing(&scrubber, &secrets)),
        ("logs", &big_log),
        ("files", &files::all),
        ("bridges", &bridges::all),
        ("servers", &servers::all),
        ("outside", &outside::all),
        ("redactions", &|| needless_redactions(&scrubber)),
    ];
    for (name, measure) in parts {
        if named.is_empty() || named.iter().any(|named| named == name) {
            measure();
        }
    }
}

/// The median of so many rounds.
fn median_of(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut figures: Vec<Duration> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    figures.sort();
    figures.get(rounds / 2).copied().unwrap_or_default()
}

struct NoCommands;

impl CommandOutput for NoCommands {
    fn output<'a>(&'a self, _command: &'a [String]) -> Output<'a> {
        Box::pin(async { Err("there are none".to_owned()) })
    }
}

fn scrubber(secrets: &[String]) -> Scrubber {
    let named = || secrets.iter().enumerate().map(|(n, text)| (format!("S{n}"), text.clone()));
    let sources: BTreeMap<String, SecretSource> =
        named().map(|(name, _)| (name.clone(), SecretSource::Env { env: name })).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let loaded = runtime.block_on(Secrets::load(&sources, &named().collect(), &NoCommands));
    Scrubber::new(&loaded, Stamp::new([9; 32])).unwrap()
}

fn rules(scrubber: &Scrubber, strictness: Strictness) -> Rules<'_> {
    Rules { scrubber, output_schema: None, strictness }
}

/// The least that this takes.
fn best(rounds: usize, mut work: impl FnMut() -> Duration) -> Duration {
    (0..rounds).map(|_| work()).min().unwrap_or_default()
}

/// A line of this process's status, in KiB.
fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The median of what this takes, on a copy of the data each time.
fn median<T>(data: &Value, mut work: impl FnMut(Value) -> T) -> Duration {
    let mut figures: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let copy = data.clone();
            let began = Instant::now();
            drop(std::hint::black_box(work(copy)));
            began.elapsed()
        })
        .collect();
    figures.sort();
    figures.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn scrubbing(scrubber: &Scrubber, secrets: &[String]) {
    let line =
        "2026-02-14T10:00:01.123Z INFO request id=46c2e58a method=GET path=\"/v1/items?limit=20%2C30\" took 12ms\n";
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "the filter, 20 secrets", "bytes", "µs", "MB/s", "× JSON", "× find"
    );
    for bytes in [128 * 1024, limits::DATA_BYTES_MAX, 4_000_000] {
        let text = line.repeat(bytes / line.len());
        let entry = |line: &str| json!({ "time": "10:00", "level": "info", "text": line });
        let entries: Vec<Value> = line.repeat(bytes / 150).lines().map(entry).collect();
        let with_secret = secrets.first().map(|secret| format!("{text}{secret}"));
        for (name, data) in
            [("one string", json!(text)), ("log entries", json!(entries)), ("one secret in it", json!(with_secret))]
        {
            let took = median(&data, |data| clean(data, &rules(scrubber, Strictness::Ordinary)));
            // The work of any relay: write the value and read it again.
            let json = median(&data, |data| serde_json::from_str::<Value>(&data.to_string()));
            // The work of a relay that looks for each secret as it is and in no other form.
            let find = median(&data, |data| secrets.iter().filter(|secret| data.to_string().contains(*secret)).count());
            let ratio = |other: Duration| took.as_secs_f64() / other.as_secs_f64();
            println!(
                "{name:<34} {:>9} {:>9.0} {:>9.0} {:>9.1} {:>9.1}",
                data.to_string().len(),
                took.as_secs_f64() * 1e6,
                data.to_string().len() as f64 / took.as_secs_f64() / 1e6,
                ratio(json),
                ratio(find)
            );
        }
    }
}

/// The bytes that this process has read so far, from files and pipes.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap()
}

fn big_log() {
    const LINES: i64 = 10_700_000;
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.log");
    let end = real_now();
    let start = end.minus(Duration::from_secs(24 * 3600));
    let at = |millis: i64| Timestamp::from_millis(start.millis() + millis).to_string();
    let mut file = BufWriter::new(std::fs::File::create(&path).unwrap());
    for n in 0..LINES {
        writeln!(file, "{} INFO request {n:>63}", at(n * DAY_MS / LINES)).unwrap();
    }
    let length = file.into_inner().unwrap().metadata().unwrap().len();
    println!("\na log of {length} bytes, {LINES} lines, one day");
    println!("{:<50} {:>9} {:>12} {:>9}", "", "ms", "bytes read", "× grep");

    // Its first line says for which minute it is; what lies before it does not matter to either.
    let middle = DAY_MS / 2;
    let minute = at(middle).get(..16).unwrap().to_owned();
    let (grep, count) = grepped(&path, &minute);
    let (whole, blocks) = read_whole(&path);

    let config = format!(
        "{}\n[providers.logs]\nkind = \"cloud-logs\"\nmax_results = 1000\n\
         [[providers.logs.backends]]\nkind = \"files\"\npaths = [\"{}\"]\ntimezone = \"UTC\"\n",
        tests::world::CONFIG,
        path.display()
    );
    let world = World::builder().config(&config).clock(end).up();
    world.grant_with("developer", 1, json!({ "provider": "logs" }));
    let developer = world.group("developer");
    let ask = |params: Value| {
        let document = json!({ "type": "ext_call", "provider": "logs", "action": "query_logs", "params": params });
        let (before, began) = (bytes_read(), Instant::now());
        let reply = developer.ask(document);
        assert_eq!(reply.get("status"), Some(&json!("executed")), "{reply}");
        (began.elapsed(), bytes_read() - before)
    };
    let row = |name: &str, took: Duration, bytes: u64| {
        let ratio = took.as_secs_f64() / grep.as_secs_f64();
        println!("{name:<50} {:>9.1} {bytes:>12} {ratio:>9.3}", took.as_secs_f64() * 1e3);
    };
    row(&format!("grep -c {minute} ({count} lines)"), grep, length);
    row(&format!("reading it all in {blocks} blocks"), whole, length);
    let (since, until) = (format!("{minute}:00Z"), format!("{minute}:59.999Z"));
    let wanted = [
        ("brokered: that minute, 50 entries", json!({ "since": since, "until": until, "limit": 50 })),
        ("brokered: that minute, 1000 entries", json!({ "since": since, "until": until, "limit": 1000 })),
        ("brokered: the newest 50 of the day", json!({ "since": at(1000), "until": end.to_string(), "limit": 50 })),
        (
            "brokered: a text that does not occur, in one hour",
            json!({ "since": at(middle), "until": at(middle + DAY_MS / 24), "query": "request no such" }),
        ),
    ];
    for (name, params) in wanted {
        let (took, bytes) = ask(params);
        row(name, took, bytes);
    }
}

fn grepped(path: &Path, minute: &str) -> (Duration, String) {
    let began = Instant::now();
    let output = Command::new("grep").arg("-c").arg(minute).arg(path).env("LC_ALL", "C").output().expect("grep");
    (began.elapsed(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read_whole(path: &Path) -> (Duration, usize) {
    let began = Instant::now();
    let mut file = std::fs::File::open(path).unwrap();
    let mut block = vec![0; 1024 * 1024];
    let mut blocks = 0;
    while file.read(&mut block).unwrap() > 0 {
        blocks += 1;
    }
    (began.elapsed(), blocks)
}

/// How many of this machine's own texts, in which nobody hid anything, come back changed.
fn needless_redactions(scrubber: &Scrubber) {
    println!("\n{:<50} {:>9} {:>12} {:>9} {:>9}", "needless redactions", "texts", "bytes", "any", "own");
    let home = std::env::home_dir().unwrap_or_default();
    for root in ["/usr/share/doc".into(), "/usr/include".into(), home.join(".cargo/registry/src")] {
        let mut paths = Vec::new();
        texts_under(&root, &mut paths);
        paths.sort();
        let (mut texts, mut bytes, mut any, mut own) = (0, 0, 0, 0);
        for path in paths {
            let Ok(text) = std::fs::read_to_string(path) else { continue };
            if bytes + text.len() > TEXTS_BYTES_MAX {
                break;
            }
            texts += 1;
            bytes += text.len();
            let redacted = |strictness| {
                let cleaned = clean(json!(text), &rules(scrubber, strictness));
                u32::from(cleaned.notices.contains(&Notice::Redacted))
            };
            any += redacted(Strictness::Ordinary);
            own += redacted(Strictness::OwnSecrets);
        }
        println!("{:<50} {texts:>9} {bytes:>12} {any:>9} {own:>9}", root.display());
    }
}

fn texts_under(folder: &Path, texts: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => texts_under(&entry.path(), texts),
            Ok(kind) if kind.is_file() && entry.metadata().is_ok_and(|metadata| metadata.len() <= 1_000_000) => {
                texts.push(entry.path());
            }
            _ => {}
        }
    }
}
