//! Values that other crates keep with an execution.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Values that go with one execution, by their types. A crate keeps a value under a type that only it can name.
#[derive(Clone, Default)]
pub struct Slots(Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>>);

impl Slots {
    /// Returns the value of this type. The first use makes it.
    pub fn get<T: Clone + Default + Send + 'static>(&self) -> T {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        value.downcast_ref::<T>().cloned().unwrap_or_default()
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots(…)")
    }
}
