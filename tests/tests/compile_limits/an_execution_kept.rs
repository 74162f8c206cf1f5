// An execution that somebody owns can be kept after its call.
use kernel::execution::Execution;

struct Kept(Vec<Execution>);

impl Kept {
    fn keep(&mut self, execution: Execution) {
        self.0.push(execution);
    }
}

fn main() {}
