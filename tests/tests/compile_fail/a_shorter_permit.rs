use kernel::authorize::Authorized;

fn shorter<'long: 'short, 'short>(authorized: Authorized<'long>) -> Authorized<'short> {
    authorized
}

fn main() {}
