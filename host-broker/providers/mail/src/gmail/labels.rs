//! Labels: the folders of Gmail.

use super::client::Session;
use crate::reference::Folder;
use provider::contract::Failure;
use serde::Deserialize;
use shared::limits::RESULT_BYTES_MAX;

/// The labels that every account has, as far as the broker uses them. Source: Gmail API guide, Manage labels.
pub(crate) const INBOX: &str = "INBOX";
pub(crate) const SENT: &str = "SENT";
pub(crate) const DRAFT: &str = "DRAFT";
pub(crate) const TRASH: &str = "TRASH";
pub(crate) const SPAM: &str = "SPAM";
pub(crate) const UNREAD: &str = "UNREAD";
/// All messages but those in `SPAM` and `TRASH`. It is no label.
pub(crate) const ALL_MAIL: &str = "All Mail";

/// The labels of an account.
#[derive(Deserialize)]
pub(super) struct Labels {
    #[serde(default)]
    labels: Vec<Label>,
}

#[derive(Deserialize)]
struct Label {
    id: String,
    name: String,
}

impl Label {
    /// Returns the name as other actions take it: the name, or the id of a label whose name has other characters.
    fn taken(self) -> Option<String> {
        let is_folder = |text: &String| Folder::try_from(text.clone()).is_ok();
        [self.name, self.id].into_iter().find(is_folder)
    }
}

impl Labels {
    /// Returns the names as other actions take them, in order.
    pub(super) fn names(self) -> Vec<String> {
        let names = self.labels.into_iter().filter_map(Label::taken);
        let mut names: Vec<String> = names.chain([ALL_MAIL.to_owned()]).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the id of a label by its name or its id.
    fn id(self, folder: &str) -> Option<String> {
        let by_id = self.labels.iter().find(|label| label.id == folder);
        let found = by_id.or_else(|| self.labels.iter().find(|label| label.name == folder));
        found.map(|label| label.id.clone())
    }
}

impl Session {
    pub(super) async fn labels(&self) -> Result<Labels, Failure> {
        self.read(&self.url(&["labels"]), RESULT_BYTES_MAX).await
    }

    /// Returns the id of a folder's label; `None` for all messages.
    ///
    /// # Errors
    /// [`Failure`]; nothing was changed.
    pub(super) async fn label(&self, folder: &Folder) -> Result<Option<String>, Failure> {
        let folder = folder.as_str();
        if folder == ALL_MAIL {
            return Ok(None);
        }
        if [INBOX, SENT, DRAFT, TRASH, SPAM].contains(&folder) {
            return Ok(Some(folder.to_owned()));
        }
        let id = self.labels().await?.id(folder);
        let unknown = || Failure::Refused { message: "The account has no such folder. List the folders.".into() };
        id.map(Some).ok_or_else(unknown)
    }
}
