//! Filter.
pub mod finished;
/// Rules
pub struct Rules;
/// Cleaned
pub struct Cleaned {
    /// d
    pub data: Option<serde_json::Value>,
    /// n
    pub notices: Vec<shared::reply::Notice>,
}
impl Rules {
    /// c
    pub fn clean(&self, data: serde_json::Value) -> Cleaned {
        Cleaned { data: Some(data), notices: Vec::new() }
    }
    /// t
    pub fn clean_text(&self, t: &str) -> String {
        t.to_owned()
    }
}
