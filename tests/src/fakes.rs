//! A clock that stands still until the test moves it, and randomness that is the same every time.

use model::Clock;
use model::NoRandomness;
use model::Random;
use platform::clock::SystemClock;
use shared::Timestamp;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A clock that the test sets, and the time that has really passed for it.
#[derive(Debug)]
pub struct FakeClock {
    wall: AtomicI64,
    passed: AtomicU64,
}

impl FakeClock {
    /// Stands at this time.
    pub fn at(time: Timestamp) -> Self {
        Self { wall: AtomicI64::new(time.millis()), passed: AtomicU64::new(0) }
    }

    /// Moves forward, because time passes.
    pub fn advance(&self, by: Duration) {
        let millis = by.as_millis();
        self.passed.fetch_add(u64::try_from(millis).unwrap(), Ordering::SeqCst);
        self.wall.fetch_add(i64::try_from(millis).unwrap(), Ordering::SeqCst);
    }

    /// Is set to a time, which may be in the past; no time passes.
    pub fn set(&self, time: Timestamp) {
        self.wall.store(time.millis(), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::SeqCst))
    }
}

/// The time of the machine's clock.
pub fn real_now() -> Timestamp {
    SystemClock.now()
}

/// The same bytes for the same test, and never the same twice within it.
#[derive(Debug)]
pub struct CountedRandom {
    seed: u64,
    count: AtomicU64,
}

impl CountedRandom {
    /// Bytes that follow from this name.
    pub fn of(name: &str) -> Self {
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { seed, count: AtomicU64::new(0) }
    }

    /// The next eight bytes.
    pub fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::SeqCst);
        // SplitMix64.
        let mut mixed = self.seed.wrapping_add(count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&self, limit: u64) -> u64 {
        self.next() % limit
    }
}

impl Random for CountedRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }
}
