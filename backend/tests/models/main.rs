//! Models against numbers that an independent implementation computed: see `tests/golden/README.md`.

mod chunks;
mod compressed;
mod draws;
mod drive;
mod fast;
mod golden;
mod intermediates;
mod load;
mod mtp;
mod oracle;
mod probe;
mod smollm2;
mod tools;
