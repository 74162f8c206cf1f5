use kernel::{BatchWriter, Step, WriteError};

struct Writer;

impl BatchWriter<u8> for Writer {
    type FollowUps = ();

    fn write<'tx>(&mut self, tx: &store::Transaction<'tx>, event: u8) -> Result<Step<'tx, u8>, WriteError<u8>> {
        todo!()
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

fn main() {}
