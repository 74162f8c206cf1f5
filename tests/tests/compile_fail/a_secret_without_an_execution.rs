use secrets::Secret;

fn read(secret: &Secret) -> &str {
    secret.expose()
}

fn main() {}
