//! Parameters as rules see them: JSON Schema becomes the rules' types, and parameters become values of them.
//!
//! Parameters without such a type are left out and named, so that no rule relies on them.

use cedar_policy::RestrictedExpression;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The depth above which schemas are left out; a schema that contains itself has no end.
const DEPTH_MAX: usize = 16;

/// A type of the rules.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// `Bool`
    Bool,
    /// `Long`: 64 bits with a sign.
    Long,
    /// `String`
    Text,
    /// `Set<…>`: without order, and without duplicates.
    Set(Box<Shape>),
    /// `{…}`
    Record(Record),
}

/// The members of an object, by name.
pub(super) type Record = BTreeMap<String, Member>;

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    shape: Shape,
    required: bool,
    /// The value that the action uses where the member is absent, if that is known.
    default: Option<Value>,
}

/// A parameter, or a part of one, that rules cannot see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// The place: `/range/to`; `*` stands for each element, or for members that the schema does not name.
    pub place: String,
    /// The reason.
    pub why: &'static str,
}

/// A type, and whether `null` may stand in its place.
struct Seen {
    shape: Shape,
    nullable: bool,
}

struct Reading<'a> {
    root: &'a Value,
    fills_defaults: bool,
    unseen: Vec<Unseen>,
}

/// Returns the type of an action's parameters. With `fills_defaults` the action uses its schema's `default` where a
/// parameter is absent, so rules see that value.
pub(super) fn of_params(schema: &Value, fills_defaults: bool) -> (Record, Vec<Unseen>) {
    let mut reading = Reading { root: schema, fills_defaults, unseen: Vec::new() };
    let record = reading.record(schema, "", 0);
    (record, reading.unseen)
}

impl<'a> Reading<'a> {
    fn record(&mut self, schema: &'a Value, place: &str, depth: usize) -> Record {
        let required: Vec<&str> = words(schema.get("required")).collect();
        let mut record = Record::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let place = format!("{place}/{name}");
            match self.shape(property, &place, depth + 1) {
                Ok(seen) => {
                    let default = property.get("default").filter(|default| self.fills_defaults && !default.is_null());
                    // The action ignores a default that does not match this type.
                    let default = default.filter(|default| expression(&seen.shape, default).is_ok()).cloned();
                    let required = required.contains(&name.as_str()) && !seen.nullable;
                    record.insert(name.clone(), Member { shape: seen.shape, required, default });
                }
                Err(why) => self.unseen.push(Unseen { place, why }),
            }
        }
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            self.unseen.push(Unseen { place: format!("{place}/*"), why: "is not named by the schema" });
        }
        record
    }

    fn shape(&mut self, schema: &'a Value, place: &str, depth: usize) -> Result<Seen, &'static str> {
        if depth > DEPTH_MAX {
            return Err("is nested too deep");
        }
        let Some(object) = schema.as_object() else { return Err("may be anything") };
        if let Some(reference) = object.get("$ref") {
            let target = reference.as_str().and_then(|text| text.strip_prefix('#'));
            let target = target.and_then(|pointer| self.root.pointer(pointer));
            return self.shape(target.ok_or("refers to a schema that is not there")?, place, depth + 1);
        }
        if object.contains_key("type") {
            return self.typed(schema, place, depth);
        }
        if let Some(values) = constants(object) {
            return of_constants(&values);
        }
        match (object.get("anyOf").or_else(|| object.get("oneOf")), object.get("allOf")) {
            (Some(Value::Array(branches)), _) => self.one_of(branches, place, depth),
            (None, Some(Value::Array(all))) if all.len() == 1 => {
                all.first().map_or(Err("may be anything"), |only| self.shape(only, place, depth + 1))
            }
            (None, Some(_)) => Err("is put together from several schemas"),
            (Some(_), _) | (None, None) => Err("may be anything"),
        }
    }

    fn typed(&mut self, schema: &'a Value, place: &str, depth: usize) -> Result<Seen, &'static str> {
        let types: Vec<&str> = words(schema.get("type")).collect();
        let nullable = types.contains(&"null");
        let others: Vec<&str> = types.into_iter().filter(|word| *word != "null").collect();
        let [only] = others.as_slice() else { return Err("may be of several types") };
        let shape = match *only {
            "boolean" => Shape::Bool,
            "integer" => Shape::Long,
            "string" => Shape::Text,
            "array" => self.set(schema, place, depth)?,
            "object" => Shape::Record(self.record(schema, place, depth)),
            "number" => return Err("is a number that may have a fraction"),
            _ => return Err("is of an unknown type"),
        };
        Ok(Seen { shape, nullable })
    }

    fn set(&mut self, schema: &'a Value, place: &str, depth: usize) -> Result<Shape, &'static str> {
        if schema.get("prefixItems").is_some() {
            return Err("has elements of several types");
        }
        let items = schema.get("items").ok_or("has elements of any type")?;
        let element = self.shape(items, &format!("{place}/*"), depth + 1)?;
        if element.nullable { Err("has elements that may be null") } else { Ok(Shape::Set(Box::new(element.shape))) }
    }

    fn one_of(&mut self, branches: &'a [Value], place: &str, depth: usize) -> Result<Seen, &'static str> {
        let is_null = |branch: &&Value| branch.get("type").and_then(Value::as_str) == Some("null");
        let mut nullable = branches.iter().any(|branch| is_null(&branch));
        let mut found: Option<Shape> = None;
        for branch in branches.iter().filter(|branch| !is_null(branch)) {
            let seen = self.shape(branch, place, depth + 1)?;
            nullable |= seen.nullable;
            match &found {
                None => found = Some(seen.shape),
                Some(shape) if *shape == seen.shape => {}
                Some(_) => return Err("may be of several types"),
            }
        }
        Ok(Seen { shape: found.ok_or("may only be null")?, nullable })
    }
}

/// Returns the words of a string, or of an array of strings.
fn words(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (one, many) = match value {
        Some(Value::Array(all)) => (None, all.as_slice()),
        other => (other, [].as_slice()),
    };
    one.into_iter().chain(many).filter_map(Value::as_str)
}

fn constants(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only]),
        (None, Some(Value::Array(all))) => Some(all.iter().collect()),
        (None, _) => None,
    }
}

fn of_constants(values: &[&Value]) -> Result<Seen, &'static str> {
    let nullable = values.iter().any(|value| value.is_null());
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| value.is_null() || is(value));
    let shape = match () {
        () if all(Value::is_null) => return Err("may only be null"),
        () if all(Value::is_string) => Shape::Text,
        () if all(Value::is_boolean) => Shape::Bool,
        () if all(Value::is_i64) => Shape::Long,
        () => return Err("may be of several types"),
    };
    Ok(Seen { shape, nullable })
}

/// Returns the parameters as a record of the rules. Names that the type does not have are left out.
///
/// # Errors
/// The place of a value that does not fit. Parameters that fit their schema fit, except numbers beyond 64 bits.
pub(super) fn params(record: &Record, params: &Map<String, Value>) -> Result<RestrictedExpression, String> {
    let mut fields = Vec::with_capacity(record.len());
    for (name, member) in record {
        let given = params.get(name).filter(|value| !value.is_null()).or(member.default.as_ref());
        match given {
            Some(value) => {
                let value = expression(&member.shape, value).map_err(|below| format!("/{name}{below}"))?;
                fields.push((name.clone(), value));
            }
            None if member.required => return Err(format!("/{name}")),
            None => {}
        }
    }
    RestrictedExpression::new_record(fields).map_err(|_twice| String::new())
}

fn expression(shape: &Shape, value: &Value) -> Result<RestrictedExpression, String> {
    let unfit = String::new;
    match shape {
        Shape::Bool => value.as_bool().map(RestrictedExpression::new_bool).ok_or_else(unfit),
        Shape::Long => whole(value).map(RestrictedExpression::new_long).ok_or_else(unfit),
        Shape::Text => value.as_str().map(|text| RestrictedExpression::new_string(text.to_owned())).ok_or_else(unfit),
        Shape::Set(element) => {
            let elements = value.as_array().ok_or_else(unfit)?.iter().map(|value| expression(element, value));
            Ok(RestrictedExpression::new_set(elements.collect::<Result<Vec<_>, _>>()?))
        }
        Shape::Record(record) => params(record, value.as_object().ok_or_else(unfit)?),
    }
}

/// Returns an integer. JSON Schema accepts `7.0` as one.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let text = value.as_f64().filter(|number| number.fract() == 0.0)?.to_string();
        text.parse().ok()
    })
}

/// Writes the type in the form of the rules' schema.
pub(super) fn written(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({ "type": "Boolean" }),
        Shape::Long => json!({ "type": "Long" }),
        Shape::Text => json!({ "type": "String" }),
        Shape::Set(element) => json!({ "type": "Set", "element": written(element) }),
        Shape::Record(record) => written_record(record),
    }
}

/// Writes the same for an object's members.
pub(super) fn written_record(record: &Record) -> Value {
    let member = |(name, member): (&String, &Member)| {
        let mut written = written(&member.shape);
        if let Some(object) = written.as_object_mut() {
            object.insert("required".into(), (member.required || member.default.is_some()).into());
        }
        (name.clone(), written)
    };
    let attributes: Map<String, Value> = record.iter().map(member).collect();
    json!({ "type": "Record", "attributes": attributes })
}
