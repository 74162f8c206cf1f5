//! `scrub`: the filter for credentials by itself, for texts that do not pass through the broker.

use crate::assembly::secrets::load_secrets;
use crate::cli::Context;
use crate::cli::output::CliError;
use clap::Args;
use filter::clean_whole;
use filter::scrub::Scrubber;
use filter::values::Formats;
use secrets::Secrets;
use secrets::search::mark::{Stamp, kind_of, marks_of};
use serde_json::{Map, Value, json};
use shared::numbers::counted;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::path::PathBuf;

/// The most bytes of a line.
const LINE_BYTES_MAX: usize = 32 << 20;

/// Redact credentials in texts, as the broker does in every reply.
///
/// The command needs no daemon and stores nothing.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --jsonl, the input is one text of at most 32 MiB. The command prints the redacted text; with --json \
    {text, altered, kinds}.

With --jsonl, each line of the input is {\"text\": STRING} or {\"data\": ANY JSON}; the command drops other members. It \
prints {line, text or data, altered, kinds} for each line, where kinds lists the redactions. If a line is no such \
object, is longer than 32 MiB, or is nested too deeply, the command prints {line, error} and continues. The exit code is \
then 2.

A redaction mark replaces each credential: <redacted: slack token, 57 bytes, #a1b2c3d4>. Within one run, equal digits \
mean equal credentials.

With --home (or EXT_BROKER_HOME), the command also detects the secrets of that home, in every encoding that the broker \
searches, and the formats under [filter] in its broker.toml. Without a home, it detects the built-in formats.

Examples:
  host-broker scrub build.log > build.clean.log
  echo '{\"text\": \"postgres://app:hunter22@db/x\"}' | host-broker scrub --jsonl
  jq -c '{data: .}' replies.json | host-broker scrub --jsonl - --home /srv/broker"
)]
pub struct Scrub {
    /// Read one JSON object a line from this file; without a name or with `-`, from standard input.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "file")]
    jsonl: Option<PathBuf>,
    /// Read one plain text from this file; `-` means standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl Scrub {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the file or the home cannot be used, or a line could not.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let scrubber = scrubber(context)?;
        let path = self.jsonl.as_ref().unwrap_or(&self.file);
        let unreadable = |error: Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
        let input: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(path).map_err(unreadable)?)
        };
        if self.jsonl.is_none() {
            return plain(context, input, &scrubber, &unreadable);
        }
        let mut tally = Tally::default();
        context.output.lines(|out| tally.answer(BufReader::new(input), out, &scrubber))?;
        match tally.faulty {
            0 => Ok(()),
            faulty => {
                let lines = counted(tally.all, "line", "lines");
                Err(CliError::usage(format!("{faulty} of {lines} could not be used; see their `error`")))
            }
        }
    }
}

/// Cleans the whole input as one text.
fn plain(
    context: &Context,
    input: Box<dyn Read>,
    scrubber: &Scrubber,
    unreadable: &dyn Fn(Error) -> CliError,
) -> Result<(), CliError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    input.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > LINE_BYTES_MAX {
        return Err(CliError::usage(format!("the text is longer than {LINE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_bytes| CliError::usage("the text is not UTF-8"))?;
    let members = cleaned("text", Value::String(text), scrubber).map_err(CliError::usage)?;
    if context.output.json {
        context.output.line(&Value::Object(members).to_string());
        return Ok(());
    }
    let text = members.get("text").and_then(Value::as_str).unwrap_or_default();
    context.output.lines(|out| out.write_all(text.as_bytes())).map(drop)
}

/// Returns the scrubber of the chosen home, or one with the general formats only.
fn scrubber(context: &Context) -> Result<Scrubber, CliError> {
    let mut fingerprints = [0; 32];
    context.platform.ids.fill(&mut fingerprints).map_err(|error| CliError::internal(&error))?;
    let (secrets, formats) = if context.home_is_chosen {
        let config = context.config()?;
        let secrets = load_secrets(&config, &context.platform);
        for (name, fault) in secrets.faults() {
            context.output.say(&format!("host-broker: the secret {name} is not looked for, because it is {fault}"));
        }
        (secrets, config.formats(&context.home.config()).map_err(|error| CliError::configuration(&error))?)
    } else {
        (Secrets::default(), Formats::with([]).map_err(|error| CliError::internal(&error))?)
    };
    Scrubber::with(&secrets, Stamp::new(fingerprints), formats).map_err(|error| CliError::internal(&error))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    all: u64,
    faulty: u64,
}

impl Tally {
    /// Answers line by line; no more than one line is held.
    fn answer(&mut self, mut input: impl BufRead, out: &mut dyn Write, scrubber: &Scrubber) -> Result<(), Error> {
        let mut line = Vec::new();
        while let Some(is_whole) = next_line(&mut input, &mut line)? {
            self.all += 1;
            let answer = if is_whole {
                answered(&line, scrubber)
            } else {
                Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"))
            };
            let mut members = answer.unwrap_or_else(|fault| {
                self.faulty += 1;
                Map::from_iter([("error".to_owned(), fault.into())])
            });
            members.insert("line".into(), self.all.into());
            writeln!(out, "{}", Value::Object(members))?;
        }
        Ok(())
    }
}

/// Reads the next line and returns whether it is whole; the rest of a too long line is passed over. `None` at the end.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<Option<bool>, Error> {
    line.clear();
    let limit = u64::try_from(LINE_BYTES_MAX + 1).unwrap_or(u64::MAX);
    if input.by_ref().take(limit).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.len() <= LINE_BYTES_MAX || line.ends_with(b"\n") {
        return Ok(Some(true));
    }
    input.skip_until(b'\n')?;
    Ok(Some(false))
}

fn answered(line: &[u8], scrubber: &Scrubber) -> Result<Map<String, Value>, String> {
    const FORM: &str = "the line must be {\"text\": STRING} or {\"data\": ANY JSON}";
    let mut members: Map<String, Value> =
        serde_json::from_slice(line).map_err(|fault| format!("{FORM}; as JSON it is wrong: {fault}"))?;
    let (name, value) = match (members.remove("text"), members.remove("data")) {
        (Some(text @ Value::String(_)), None) => ("text", text),
        (None, Some(data)) => ("data", data),
        _ => return Err(FORM.to_owned()),
    };
    cleaned(name, value, scrubber)
}

/// Returns the value without credentials, under this name, and the marks that replaced them.
fn cleaned(name: &str, mut value: Value, scrubber: &Scrubber) -> Result<Map<String, Value>, String> {
    let before: BTreeSet<String> = marks_in(&value);
    let altered = clean_whole(&mut value, scrubber).map_err(|why| why.to_string())?;
    let after = marks_in(&value);
    let kinds: BTreeSet<&str> = after.difference(&before).filter_map(|mark| kind_of(mark)).collect();
    let answer = [("altered", json!(altered)), ("kinds", json!(kinds)), (name, value)];
    Ok(answer.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn marks_in(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => BTreeSet::new(),
        Value::String(text) => marks_of(text).map(str::to_owned).collect(),
        Value::Array(items) => items.iter().flat_map(marks_in).collect(),
        Value::Object(entries) => {
            let keys = entries.keys().flat_map(|key| marks_of(key).map(str::to_owned));
            keys.chain(entries.values().flat_map(marks_in)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: &[u8]) -> (Vec<Value>, Tally) {
        let formats = Formats::with([]).unwrap();
        let scrubber = Scrubber::with(&Secrets::default(), Stamp::new([1; 32]), formats).unwrap();
        let (mut out, mut tally) = (Vec::new(), Tally::default());
        tally.answer(input, &mut out, &scrubber).unwrap();
        (String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect(), tally)
    }

    #[test]
    fn each_line_is_answered_with_what_was_taken_out_of_it() {
        let (answers, tally) = answers(
            b"{\"text\":\"nothing\",\"id\":7}\n{\"text\":\"postgres://app:hunter22@db\"}\n{\"data\":[{\"password\":\"x y\"}]}\n\
              {\"text\":\"<redacted: jwt, 90 bytes, #0a1b2c3d>\"}",
        );
        let mark = |kind: &str, text: &str| Stamp::new([1; 32]).mark(kind, text);
        let url = format!("postgres://app:{}@db", mark("url password", "hunter22"));
        assert_eq!(
            answers,
            [
                json!({"line": 1, "text": "nothing", "altered": false, "kinds": []}),
                json!({"line": 2, "text": url, "altered": true, "kinds": ["url password"]}),
                json!({"line": 3, "data": [{"password": mark("password", "x y")}], "altered": true, "kinds": ["password"]}),
                json!({"line": 4, "text": "<redacted: jwt, 90 bytes, #0a1b2c3d>", "altered": false, "kinds": []}),
            ]
        );
        assert_eq!(tally, Tally { all: 4, faulty: 0 });
    }

    #[test]
    fn a_line_that_cannot_be_used_is_an_error_and_the_others_are_answered() {
        let mut input = b"{\"text\":1}\nnot json\n\xff\n{\"text\":\"a\",\"data\":1}\n\n".to_vec();
        input.extend(std::iter::repeat_n(b'x', LINE_BYTES_MAX + 5));
        input.extend(format!("\n{{\"data\":{}1{}}}\n{{\"text\":\"b\"}}\n", "[".repeat(70), "]".repeat(70)).bytes());
        let (answers, tally) = answers(&input);
        assert_eq!(tally, Tally { all: 8, faulty: 7 });
        assert!(answers[..7].iter().all(|answer| answer["error"].is_string() && answer.get("text").is_none()));
        assert!(answers[5]["error"].as_str().unwrap().contains("longer than"), "{}", answers[5]);
        assert_eq!(answers[7], json!({"line": 8, "text": "b", "altered": false, "kinds": []}));
    }
}
