//! Whole numbers in messages: serde names their types, people read their ranges.

/// Splits serde's ``invalid value: integer `-1`, expected u32`` into the value and the range of the type; `None` if the
/// message names no type of whole numbers.
///
/// ```
/// let (said, range) = shared::numbers::range_of("invalid value: integer `-1`, expected u32").unwrap();
/// assert_eq!((said, range.as_str()), ("invalid value: integer `-1`", "0 to 4294967295"));
/// assert_eq!(shared::numbers::range_of("invalid type: null, expected a string"), None);
/// ```
pub fn range_of(fault: &str) -> Option<(&str, String)> {
    let (said, name) = fault.rsplit_once(", expected ")?;
    let most = match name.split_once(' ').map_or(name, |(name, _place)| name) {
        "u8" => u64::from(u8::MAX),
        "u16" => u64::from(u16::MAX),
        "u32" => u64::from(u32::MAX),
        "u64" | "usize" => u64::MAX,
        _ => return None,
    };
    Some((said, format!("0 to {most}")))
}
