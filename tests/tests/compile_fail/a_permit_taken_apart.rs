use kernel::authorize::Authorized;

fn take(authorized: Authorized<'_>) {
    let (_effect, _obligations) = authorized.into_parts();
}

fn main() {}
