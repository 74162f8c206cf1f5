//! Lists: page after page, up to a limit.

use crate::base::{Cursor, Target};
use crate::client::Session;
use provider::contract::Failure;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// How many pages one list reads at most: a filter that lets little through must not read a whole organisation.
const PAGES_MAX: usize = 10;

/// Where a list goes on: a page, and how many of its entries were taken. As a text `page=3;12`, on the first page `;12`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Place {
    page: Option<Cursor>,
    skip: usize,
}

/// Not a place that a list has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor that a list has given")]
pub(super) struct BadPlace;

/// How many entries a page has at most.
const PAGE_MAX: usize = 100;

impl TryFrom<String> for Place {
    type Error = BadPlace;

    fn try_from(text: String) -> Result<Self, BadPlace> {
        let (page, skip) = text.split_once(';').ok_or(BadPlace)?;
        let page = if page.is_empty() { None } else { Some(Cursor::read(page).ok_or(BadPlace)?) };
        let skip = skip.parse().ok().filter(|skip| *skip <= PAGE_MAX).ok_or(BadPlace)?;
        Ok(Self { page, skip })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};{}", self.page.as_ref().map_or("", Cursor::as_str), self.skip)
    }
}

impl JsonSchema for Place {
    fn schema_name() -> Cow<'static, str> {
        "cursor".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": 310, "pattern": "^[A-Za-z0-9%=&._~-]*;[0-9]{1,3}$" })
    }
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed<T> {
    /// The entries that were wanted, in GitHub's order.
    pub(super) entries: Vec<T>,
    /// Where the list goes on; `None` at its end.
    pub(super) next: Option<Place>,
}

impl<T> Listed<T> {
    /// Checks whether there may be more.
    pub(super) fn more(&self) -> bool {
        self.next.is_some()
    }

    /// Where it goes on, as a text.
    pub(super) fn cursor(&self) -> Option<String> {
        self.next.as_ref().map(Place::to_string)
    }
}

/// Reads the entries that are `wanted`, at most `limit`, each as its shape, from the beginning or from where an earlier
/// answer ended.
///
/// # Errors
/// [`Failure`]; nothing was changed. An entry without a shape makes the whole answer unusable.
pub(super) async fn listed<T>(
    session: &Session<'_>,
    target: &Target,
    (from, limit): (Option<&Place>, usize),
    wanted: impl Fn(&Value) -> bool + Send,
    shape: impl Fn(&Value) -> Option<T> + Send,
) -> Result<Listed<T>, Failure> {
    let mut entries = Vec::new();
    let Place { page: mut at, mut skip } = from.cloned().unwrap_or_default();
    for _ in 1..=PAGES_MAX {
        let place = at.as_ref().map_or_else(|| target.clone(), |cursor| target.at(cursor));
        let page = session.get_page(&place).await?;
        let found = items(&page.document).ok_or_else(|| unusable("is not a list"))?;
        let mut found = found.iter().enumerate().skip(skip).filter(|(_, entry)| wanted(entry));
        while entries.len() < limit
            && let Some((_, entry)) = found.next()
        {
            entries.push(shape(entry).ok_or_else(|| unusable("has an entry without the usual fields"))?);
        }
        if let Some((left_over, _)) = found.next() {
            return Ok(Listed { entries, next: Some(Place { page: at, skip: left_over }) });
        }
        let Some(next) = page.next else { return Ok(Listed { entries, next: None }) };
        (at, skip) = (Some(next), 0);
        if entries.len() >= limit {
            break;
        }
    }
    Ok(Listed { entries, next: Some(Place { page: at, skip }) })
}

/// Returns the first matching entry among the first `pages` pages.
///
/// # Errors
/// [`Failure`]; nothing was changed.
pub(super) async fn first(
    session: &Session<'_>,
    target: &Target,
    pages: usize,
    is_it: impl Fn(&Value) -> bool + Send,
) -> Result<Option<Value>, Failure> {
    let mut page = session.get_page(target).await?;
    for read in 1.. {
        let found = items(&page.document).ok_or_else(|| unusable("is not a list"))?;
        if let Some(entry) = found.iter().find(|entry| is_it(entry)) {
            return Ok(Some(entry.clone()));
        }
        let Some(next) = page.next.filter(|_| read < pages) else { break };
        page = session.get_page(&target.at(&next)).await?;
    }
    Ok(None)
}

/// Returns the items of a page. The list of the repositories of an installation has them in a member.
fn items(document: &Value) -> Option<&Vec<Value>> {
    document.as_array().or_else(|| document.get("repositories")?.as_array())
}

fn unusable(how: &str) -> Failure {
    Failure::InvalidOutput { message: format!("GitHub's answer {how}.") }
}
