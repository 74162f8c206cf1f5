//! Lists: page after page, up to a limit.

use crate::providers::contract::Failure;
use crate::providers::github::base::Target;
use crate::providers::github::client::Session;
use serde_json::Value;

/// How many pages one list reads at most: a filter that lets little through must not read a whole organisation.
const PAGES_MAX: usize = 10;

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed<T> {
    /// The entries that were wanted, in GitHub's order.
    pub(super) entries: Vec<T>,
    /// Whether there may be more.
    pub(super) more: bool,
}

/// Reads the entries that are `wanted`, at most `limit`, each as its shape.
///
/// # Errors
/// [`Failure`]; nothing was changed. An entry without a shape makes the whole answer unusable.
pub(super) async fn listed<T>(
    session: &Session<'_>,
    target: &Target,
    limit: usize,
    wanted: impl Fn(&Value) -> bool + Send,
    shape: impl Fn(&Value) -> Option<T> + Send,
) -> Result<Listed<T>, Failure> {
    let mut entries = Vec::new();
    let mut page = session.get_page(target).await?;
    for _ in 1..=PAGES_MAX {
        let found = page.document.as_array().ok_or_else(|| unusable("is not a list"))?;
        let mut found = found.iter().filter(|entry| wanted(entry));
        while entries.len() < limit
            && let Some(entry) = found.next()
        {
            entries.push(shape(entry).ok_or_else(|| unusable("has an entry without the usual fields"))?);
        }
        let left_over = found.next().is_some();
        let Some(next) = page.next else { return Ok(Listed { entries, more: left_over }) };
        if entries.len() >= limit {
            break;
        }
        page = session.get_page(&target.at(&next)).await?;
    }
    Ok(Listed { entries, more: true })
}

/// The first entry that is what is looked for, among the first `pages` pages.
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
        let entries = page.document.as_array().ok_or_else(|| unusable("is not a list"))?;
        if let Some(entry) = entries.iter().find(|entry| is_it(entry)) {
            return Ok(Some(entry.clone()));
        }
        let Some(next) = page.next.filter(|_| read < pages) else { break };
        page = session.get_page(&target.at(&next)).await?;
    }
    Ok(None)
}

fn unusable(how: &str) -> Failure {
    Failure::InvalidOutput { message: format!("GitHub's answer {how}.") }
}
