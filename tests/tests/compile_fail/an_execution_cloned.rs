use kernel::execution::Execution;

fn twice(execution: &Execution) -> Execution {
    Clone::clone(execution)
}

fn main() {}
