//! Mixture of experts: a router, routed experts, and where the architecture has one, a shared expert.

use sluicegate_kernels::moe::{Experts, Route, RunExperts, Score};
use sluicegate_kernels::ops::{Act, Linear, Operand, Ops, Rows};

use super::decoder::FeedForward;
use super::{LoadError, matrix, named};
use crate::weights::{self, Loader};

/// Gate, up and down projection of an expert.
pub type ExpertWeights = [weights::Linear; 3];

/// How experts are chosen and run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoeRule {
    /// Logits to scores.
    pub score: Score,
    /// Weights of the chosen are divided by their sum.
    pub normalize: bool,
    /// Then multiplied by this.
    pub factor: f32,
    /// Clamp of gate and up.
    pub limit: Option<f32>,
    /// Experts that a token uses.
    pub per_token: usize,
}

/// Tensors of one layer, as the checkpoint has them.
#[derive(Debug)]
pub struct MoeWeights {
    /// Name in the checkpoint.
    pub prefix: String,
    /// Rule.
    pub rule: MoeRule,
    /// Router.
    pub router: weights::Linear,
    /// Added to scores for choosing.
    pub bias: Option<Vec<f32>>,
    /// Experts by token id.
    pub by_token: Option<Vec<u32>>,
    /// Routed experts.
    pub experts: Vec<ExpertWeights>,
    /// Shared expert.
    pub shared: Option<ExpertWeights>,
}

/// Takes `PREFIX.NAME` for gate, up and down.
pub fn load_expert(
    load: &mut Loader<'_>,
    prefix: &str,
    names: [&str; 3],
    hidden: usize,
    inner: usize,
) -> ExpertWeights {
    let [gate, up, down] = names.map(|n| format!("{prefix}.{n}"));
    [load.linear(&gate, inner, hidden), load.linear(&up, inner, hidden), load.linear(&down, hidden, inner)]
}

/// The mixture of one layer on a device.
#[derive(Debug)]
pub struct Moe {
    router: Linear,
    route: Route,
    experts: Experts,
    gates: Vec<Linear>,
    limit: Option<f32>,
    shared: Option<(Linear, Linear, Operand)>,
}

fn build_expert<D: Ops>(w: &ExpertWeights, prefix: &str, device: &mut D) -> Result<(Linear, Linear), LoadError> {
    let [gate, up, down] = w.each_ref().map(matrix::linear);
    let (gate, up, down) = (gate.map_err(named(prefix))?, up.map_err(named(prefix))?, down.map_err(named(prefix))?);
    let gated = device.gated(&gate, &up).map_err(named(prefix))?;
    Ok((gated, device.stack(&[&down]).map_err(named(prefix))?))
}

impl FeedForward for Moe {
    type Weights = MoeWeights;

    fn build<D: Ops>(w: &MoeWeights, device: &mut D) -> Result<Self, LoadError> {
        let pairs =
            w.experts.iter().enumerate().map(|(e, x)| build_expert(x, &format!("{}.experts.{e}", w.prefix), device));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let router = matrix::linear(&w.router).map_err(named(&w.prefix))?;
        let shared = w.shared.as_ref().map(|s| build_expert(s, &format!("{}.shared_experts", w.prefix), device));
        let shared = shared.transpose()?.map(|(gated, down)| (gated, down, device.operand(Rows::Batch, &[down])));
        let route = Route {
            logits: device.act(Rows::Batch, w.experts.len()),
            score: w.rule.score,
            bias: w.bias.as_ref().map(|b| device.vector(b)),
            by_token: w.by_token.as_ref().map(|t| device.token_experts(t, w.rule.per_token)),
            normalize: w.rule.normalize,
            factor: w.rule.factor,
            out: device.picks(w.rule.per_token),
        };
        Ok(Self {
            router: device.stack(&[&router]).map_err(named(&w.prefix))?,
            route,
            experts: device.experts(&pairs),
            gates: pairs.iter().map(|p| p.0).collect(),
            limit: w.rule.limit,
            shared,
        })
    }

    fn inputs(&self) -> Vec<Linear> {
        let mut all = self.gates.clone();
        all.push(self.router);
        all.extend(self.shared.map(|s| s.0));
        all
    }

    fn inner(&self) -> Option<Linear> {
        None
    }

    /// With a shared expert, `out` is overwritten by the layer's result; without, the result is added to it.
    fn forward<D: Ops>(&self, device: &mut D, normed: Operand, _inner: Option<Operand>, out: Act) {
        device.linear(normed, self.router, self.route.logits);
        device.route(&self.route);
        if let Some((gated, down, inner)) = self.shared {
            device.linear_gated(normed, gated, self.limit, inner);
            device.linear(inner, down, out);
        }
        let (experts, picks, limit) = (self.experts, self.route.out, self.limit);
        device.run_experts(&RunExperts { x: normed, experts, picks, limit, out });
    }
}

impl Moe {
    /// Where the step's choices are.
    #[must_use]
    pub fn picks(&self) -> sluicegate_kernels::moe::Picks {
        self.route.out
    }
}
