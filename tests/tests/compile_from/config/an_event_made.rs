use engine::event::Event;

fn main() {}
