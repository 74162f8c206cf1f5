use secrets::Secrets;

fn all(secrets: &Secrets) -> Vec<String> {
    secrets.needles().map(|(_, text)| text.to_owned()).collect()
}

fn main() {}
