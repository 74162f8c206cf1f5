//! The state that all actions of `files` share: the rules, and the way to each group's workspace.
//!
//! Nothing is held open between two calls, so that a call always uses the present workspace, also a recreated one.

use crate::apply::{Journal, Recovered, recover, unwatched};
use crate::rules::PathRules;
use crate::settings::Settings;
use crate::workspace::{FileError, Workspace};
use model::{Random, Refusal, WorkspacePath};
use provider::contract::{Execution, Failure};
use provider::native::SharedState;
use shared::{Code, Group};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The state that all actions share.
#[derive(Clone)]
pub(super) struct FilesContext {
    pub(super) settings: Arc<Settings>,
    /// For how long a person is asked about a proposal.
    pub(super) ttl: Duration,
    pub(super) rules: Arc<PathRules>,
    pub(super) ids: Arc<dyn Random>,
    spots: Arc<BTreeMap<Group, Spot>>,
}

impl SharedState for FilesContext {}

/// Where one group's files are.
pub(super) struct Spot {
    workspace: PathBuf,
    journal: PathBuf,
    /// Whether the unfinished changes of an earlier daemon were settled.
    settled: AtomicBool,
    /// One set of changes at a time.
    busy: Mutex<()>,
}

impl FilesContext {
    /// With these rules, for these groups. `expiry` is for how long people are asked where the settings do not say.
    pub(super) fn new(
        settings: Settings,
        expiry: Duration,
        rules: PathRules,
        ids: Arc<dyn Random>,
        spots: BTreeMap<Group, super::Spot>,
    ) -> Self {
        let spot = |place: super::Spot| Spot {
            workspace: place.workspace,
            journal: place.journal,
            settled: AtomicBool::new(false),
            busy: Mutex::new(()),
        };
        let spots = spots.into_iter().map(|(group, place)| (group, spot(place))).collect();
        let ttl = settings.hitl_ttl_seconds.map_or(expiry, Duration::from_secs);
        Self { settings: Arc::new(settings), ttl, rules: Arc::new(rules), ids, spots: Arc::new(spots) }
    }

    /// Does blocking work on a thread of its own, in the workspace of the calling group.
    ///
    /// # Errors
    /// The error of `work`, or that there is no workspace.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        execution: &Execution,
        work: impl FnOnce(&FilesContext, &Spot, &Workspace) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(group) = execution.group().cloned() else { return Err(nobodys()) };
        self.work_for(group, work).await
    }

    /// The same, for this group.
    pub(super) async fn work_for<T: Send + 'static>(
        &self,
        group: Group,
        work: impl FnOnce(&FilesContext, &Spot, &Workspace) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let context = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let spot = context.spots.get(&group).ok_or_else(nobodys)?;
            let workspace = spot.open(&group)?;
            work(&context, spot, &workspace)
        });
        // Work that has begun there cannot be stopped: its effect is asked for later.
        done.await.unwrap_or_else(|_died| Err(Failure::Unknown { message: "it was interrupted inside".into() }))
    }

    /// A path that an agent wrote, if it is one and nothing denies it.
    pub(super) fn path(&self, text: &str) -> Result<WorkspacePath, Refusal> {
        let path = WorkspacePath::new(text)
            .map_err(|fault| Refusal { code: fault.code(), reason: format!("The path is not valid: {fault}.") })?;
        match self.rules.check(&path) {
            Ok(()) => Ok(path),
            Err(breach) => Err(Refusal { code: breach.code(), reason: format!("The path is refused: {breach}.") }),
        }
    }
}

impl Spot {
    fn open(&self, group: &Group) -> Result<Workspace, Failure> {
        let workspace = Workspace::open(&self.workspace).map_err(|fault| {
            tracing::warn!(%group, path = %self.workspace.display(), %fault, "the workspace cannot be opened");
            let message = format!("the workspace of group '{group}' cannot be opened; ask the operator to make it");
            Failure::Refused { message }
        })?;
        if !self.settled.load(Ordering::Acquire) {
            let busy = self.alone();
            self.settle(&workspace, &busy)?;
        }
        Ok(workspace)
    }

    /// Waits until no other call changes this workspace.
    pub(super) fn alone(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles unfinished changes.
    ///
    /// # Errors
    /// [`Failure`]; nothing may be read as if it were whole.
    pub(super) fn settle(&self, workspace: &Workspace, _busy: &MutexGuard<'_, ()>) -> Result<(), Failure> {
        let recovered = recover(workspace, &self.journal()?, &mut unwatched);
        match recovered {
            Ok(Recovered::Nothing) => {}
            Ok(recovered) => tracing::warn!(?recovered, "an interrupted change in a workspace was completed or undone"),
            Err(unsettled) => {
                tracing::error!(%unsettled, "an interrupted change in a workspace cannot be completed or undone");
                let message = "earlier changes are halfway and could not be settled; ask the operator".to_owned();
                return Err(Failure::Refused { message });
            }
        }
        self.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// From now on, until it is settled again, nothing may be read as if it were whole.
    pub(super) fn unsettle(&self) {
        self.settled.store(false, Ordering::Release);
    }

    /// Returns the journal of the changes.
    pub(super) fn journal(&self) -> Result<Journal, Failure> {
        let failed = |fault: &dyn std::fmt::Display| {
            tracing::error!(path = %self.journal.display(), %fault, "the journal of a workspace cannot be used");
            Failure::Unavailable { message: "the journal of the workspace cannot be used; ask the operator".into() }
        };
        platform::home::make_private_directory(&self.journal).map_err(|error| failed(&error))?;
        Journal::open(&self.journal).map_err(|fault| failed(&fault))
    }
}

/// Returns a refusal with its code; one without a code of its own is the provider's failure.
pub(super) fn no(code: Code, reason: &dyn std::fmt::Display) -> Failure {
    if code == Code::ProviderFailed {
        Failure::Refused { message: reason.to_string() }
    } else {
        Failure::Guard(Refusal { code, reason: format!("Not done: {reason}.") })
    }
}

/// A file that was not read.
pub(super) fn unread(path: &str, fault: &FileError) -> Failure {
    let hint = if matches!(fault, FileError::NotText) { "; ask with encoding base64" } else { "" };
    no(fault.code(), &format!("`{path}`: {fault}{hint}"))
}

fn nobodys() -> Failure {
    Failure::Refused { message: "this caller has no workspace".into() }
}
