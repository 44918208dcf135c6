//! How each kernel is launched: grid, block, shared memory and parameters, from shapes and addresses alone.

mod attention;
mod gemm;
mod hyper;
mod moe;
mod rope;
mod rows;
mod sample;
mod sparse_attend;
mod sparse_rows;

pub use attention::{
    AttentionAt, HEAD_DIMS, QueryRows, Spread, Tile, TilesAt, UNIT, attention, attention_merge, partial_numbers, tiles,
};
pub use gemm::{Finish, Fp4At, TileRows, WeightsAt, gemm, gemm_f32, gemm_w4a4, quantize_nvfp4};
pub use hyper::{MOST_STREAMS, MixBy, hyper_head, hyper_post, hyper_pre};
pub use moe::{ExpertsAt, ListsAt, MOST_EXPERTS, PicksAt, RouteBy, combine_experts, gemm_experts, list_experts, route};
pub use rope::{HeadGains, KvPlace, RopeRows, StepAt, rope_append};
pub use rows::{argmax, convert, embed, embed_nvfp4, gather_rows, rms_norm, silu_up};
pub use sample::{AdjustBy, SampleWish, adjust_logits, sample};
pub use sparse_attend::{ScoresAt, SparseAt, select, sparse_attention};
pub use sparse_rows::{
    CompressAt, ExtentsAt, RingPlace, RowsPlace, StoreCode, compress, finish_rows, keep_rows, rotate_tails,
};
