//! Operations of mixtures of experts. Part of the specification, like [`crate::ops`].

use crate::ops::{Act, Linear, Operand, Vector};

/// For each row of the step, up to `k` numbers out of some list, each with a weight: experts, or rows of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Picks(pub(crate) u32);

/// The experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Experts(pub(crate) u32);

/// A table from token id to expert ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenExperts(pub(crate) u32);

/// How router logits become expert weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Softmax over all experts (Qwen3).
    Softmax,
    /// `sqrt(softplus(logit))` (DeepSeek-V4).
    SqrtSoftplus,
}

/// Arguments of [`MoeOps::route`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// Router logits, one a column.
    pub logits: Act,
    /// Logits to scores.
    pub score: Score,
    /// Added to the scores for choosing only.
    pub bias: Option<Vector>,
    /// Experts by the row's token id, instead of the best scores.
    pub by_token: Option<TokenExperts>,
    /// Weights of the chosen are divided by their sum.
    pub normalize: bool,
    /// Then multiplied by this.
    pub factor: f32,
    /// The choice, by ascending expert number.
    pub out: Picks,
}

/// Arguments of [`MoeOps::run_experts`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunExperts {
    /// Input of the experts.
    pub x: Operand,
    /// Experts.
    pub experts: Experts,
    /// Which, and with what weight.
    pub picks: Picks,
    /// See [`crate::ops::Ops::linear_gated`].
    pub limit: Option<f32>,
    /// Results are added to this.
    pub out: Act,
}

/// Mixture of experts.
pub trait MoeOps {
    /// Allocates choices of `k` for every row.
    fn picks(&mut self, k: usize) -> Picks;
    /// Takes a table of `k` expert ids for each token id.
    fn token_experts(&mut self, ids: &[u32], k: usize) -> TokenExperts;
    /// Makes a layer of experts from pairs of gated linear and down projection, all of one shape.
    ///
    /// # Panics
    /// If shapes differ.
    fn experts(&mut self, pairs: &[(Linear, Linear)]) -> Experts;
    /// Chooses experts: the `k` largest of `score + bias` (the lower number of equals), or those of the token table.
    fn route(&mut self, args: &Route);
    /// `out[r] += sum_e weight_e * down_e . (silu(gate_e . x[r]) * (up_e . x[r]))`, experts ascending.
    fn run_experts(&mut self, args: &RunExperts);
    /// Shows the choices of the present step: rows of `k` numbers and weights; `u32::MAX` means none.
    fn read_picks(&self, picks: Picks) -> (&[u32], &[f32]);
}
