//! Compiles the control protocol. Protox parses it, so that nobody has to install protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/worker.proto");
    let files = protox::compile(["proto/worker.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
