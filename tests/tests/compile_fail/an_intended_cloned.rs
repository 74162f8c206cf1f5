use kernel::Intended;

fn twice(intended: &Intended) -> Intended {
    Clone::clone(intended)
}

fn main() {}
