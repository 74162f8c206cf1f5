//! Objects and lists under the name of a credential. They keep their form: only their strings and numbers are replaced,
//! and not those that describe the credential, say where it is, or belong to a package of the same name.

use super::pairs::Part;
use crate::values;
use secrets::names::{self, Sort};

/// The words with which JSON Schema describes a value. Those that hold a value (`default`, `const`, `enum`, `examples`)
/// are not among them.
const DESCRIBING: [&str; 20] = [
    "$ref",
    "$comment",
    "type",
    "title",
    "description",
    "markdownDescription",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "required",
    "nullable",
    "deprecated",
    "readOnly",
    "writeOnly",
    "sensitive",
];

/// The words with which it puts several descriptions together.
const COMBINING: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Members that explain their object to a reader.
const EXPLAINING: [&str; 6] = ["title", "description", "label", "help", "comment", "placeholder"];

/// Beginnings and ends of the only name in an object that says where a value is: `{"get_secret": "…"}`,
/// `{"secretKeyRef": {…}}`.
const REFERRING: [&str; 5] = ["get_", "Fn::", "from_", "fromS", "fromE"];
const REFERRED: [&str; 7] = ["Ref", "$ref", "_ref", "ref", "From", "_from", "get"];

/// How a value is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// As one of the name over it: anything is a credential.
    ByName,
    /// By its look.
    ByLook,
    /// As if no such name were over it.
    Apart,
}

impl Judged {
    /// Returns whether a text may stay. One that is judged by its name may not.
    pub(super) fn spares(self, text: &str) -> bool {
        match self {
            Self::ByName => false,
            Self::ByLook => !looks_secret(text),
            Self::Apart => true,
        }
    }
}

/// The object of which a value is a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Schema,
    /// How OpenAPI says in which header a key is sent.
    Scheme,
    Reference,
    Package,
    Other,
}

impl Inside {
    /// Returns which kind of object has these members.
    pub(super) fn of<T: Part>(members: &[(&str, &T)]) -> Self {
        let has = |name: &str| members.iter().any(|(other, _)| *other == name);
        let is_versioned =
            || members.iter().any(|(name, member)| *name == "version" && member.text().is_some_and(is_version));
        let refers = |name: &str| {
            REFERRING.iter().any(|start| name.starts_with(start)) || REFERRED.iter().any(|end| name.ends_with(end))
        };
        if is_security_scheme(members) {
            Self::Scheme
        } else if says_type(members) {
            Self::Schema
        } else if let [(name, _)] = members
            && refers(name)
        {
            Self::Reference
        } else if is_versioned() && (has("resolved") || has("integrity")) {
            Self::Package
        } else {
            Self::Other
        }
    }

    /// Returns how a member is judged, if its object is judged so.
    pub(super) fn judged<T: Part>(self, name: &str, member: &T, judged: Judged) -> Judged {
        let is_prose = || EXPLAINING.contains(&name) && member.text().is_some_and(|text| text.contains(' '));
        let judged = match self {
            Self::Package | Self::Scheme => Judged::Apart,
            Self::Schema if DESCRIBING.contains(&name) => Judged::Apart,
            Self::Reference => Judged::ByLook,
            Self::Other if judged == Judged::ByName && is_prose() => Judged::ByLook,
            Self::Schema | Self::Other => judged,
        };
        // A name of its own says more.
        if judged == Judged::ByLook && names::whole(name).is_some() { Judged::ByName } else { judged }
    }
}

/// Returns whether this is how OpenAPI says in which header, query or cookie a key is sent.
fn is_security_scheme<T: Part>(members: &[(&str, &T)]) -> bool {
    let is = |name: &str, words: &[&str]| {
        members.iter().any(|(other, member)| *other == name && member.text().is_some_and(|text| words.contains(&text)))
    };
    is("type", &["apiKey"])
        && is("in", &["header", "query", "cookie"])
        && members.iter().all(|(name, _)| matches!(*name, "type" | "in" | "name" | "description"))
}

/// Returns whether this is no value of the member but a schema for one: `"password": {"type": "string"}` in an API's
/// description.
fn says_type<T: Part>(members: &[(&str, &T)]) -> bool {
    let is_type = |member: &T| member.text().is_some_and(|name| name.parse::<jsonschema::JsonType>().is_ok());
    let are_types = |member: &T| is_type(member) || !member.items().is_empty() && member.items().iter().all(is_type);
    let mut types = members.iter().filter(|(name, _)| *name == "type").peekable();
    if types.peek().is_some() {
        return types.all(|(_, member)| are_types(member));
    }
    let is_fragment = |place: &str| place.starts_with("#/") || place.contains(".json#/");
    let says = |item: &T| item.members().is_some_and(|members| says_type(&members));
    members.iter().any(|(name, member)| match *name {
        "$ref" => member.text().is_some_and(is_fragment),
        name => COMBINING.contains(&name) && !member.items().is_empty() && member.items().iter().all(says),
    })
}

/// Returns whether this is the version of a package such as `cookie`, on which half of the web's servers depend.
///
/// A browser's cookie is never one.
pub(super) fn is_version(text: &str) -> bool {
    let version = text.strip_prefix(['^', '~']).unwrap_or(text);
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    version.split('.').count() == 3 && version.split('.').all(is_number)
}

/// Returns whether a text looks like a password or a key.
pub(super) fn looks_secret(text: &str) -> bool {
    values::in_json(text, Sort::Password) || values::in_json(text, Sort::Key)
}
