//! The kinds of providers. A new kind is a crate in `host-broker/providers/` and one line here.

use provider::kind::ProviderKind;

/// Every kind, by the value of `kind` in the configuration.
pub const KINDS: &[&dyn ProviderKind] = &[
    provider_mock::KIND,
    provider_github::KIND,
    provider_cloud_logs::KIND,
    provider_files::KIND,
    provider_mail::KIND,
    provider_calendar::KIND,
    provider_passwords::KIND,
    provider_bridge::KIND,
    provider_mcp::KIND,
];
