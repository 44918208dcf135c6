//! Mixtures of experts on the GPU: routing, lists of each expert's entries, their products, the weighted sum.

use super::Cuda;
use super::memory::Buffer;
use super::weights::Part;
use crate::cuda::call::{Address, Floats, Inputs};
use crate::cuda::calls::{self, ExpertsAt, Finish, ListsAt, PicksAt, RouteBy};
use crate::cuda::pack::STEP;
use crate::moe::{Experts, MoeOps, Picks, Route, RunExperts, TokenExperts};
use crate::ops::{DeviceError, Linear};

/// Choices of every row.
#[derive(Debug)]
pub(super) struct PickMemory {
    k: usize,
    ids: Buffer,
    weights: Buffer,
}

impl PickMemory {
    pub(super) fn at(&self) -> PicksAt {
        PicksAt { ids: self.ids.at(), weights: self.weights.at(), k: self.k as u32 }
    }
}

/// The weights of a layer's experts, each kind in one piece.
#[derive(Debug)]
pub(super) struct ExpertMemory {
    count: u32,
    gated: ExpertsAt,
    down: ExpertsAt,
    _memory: [Buffer; 6],
}

/// What layers of experts of one shape work in; a row of `inner` is as wide as down projections read, its padding zero.
#[derive(Debug)]
pub(super) struct ExpertScratch {
    shape: (u32, u32, u32, u32),
    lists: Buffer,
    counts: Buffer,
    inner: Buffer,
    results: Buffer,
}

impl Cuda {
    /// Brings the weights of linears of one shape together, and leaves them without memory of their own.
    fn join(&mut self, linears: &[Linear]) -> Result<(ExpertsAt, [Buffer; 3]), DeviceError> {
        let refused =
            || DeviceError("experts on CUDA need NVFP4, FP8 or bf16 weights of one shape; use device = \"cpu\"".into());
        let Some(first) = linears.first().and_then(|l| self.linears[l.0 as usize].packed()) else {
            return Err(refused());
        };
        let (at, sizes) = (first.at, first.memory.each_ref().map(Buffer::bytes));
        let total = |i: usize| Buffer::zeroed(&self.context, sizes[i] * linears.len());
        let joined = [total(0)?, total(1)?, total(2)?];
        for (n, linear) in linears.iter().enumerate() {
            let part = self.linears[linear.0 as usize].packed().ok_or_else(refused)?;
            if part.memory.each_ref().map(Buffer::bytes) != sizes || part.at.columns != at.columns {
                return Err(refused());
            }
            for ((from, to), size) in part.memory.iter().zip(&joined).zip(sizes) {
                self.stream.copy(from.at(), to.at().plus(n * size), size)?;
            }
        }
        self.stream.finish()?;
        for linear in linears {
            let memory = &mut self.linears[linear.0 as usize];
            let rows = memory.rows();
            memory.parts = vec![Part::Moved { rows }];
        }
        let [codes, scales, alpha] = joined.each_ref().map(Buffer::at);
        let stride = |i: usize| u32::try_from(sizes[i]).map_err(|_| DeviceError("an expert of more than 4 GiB".into()));
        let first = calls::WeightsAt { codes, scales, alpha, ..at };
        let experts =
            ExpertsAt { first, code_stride: stride(0)?, scale_stride: stride(1)?, factor_stride: stride(2)? / 4 };
        Ok((experts, joined))
    }

    fn join_pairs(&mut self, pairs: &[(Linear, Linear)]) -> Result<ExpertMemory, DeviceError> {
        let (gates, downs): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let (gated, [a, b, c]) = self.join(&gates)?;
        let (down, [d, e, f]) = self.join(&downs)?;
        Ok(ExpertMemory { count: pairs.len() as u32, gated, down, _memory: [a, b, c, d, e, f] })
    }

    /// Scratch for a shape: experts, choices, inner width, results' width.
    fn expert_scratch(&mut self, shape: (u32, u32, u32, u32)) -> Result<usize, DeviceError> {
        if let Some(found) = self.expert_scratch.iter().position(|s| s.shape == shape) {
            return Ok(found);
        }
        let (experts, k, inner, width) = shape;
        let entries = self.limits.rows * k as usize;
        let zeroed = |bytes: usize| Buffer::zeroed(&self.context, bytes);
        let scratch = ExpertScratch {
            shape,
            lists: zeroed(experts as usize * self.limits.rows * 4)?,
            counts: zeroed(experts as usize * 4)?,
            inner: zeroed(entries * (inner as usize).next_multiple_of(STEP) * 2)?,
            results: zeroed(entries * width as usize * 4)?,
        };
        self.expert_scratch.push(scratch);
        Ok(self.expert_scratch.len() - 1)
    }

    fn add_experts(&mut self, args: &RunExperts) -> Result<(), DeviceError> {
        let memory = &self.experts[args.experts.0 as usize];
        let (count, gated, down) = (memory.count, memory.gated, memory.down);
        let picks = self.picks[args.picks.0 as usize].at();
        let (inner_width, width) = (gated.first.columns, down.first.columns);
        let index = self.expert_scratch((count, picks.k, inner_width, width))?;
        let scratch = &self.expert_scratch[index];
        let room = self.limits.rows as u32;
        let lists = ListsAt { lists: scratch.lists.at(), counts: scratch.counts.at(), room, experts: count };
        let half_stride = inner_width.next_multiple_of(STEP as u32);
        let inner = Inputs { halves: scratch.inner.at(), half_stride, floats: Address::NULL, float_stride: 0 };
        let results = Floats { at: scratch.results.at(), stride: width, width };
        let (x, out) = (self.inputs(args.x), self.floats(args.out));
        let rows = self.step.launch_rows(self.acts[args.out.id as usize].rows);
        let limit = args.limit.unwrap_or(f32::INFINITY);
        self.add(calls::list_experts(picks, lists, rows));
        self.add(calls::gemm_experts(x, gated, Finish::Gated { out: inner, limit }, lists, picks.k, rows));
        self.add(calls::gemm_experts(inner, down, Finish::Store(results), lists, 1, rows));
        self.add(calls::combine_experts(results.at, picks, out, rows));
        Ok(())
    }
}

impl MoeOps for Cuda {
    fn picks(&mut self, k: usize) -> Picks {
        let bytes = self.limits.rows * k * 4;
        let (ids, weights) = (Buffer::zeroed(&self.context, bytes), Buffer::zeroed(&self.context, bytes));
        let (ids, weights) = (self.keep(ids), self.keep(weights));
        self.picks.extend(ids.zip(weights).map(|(ids, weights)| PickMemory { k, ids, weights }));
        Picks((self.picks.len() as u32).wrapping_sub(1))
    }

    fn token_experts(&mut self, ids: &[u32], _k: usize) -> TokenExperts {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let uploaded = Buffer::of(&self.context, &bytes);
        let uploaded = self.keep(uploaded);
        self.token_experts.extend(uploaded);
        TokenExperts((self.token_experts.len() as u32).wrapping_sub(1))
    }

    fn experts(&mut self, pairs: &[(Linear, Linear)]) -> Experts {
        let joined = self.join_pairs(pairs);
        let joined = self.keep(joined);
        self.experts.extend(joined);
        Experts((self.experts.len() as u32).wrapping_sub(1))
    }

    fn route(&mut self, args: &Route) {
        let logits = self.floats(args.logits);
        if logits.width > calls::MOST_EXPERTS {
            let text =
                format!("{} experts in a layer; the CUDA device routes to {}", logits.width, calls::MOST_EXPERTS);
            self.failure.get_or_insert(DeviceError(text));
            return;
        }
        let by = RouteBy {
            score: args.score,
            bias: args.bias.map_or(Address::NULL, |v| self.vectors[v.0 as usize].values.at()),
            table: args.by_token.map_or(Address::NULL, |t| self.token_experts[t.0 as usize].at()),
            tokens: self.step.tokens(),
            normalize: args.normalize,
            factor: args.factor,
        };
        let rows = self.step.launch_rows(self.acts[args.logits.id as usize].rows);
        let call = calls::route(logits, by, self.picks[args.out.0 as usize].at(), rows);
        self.add(call);
    }

    fn run_experts(&mut self, args: &RunExperts) {
        let added = self.add_experts(args);
        self.keep(added);
    }

    /// Not shown: choices stay on the GPU.
    fn read_picks(&self, _picks: Picks) -> (&[u32], &[f32]) {
        (&[], &[])
    }
}
