//! Models against numbers that an independent implementation computed: see `tests/golden/README.md`.

mod chunks;
mod drive;
mod fast;
mod golden;
mod oracle;
mod smollm2;
mod tools;
