//! The filter for every result and every message before a reader sees it.
//!
//! The order is fixed: size → schema → credential keys → credential values → inspection → cut → delimiters. A size or
//! schema that is wrong withholds the result. A secret is replaced by a [mark](secrets::search::mark). A too long
//! text is cut, and only after it was searched, so that no secret is cut in two and half of it missed.
//!
//! Enter at [`clean`] for results, [`clean_text`] for one-line texts, [`declared::cleaned`] for the descriptions of
//! actions and [`clean_whole`] for anything else. Nothing here does anything but compute.

pub mod credentials;
mod truncation;
pub mod declared;
pub mod delimiters;
mod document;
pub mod inspect;
mod keys;
mod pieces;
pub mod scrub;
pub mod values;

use self::credentials::{Extent, Scrubbed};
use self::scrub::Scrubber;
use jsonschema::Validator;
use secrets::search::view::is_invisible;
use serde_json::Value;
use shared::limits::{DATA_BYTES_MAX, JSON_DEPTH_MAX, RESULT_BYTES_MAX};
use shared::reply::Notice;

/// How strictly a provider's results are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Only for the broker's own secrets: file contents, which must come back as they are.
    OwnSecrets,
    /// For everything.
    Ordinary,
    /// For everything, and a credential key withholds the result: namespaced capabilities.
    Namespaced,
}

/// The rules for a result.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Finds the broker's own secrets.
    pub scrubber: &'a Scrubber,
    /// The action's output schema. Its compiler chooses the linear-time pattern engine.
    pub output_schema: Option<&'a Validator>,
    /// How strictly it is searched.
    pub strictness: Strictness,
}

/// A result that may be shown.
#[derive(Debug, PartialEq)]
#[must_use]
pub struct Cleaned {
    /// The result, or why it is withheld. The effect has happened either way.
    pub data: Result<Value, Withheld>,
    /// The changes to it, for the reply.
    pub notices: Vec<Notice>,
}

/// Why a result is kept back. The messages quote nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// Longer than is read from a provider.
    #[error("the result is longer than {RESULT_BYTES_MAX} bytes")]
    TooLarge,
    /// Nested deeper than a reply may be.
    #[error("the result is nested too deep")]
    TooDeep,
    /// It does not fit the action's schema.
    #[error("the result does not fit the action's output schema")]
    Schema,
    /// It has a credential key, and this provider's results may have none.
    #[error("the result contains credentials")]
    CredentialKey,
    /// Secrets are wrapped into each other in it.
    #[error("the result cannot be cleaned of secrets")]
    Hopeless,
}

/// Passes a result through the filter.
pub fn clean(data: Value, rules: &Rules<'_>) -> Cleaned {
    shorten(redacted(data, rules))
}

/// Takes every step but the cut: an inspection must see the whole, because a cut part could explain the rest.
pub fn redacted(data: Value, rules: &Rules<'_>) -> Cleaned {
    redacted_with(data, &mut String::new(), rules)
}

/// Filters a result and the line that is shown with it, except for the cut. A secret may be split over both.
pub fn redacted_with(mut data: Value, summary: &mut String, rules: &Rules<'_>) -> Cleaned {
    match redact(&mut data, summary, rules) {
        Ok(redacted) => Cleaned { data: Ok(data), notices: redacted.then_some(Notice::Redacted).into_iter().collect() },
        Err(why) => Cleaned { data: Err(why), notices: vec![Notice::Withheld] },
    }
}

/// Takes the last step: cuts a too long text.
pub fn shorten(cleaned: Cleaned) -> Cleaned {
    let Cleaned { data, mut notices } = cleaned;
    let data = data.map(|data| {
        let (data, truncated) = truncation::cut(data, DATA_BYTES_MAX);
        notices.extend(truncated.then_some(Notice::Truncated));
        data
    });
    Cleaned { data, notices }
}

/// Every step but the cut. Says whether anything was taken out.
fn redact(data: &mut Value, summary: &mut String, rules: &Rules<'_>) -> Result<bool, Withheld> {
    // ORDER: the depth first, because everything after it recurses.
    if is_deeper_than(data, JSON_DEPTH_MAX - 1) {
        return Err(Withheld::TooDeep);
    }
    if truncation::json_bytes(data) > RESULT_BYTES_MAX {
        return Err(Withheld::TooLarge);
    }
    if rules.output_schema.is_some_and(|schema| !schema.is_valid(data)) {
        return Err(Withheld::Schema);
    }
    take_out(data, summary, rules.scrubber, rules.strictness)
}

/// Removes credentials from a value that is no reply, and of which nothing is cut. Returns whether there were any.
///
/// # Errors
/// [`Withheld`]; the rest of the value must not be shown.
pub fn clean_whole(data: &mut Value, scrubber: &Scrubber) -> Result<bool, Withheld> {
    if is_deeper_than(data, JSON_DEPTH_MAX - 1) {
        return Err(Withheld::TooDeep);
    }
    take_out(data, &mut String::new(), scrubber, Strictness::Ordinary)
}

fn take_out(
    data: &mut Value,
    summary: &mut String,
    scrubber: &Scrubber,
    strictness: Strictness,
) -> Result<bool, Withheld> {
    let (looks_at_keys, extent) = match strictness {
        Strictness::OwnSecrets => (false, Extent::Own),
        Strictness::Ordinary | Strictness::Namespaced => (true, Extent::All),
    };
    let had_key = looks_at_keys && keys::redact(data, scrubber.stamp());
    if had_key && strictness == Strictness::Namespaced {
        return Err(Withheld::CredentialKey);
    }
    let outcome = if summary.is_empty() {
        credentials::scrub(data, scrubber, extent)
    } else {
        credentials::scrub_both(data, summary, scrubber, extent)
    };
    match outcome {
        Scrubbed::Untouched => Ok(had_key),
        Scrubbed::Redacted => Ok(true),
        Scrubbed::Hopeless => Err(Withheld::Hopeless),
    }
}

fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let deeper = |item: &Value| limit == 0 || is_deeper_than(item, limit - 1);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        Value::Array(items) => limit == 0 || items.iter().any(deeper),
        Value::Object(entries) => limit == 0 || entries.values().any(deeper),
    }
}

/// The longest complaint of a foreign program that is kept, in bytes.
pub const COMPLAINT_MAX: usize = 2000;

/// Returns the complaint of a foreign program as a line of the operator's log; `None` if the program got no secret.
pub fn complaint(text: &str, scrubber: Option<&Scrubber>) -> String {
    match scrubber {
        Some(scrubber) => clean_text(text, COMPLAINT_MAX, scrubber),
        None => text.chars().take(COMPLAINT_MAX).collect(),
    }
}

/// Makes one line of at most `limit` bytes out of any text: an error message, a summary. Credentials are replaced,
/// line breaks and control characters become spaces, invisible characters go.
pub fn clean_text(text: &str, limit: usize, scrubber: &Scrubber) -> String {
    const NOT_SHOWN: &str = "(the message could not be checked for secrets and is not shown)";
    if text.len() > RESULT_BYTES_MAX {
        return NOT_SHOWN.to_owned();
    }
    // ORDER: parts of a secret may be in lines, so they are searched first. A credential may be whole only in the one
    // line. The line is cut last, because half a secret is not recognised.
    let mut text = Value::String(text.to_owned());
    let Some(text) = scrubbed(&mut text, scrubber, Extent::Own) else { return NOT_SHOWN.to_owned() };
    let mut line = Value::String(one_line(text));
    match scrubbed(&mut line, scrubber, Extent::All) {
        Some(line) => shortened(line.to_owned(), limit),
        None => NOT_SHOWN.to_owned(),
    }
}

/// Returns a text without credentials; `None` if they cannot be taken out.
fn scrubbed<'a>(text: &'a mut Value, scrubber: &Scrubber, extent: Extent) -> Option<&'a str> {
    match credentials::scrub(text, scrubber, extent) {
        Scrubbed::Untouched | Scrubbed::Redacted => text.as_str(),
        Scrubbed::Hopeless => None,
    }
}

fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        let is_gap = c.is_whitespace() || c.is_control();
        if is_gap && !line.ends_with(' ') && !line.is_empty() {
            line.push(' ');
        } else if !is_gap && !is_invisible(c) {
            line.push(c);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

fn shortened(mut line: String, limit: usize) -> String {
    const ELLIPSIS: char = '…';
    if line.len() > limit {
        line.truncate(line.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len_utf8())));
        line.push(ELLIPSIS);
    }
    line
}

/// Checks whether a value holds a secret of the broker's own, in any of the forms that are looked for.
pub fn holds_own(mut value: Value, scrubber: &Scrubber) -> bool {
    credentials::scrub(&mut value, scrubber, credentials::Extent::Own) != credentials::Scrubbed::Untouched
}

#[cfg(test)]
mod tests;
