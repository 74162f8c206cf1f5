//! Everything below the host fails: its process, its system calls, its disk, its power. Nothing is lost, nothing is
//! unlogged, nothing happens twice, and everybody hears the truth.

mod checkers;
mod crash_points;
mod failing_calls;
mod floods;
mod full_disk;
mod power_cuts;
mod recording;
mod recovery;
mod withdrawals;
