//! The policy of the operators, as the decision uses it.

use crate::ApprovesTable;
use crate::approvals::ApprovalsTable;
use crate::flows::FlowsTable;
use model::Publication;
use policy::limits::Limits;
use policy::profile::Profiles;
use policy::shared_quotas::SharedQuotas;
use rules::Rules;
use shared::digest::Digest;
use shared::{Gate, Provider};
use std::collections::BTreeMap;

/// The policy of the operators, beside the stored grants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The number of different approvers of each gate.
    pub quorum: BTreeMap<Gate, usize>,
    /// The profiles of the groups.
    pub profiles: Profiles,
    /// The rules, for the calls that the profiles leave to rules.
    pub rules: Rules,
    /// The limits of the groups.
    pub limits: Limits,
    /// The quotas that all groups share.
    pub shared_quotas: SharedQuotas,
    /// The flows, and the tools of external agents.
    pub flows: FlowsTable,
    /// The digest of each provider's settings: an approval for one endpoint does not hold for another.
    pub settings: BTreeMap<Provider, Digest>,
    /// The settings of approval requests: a standing approval ends with what they allow.
    pub approvals: ApprovalsTable,
    /// The calls that each person can approve: a standing approval ends with the right of its approver.
    pub approvers: BTreeMap<String, ApprovesTable>,
    /// The publication that profiles and rules are from; absent, they are from the home.
    pub publication: Option<Publication>,
}
