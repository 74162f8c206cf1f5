//! The required approvals of a group, by provider, level and action: its profile.
//!
//! A level bounds the actions of a group; the tier names the approval that each call needs. An action's own tier is the
//! minimum, independent of the profile.

use model::Patterns;
use model::Treatment;
use model::WorkspacePath;
use model::{Declaration, Destination, DestinationKind, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use shared::{Action, Group, Level, Provider};
use std::collections::BTreeMap;

/// The approval that a profile requires for a level or an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// No approval.
    Auto,
    /// The rules decide.
    Rules,
    /// A person approves each call.
    Human,
    /// No call is permitted.
    Off,
}

/// The profile of one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderProfile {
    /// The mode of the provider's reading actions; absent means that of the group.
    pub read: Option<ApprovalMode>,
    /// The mode of the provider's writing actions; absent means that of the group.
    pub write: Option<ApprovalMode>,
    /// The mode of the provider's production actions; absent means that of the group.
    pub production: Option<ApprovalMode>,
    /// The modes of single actions, which take precedence over those of levels.
    pub actions: BTreeMap<Action, ApprovalMode>,
    /// The treatment of results with the verdict `suspicious`; absent means that of `[inspection]`.
    pub suspicious: Option<Treatment>,
    /// The treatment of results with the verdict `hostile`; absent means that of `[inspection]`.
    pub hostile: Option<Treatment>,
    /// The reason why this provider's actions can complete the trifecta without a person: private data, untrusted
    /// content and an egress channel. Absent means that they cannot.
    pub trifecta_off: Option<String>,
    /// The destinations that are the owner's own: an address, a calendar, a repository. A call that sends data to these
    /// alone has no egress channel.
    pub own: Vec<String>,
    /// The mode of changes to paths, for providers of files: `auto` or `human`. The strictest matching pattern applies;
    /// without a match the mode is `human`. A pattern covers the path that it names and everything below. With `auto`,
    /// a pattern matches at the root only, unless it begins with `**/`.
    pub paths: BTreeMap<String, ApprovalMode>,
}

/// One group's profile. Reads without a line are `auto`; writes and production actions are `human`. A group without a
/// profile is like a group with an empty one.
///
/// ```toml
/// write = "human"
///
/// [providers.github]
/// write = "rules"
/// actions = { create_issue = "auto", merge_pr = "off" }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// The mode of reading actions of providers without their own line; absent means `auto`.
    pub read: Option<ApprovalMode>,
    /// The mode of writing actions of providers without their own line; absent means `human`.
    pub write: Option<ApprovalMode>,
    /// The mode of production actions of providers without their own line; absent means `human`.
    pub production: Option<ApprovalMode>,
    /// The profiles of single providers.
    pub providers: BTreeMap<Provider, ProviderProfile>,
}

/// The profile that `init` and `group add` write for a group: the strict one, spelled out. An operator relaxes it only
/// with an explicit line.
pub const STARTING: &str = "\
# Who must agree each time this group acts. Per level or per action:
#   auto   nobody     rules  the rules     human  a person     off  not at all
# Actions that this file does not name: reads are auto, writes and production actions are human.
# A grant says what the group may do at all; this file never adds to it.
write = \"human\"
production = \"human\"

# [providers.github]
# write = \"rules\"
# actions = { create_issue = \"auto\", merge_pr = \"off\" }
";

/// The profiles, by group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles(BTreeMap<Group, Profile>);

impl Profile {
    /// Returns the setting for a call of this action that demands this level.
    pub fn setting(&self, declaration: &Declaration, demanded: Level) -> ApprovalMode {
        let posture = self.providers.get(&declaration.provider);
        let of_level = |level: Level| {
            let (own, common) = match level {
                Level::None | Level::Read => (posture.and_then(|posture| posture.read), self.read),
                Level::Write => (posture.and_then(|posture| posture.write), self.write),
                Level::Production => (posture.and_then(|posture| posture.production), self.production),
            };
            own.or(common).unwrap_or_else(|| by_level(level))
        };
        let named = posture.and_then(|posture| posture.actions.get(&declaration.action).copied());
        let setting = match named {
            // SECURITY: a setting for an action holds for the action's own level. It does not relax a call that demands
            // more, such as one at a production branch.
            Some(named) if demanded > declaration.level => named.max(of_level(demanded)),
            Some(named) => named,
            None => of_level(demanded),
        };
        let least = match declaration.tier {
            None | Some(Tier::Auto) => ApprovalMode::Auto,
            Some(Tier::Rules) => ApprovalMode::Rules,
            Some(Tier::Human) => ApprovalMode::Human,
        };
        match setting.max(least) {
            // The call changes nothing. The change needs the approval when it is made.
            ApprovalMode::Rules | ApprovalMode::Human if declaration.proposes => ApprovalMode::Auto,
            setting @ (ApprovalMode::Auto | ApprovalMode::Rules | ApprovalMode::Human | ApprovalMode::Off) => setting,
        }
    }
}

/// SECURITY: absence is the strict case. `rules` is always an explicit line.
fn by_level(level: Level) -> ApprovalMode {
    match level {
        Level::None | Level::Read => ApprovalMode::Auto,
        Level::Write | Level::Production => ApprovalMode::Human,
    }
}

impl Profiles {
    /// Makes profiles from these. A group without one has the strict profile, [`Profile::default`].
    pub fn new(profiles: BTreeMap<Group, Profile>) -> Self {
        Self(profiles)
    }

    /// Returns the strictest mode of changes to these paths; it is `auto` only if every path is.
    pub fn of_paths(&self, group: &Group, provider: &Provider, paths: &[WorkspacePath]) -> ApprovalMode {
        let posture = self.0.get(group).and_then(|profile| profile.providers.get(provider));
        let lines = posture.map(|posture| &posture.paths);
        let of_path = |path: &WorkspacePath| {
            let fitting = lines.into_iter().flatten().filter(|(pattern, setting)| match setting {
                // SECURITY: the relaxation covers the named path only, not equal names further down or in other letter
                // case.
                ApprovalMode::Auto => Patterns::exactly(pattern).is_ok_and(|pattern| pattern.means_exactly(path)),
                ApprovalMode::Rules | ApprovalMode::Human | ApprovalMode::Off => {
                    Patterns::new([pattern.as_str()]).is_ok_and(|pattern| pattern.means(path))
                }
            });
            fitting.map(|(_, setting)| *setting).max().unwrap_or(ApprovalMode::Human)
        };
        paths.iter().map(of_path).max().unwrap_or(ApprovalMode::Human)
    }

    /// Returns whether the group's calls to the provider may complete the trifecta without a person.
    pub fn waives(&self, group: &Group, provider: &Provider) -> bool {
        let posture = self.0.get(group).and_then(|profile| profile.providers.get(provider));
        posture.is_some_and(|posture| posture.trifecta_off.is_some())
    }

    /// Returns whether all of these destinations are the owner's own. No destination at all is not.
    pub fn own(
        &self,
        group: &Group,
        provider: &Provider,
        (kind, destinations): (DestinationKind, &[Destination]),
    ) -> bool {
        let posture = self.0.get(group).and_then(|profile| profile.providers.get(provider));
        let own = posture.map(|posture| posture.own.as_slice()).unwrap_or_default();
        let is_own =
            |destination: &Destination| own.iter().any(|own| kind.read(own).is_some_and(|own| own == *destination));
        !destinations.is_empty() && destinations.iter().all(is_own)
    }

    /// Returns the treatments of the provider's suspicious results and of its hostile ones.
    pub fn treatments(&self, group: Option<&Group>, provider: &Provider) -> (Option<Treatment>, Option<Treatment>) {
        let posture = group.and_then(|group| self.0.get(group)?.providers.get(provider));
        posture.map_or((None, None), |posture| (posture.suspicious, posture.hostile))
    }

    /// Returns every provider for which the step is switched off, with the reason.
    pub fn waivers(&self) -> impl Iterator<Item = (&Group, &Provider, &str)> {
        self.0.iter().flat_map(|(group, profile)| {
            let lines = profile.providers.iter();
            lines.filter_map(move |(provider, posture)| Some((group, provider, posture.trifecta_off.as_deref()?)))
        })
    }

    /// Returns a digest of all profiles.
    pub fn version(&self) -> Digest {
        Digest::of(&shared::json::canonical(&self.0))
    }

    /// Returns the setting for a call of this group. A caller without a group has the strict profile.
    pub fn setting(&self, group: Option<&Group>, declaration: &Declaration, demanded: Level) -> ApprovalMode {
        match group.and_then(|group| self.0.get(group)) {
            Some(profile) => profile.setting(declaration, demanded),
            None => Profile::default().setting(declaration, demanded),
        }
    }
}

impl ApprovalMode {
    /// Returns the tier, unless it is off.
    pub fn tier(self) -> Option<Tier> {
        match self {
            Self::Auto => Some(Tier::Auto),
            Self::Rules => Some(Tier::Rules),
            Self::Human => Some(Tier::Human),
            Self::Off => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declaration(action: &str, level: Level, tier: Option<Tier>) -> Declaration {
        Declaration { tier, ..Declaration::new("github".parse().unwrap(), action.parse().unwrap(), level) }
    }

    fn setting(profile: &str, declared: &Declaration, demanded: Level) -> ApprovalMode {
        toml::from_str::<Profile>(profile).unwrap().setting(declared, demanded)
    }

    #[test]
    fn the_narrowest_line_decides_and_without_a_line_the_level_does() {
        let [read, write, production] = [Level::Read, Level::Write, Level::Production];
        let of = |profile: &str, level| setting(profile, &declaration("a", level, None), level);
        assert_eq!(
            [read, write, production].map(|level| of("", level)),
            [ApprovalMode::Auto, ApprovalMode::Human, ApprovalMode::Human]
        );
        assert_eq!(of("write = 'rules'", write), ApprovalMode::Rules);
        assert_eq!(of("[providers.github]\nactions = { b = 'auto' }", write), ApprovalMode::Human);
        assert_eq!(of("write = 'human'\n[providers.other]\nwrite = 'auto'", write), ApprovalMode::Human);
        assert_eq!(of("write = 'human'\n[providers.github]\nwrite = 'auto'", write), ApprovalMode::Auto);
        assert_eq!(of("[providers.github]\nwrite = 'auto'\nactions = { a = 'off' }", write), ApprovalMode::Off);
        assert_eq!(of("[providers.github]\nproduction = 'auto'", production), ApprovalMode::Auto);
    }

    #[test]
    fn a_group_without_a_profile_is_held_like_one_with_the_starting_profile() {
        let starting: Profile = toml::from_str(STARTING).unwrap();
        let group: Group = "developer".parse().unwrap();
        let profiles = Profiles::default();
        for level in [Level::Read, Level::Write, Level::Production] {
            let declared = declaration("a", level, None);
            let strict = starting.setting(&declared, level);
            assert_eq!(profiles.setting(Some(&group), &declared, level), strict, "without a profile, {level:?}");
            assert_eq!(profiles.setting(None, &declared, level), strict, "without a group, {level:?}");
            assert_eq!(Profile::default().setting(&declared, level), strict, "an empty one, {level:?}");
        }
    }

    #[test]
    fn an_actions_own_tier_is_the_least() {
        let delete = declaration("delete", Level::Write, Some(Tier::Human));
        assert_eq!(
            setting("[providers.github]\nactions = { delete = 'auto' }", &delete, Level::Write),
            ApprovalMode::Human
        );
        assert_eq!(
            setting("[providers.github]\nactions = { delete = 'off' }", &delete, Level::Write),
            ApprovalMode::Off
        );
    }

    #[test]
    fn a_line_for_an_action_does_not_relax_a_call_that_demands_more() {
        let create = declaration("create_pr", Level::Write, None);
        let profile = "[providers.github]\nactions = { create_pr = 'auto' }";
        assert_eq!(setting(profile, &create, Level::Write), ApprovalMode::Auto);
        assert_eq!(setting(profile, &create, Level::Production), ApprovalMode::Human);
    }
}
