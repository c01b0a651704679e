//! Any bytes from a MySQL server are an answer or an error. (PostgreSQL's protocol is read by crate `postgres` alone.)

pub fn run(bytes: &[u8]) {
    sql::db::fuzzing::answers(bytes).expect("a pair of sockets");
}
