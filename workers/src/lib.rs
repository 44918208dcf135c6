//! Engines in processes of their own: the worker's service, and the pool that a gateway keeps of them.
//!
//! ```text
//! gateway ── pool ══ session (gRPC) ══► worker: decode ◄══ pages (transfer link) ══ worker: prefill
//!                 ╚═════════ session (gRPC) ═══════════════════════════════════════════╝
//! ```
//!
//! The gateway chooses a prefill and a decode worker for each request, names the pair's transfer, and tells the decode
//! worker alone: it asks the prefill worker for the pages. So there is one leg to leave and to lose, and nobody can be
//! stranded between two. A request whose worker is lost goes on elsewhere, behind the output that its client has.

mod pool;
mod serve;
mod session;
mod tls;
mod wire;

pub use pool::{Expected, PoolConfig, Pooled, Standing, WorkerPool, WorkerStatus};
pub use serve::{Door, Grammars, ServeError, Worker};
pub use wire::Role;
