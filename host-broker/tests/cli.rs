//! The real program on temporary homes: what people type, wrong input first.

#[cfg(test)]
mod cli {
    mod world;

    mod access;
    mod backup;
    mod calls;
    mod checkpoints;
    mod daemon;
    mod doctor;
    mod evidence;
    mod first_steps;
    mod fleet;
    mod groups;
    mod home;
    mod logs;
    mod metrics;
    mod notices;
    mod people;
    mod presets;
    mod profiles;
    mod rotation;
    mod rows;
    mod rules;
    mod safety;
    mod scrub;
    mod service;
    mod shell;
    mod sinks;
    mod traces;
    mod verification;
    mod views;
    mod web;
}
