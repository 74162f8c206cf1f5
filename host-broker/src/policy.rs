//! Who may do what, and who must be asked.
//!
//! [`facts`] are gathered in the transaction in which the intent will be written; [`decide`] judges them without
//! clock, I/O or randomness; [`authorize`] turns a permit into the value without which no intent can be written.
//! [`explain`] shows the same judgement to a person.

pub mod authorize;
pub mod decide;
pub mod explain;
pub mod facts;
pub mod profile;
pub mod rules;
