use kernel::OpenChannel;

fn forge(name: String) -> OpenChannel {
    OpenChannel(name)
}

fn main() {}
