//! `list_folders`.

use crate::backend::Mailbox;
use crate::read::Read;
use crate::{KEEPS, Mail};
use model::Exposure;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most names that one call returns.
const FOLDERS_MAX: usize = 500;

/// The parameters: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFolders {}

/// The folders of the account.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Folders {
    /// Their names, as other actions take them. Over IMAP, other characters than ASCII are in modified UTF-7 (RFC 3501).
    folders: Vec<String>,
    /// Whether there are more.
    has_more: bool,
}

impl Read for ListFolders {
    type Output = Folders;

    const NAME: &'static str = "list_folders";
    const DESCRIPTION: &'static str = "Lists the folders of the mail account.";
    const EXPOSES: Exposure = Exposure { sensitive: true, ..KEEPS };

    fn summary(&self) -> String {
        "list the mail folders".to_owned()
    }

    async fn perform(self, _mail: &Mail, mailbox: &mut Mailbox) -> Result<(Folders, String), Failure> {
        let (folders, has_more) = mailbox.folders(FOLDERS_MAX).await?;
        let summary = format!("{} mail folders", folders.len());
        Ok((Folders { folders, has_more }, summary))
    }
}
