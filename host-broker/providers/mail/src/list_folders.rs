//! `list_folders`.

use crate::failures::read;
use crate::{KEEPS, Mail};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};

/// The most names that one call returns.
const FOLDERS_MAX: usize = 500;

/// The parameters: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFolders {}

/// The folders of the account.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Folders {
    /// Their names, as other actions take them. Other characters than ASCII are in modified UTF-7 (RFC 3501).
    folders: Vec<String>,
    /// Whether there are more.
    has_more: bool,
}

impl NativeAction for ListFolders {
    type Shared = Mail;
    type Facts = ();
    type Output = Folders;

    const NAME: &'static str = "list_folders";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Lists the folders of the mail account.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = Exposure { sensitive: true, ..KEEPS };

    fn summary(&self) -> String {
        "list the mail folders".to_owned()
    }

    fn guard(&self, _mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Folders, String), Failure> {
        read(execution, async {
            let mut mailbox = mail.mailbox(execution).await?;
            let (folders, has_more) = mailbox.folders(FOLDERS_MAX).await?;
            mailbox.close().await;
            let summary = format!("{} mail folders", folders.len());
            Ok((Folders { folders, has_more }, summary))
        })
        .await
    }
}
