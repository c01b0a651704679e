//! Any bytes in a journal's file give its entries or an error; lines that cannot be read are counted.

pub fn run(bytes: &[u8]) {
    journal::fuzzing::read(bytes);
}
