//! End to end: what the product promises, seen from outside. One promise a file.

mod aborts;
mod concurrency;
mod faults;
mod hostile;
mod openai_client;
mod pair;
mod plugin_new;
mod promises;
mod replacement;
mod tool_calls;
mod tune;
mod workers;

/// A runtime for one test's client side; an error fails the test.
fn block_on<T>(test: impl Future<Output = anyhow::Result<T>>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(test).unwrap_or_else(|error| panic!("{error:#}"))
}

/// A request with one user message.
fn ask(model: &str, message: &str) -> serde_json::Value {
    serde_json::json!({"model": model, "messages": [{"role": "user", "content": message}]})
}
