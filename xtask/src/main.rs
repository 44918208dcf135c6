//! Set-up, build and test tasks.

fn main() {}
