//! `list_services`: whose logs there are.

use crate::Logs;
use crate::backend;
use crate::backend::{Access, Source, Sources};
use crate::search::Skipped;
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::numbers::counted;
use shared::{Level, Timestamp};

/// It has no parameters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListServices {}

/// Sources by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServiceList {
    /// The services.
    pub(crate) services: Vec<Source>,
    /// Logs that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<Skipped>,
}

impl ListServices {
    /// Lists.
    ///
    /// # Errors
    /// [`Failure`]; nothing is ever changed.
    pub(crate) async fn list(&self, logs: &Logs, access: Access) -> Result<ServiceList, Failure> {
        let Sources { services, skipped, has_unlisted: _ } = backend::services_of_all(&logs.backends, access).await?;
        Ok(ServiceList { services, skipped })
    }
}

impl NativeAction for ListServices {
    type Shared = Logs;
    type Facts = ();
    type Output = ServiceList;

    const NAME: &'static str = "list_services";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Lists the services whose logs can be queried, with the time of their first and \
        last entry where it is cheap to tell.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = crate::EXPOSES;

    fn summary(&self) -> String {
        "list services with logs".into()
    }

    fn guard(&self, _shared: &Logs, _facts: Option<&()>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    async fn run(
        self,
        shared: &Logs,
        _facts: Option<()>,
        execution: &Execution,
    ) -> Result<(ServiceList, String), Failure> {
        let list = self.list(shared, shared.access(execution)).await?;
        let summary = counted(list.services.len(), "service", "services");
        Ok((list, summary))
    }
}
