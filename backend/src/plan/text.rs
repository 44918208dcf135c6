//! A plan for people.

use std::fmt::{self, Display, Formatter};

use super::{Layout, Part, Plan, Spread};

fn billions(n: f64) -> String {
    if n >= 1e9 { format!("{:.1} B", n / 1e9) } else { format!("{:.2} M", n / 1e6) }
}

fn gigabytes(n: f64) -> String {
    if n >= 1e9 { format!("{:.1} GB", n / 1e9) } else { format!("{:.2} MB", n / 1e6) }
}

fn thousands(n: f64) -> String {
    if n >= 1e6 { format!("{:.2} M", n / 1e6) } else { format!("{:.0} k", n / 1e3) }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (q, w) = (&self.question, &self.weights);
        let total = w.total();
        writeln!(f, "{} on {} x {}", self.config.architecture, q.devices, q.device.name)?;
        let active = billions(w.active());
        writeln!(f, "weights     {}, {active} active a token, {}", billions(total.parameters), gigabytes(total.bytes))?;
        for (name, Part { parameters, bytes }) in [
            ("experts", w.routed),
            ("divisible", w.divided),
            ("copied", w.copied),
            ("embedding", w.embedding),
            ("head", w.head),
            ("drafter", w.drafting()),
        ] {
            if parameters > 0.0 {
                writeln!(f, "  {name:<10}{:>10}  {:>10}", billions(parameters), gigabytes(bytes))?;
            }
        }
        let (context, blocks) = (q.workload.context, self.block_tokens);
        writeln!(f, "caches      {:.0} bytes a token in blocks of {blocks}", self.bytes_per_token)?;
        writeln!(f, "            {} for a sequence of {context} tokens", gigabytes(self.bytes_per_sequence))?;
        writeln!(f, "fewest      {} devices hold weights and one such sequence", self.fewest)?;
        self.options.iter().try_for_each(|o| self.spread(f, o))
    }
}

impl Plan {
    fn spread(&self, f: &mut Formatter<'_>, o: &Spread) -> fmt::Result {
        let q = &self.question;
        let n = q.devices;
        match o.layout {
            Layout::Expert if self.weights.expert_layers == 0.0 => {
                writeln!(f, "\ndata-parallel over {n}, the whole model on each")?;
            }
            Layout::Expert => writeln!(f, "\nattention data-parallel over {n}, experts spread over {n}")?,
            Layout::Tensor => writeln!(f, "\ntensor-parallel over {n}")?,
        }
        let usable = q.device.memory * q.memory_utilization;
        writeln!(f, "  memory    {} of weights on each device, of {} usable", gigabytes(o.weights), gigabytes(usable))?;
        if o.weights > usable {
            return writeln!(f, "  does not fit");
        }
        let sequences = o.tokens / q.workload.context as f64;
        writeln!(
            f,
            "  context   {} tokens in all, {sequences:.0} sequences of {}",
            thousands(o.tokens),
            q.workload.context
        )?;
        writeln!(f, "  floor     sequences   memory ms  compute ms  wire ms   step ms   tokens/s")?;
        for (b, floor) in &o.decode {
            let fits = if *b > sequences { "  (does not fit)" } else { "" };
            let [memory, compute, wire] = [floor.memory, floor.compute, floor.wire].map(|s| s * 1e3);
            let (step, rate) = (floor.seconds() * 1e3, b / floor.seconds());
            writeln!(
                f,
                "    decode  {b:>9}  {memory:>10.2}  {compute:>10.2}  {wire:>7.2}  {step:>8.2}  {rate:>9.0}{fits}"
            )?;
        }
        let p = &o.prefill;
        let [memory, compute, wire] = [p.memory, p.compute, p.wire].map(|s| s * 1e3);
        let (step, rate) = (p.seconds() * 1e3, q.chunk as f64 / p.seconds());
        writeln!(
            f,
            "    prefill {:>9}  {memory:>10.2}  {compute:>10.2}  {wire:>7.2}  {step:>8.2}  {rate:>9.0}",
            q.chunk
        )?;
        let Some(best) = o.best else {
            return writeln!(f, "  no step is within {:.0} ms", q.workload.inter_token * 1e3);
        };
        let ratio = best.prefill / best.decode;
        writeln!(
            f,
            "  workload  {} new prompt tokens, {} of answer: {:.0} sequences at a time, {:.2} and {:.2} device seconds,",
            q.workload.prompt, q.workload.output, best.sequences, best.prefill, best.decode
        )?;
        let prefill = n as f64 * ratio / (1.0 + ratio);
        writeln!(f, "            prefill : decode = 1 : {:.1}, of {n} devices {prefill:.1} for prompts", 1.0 / ratio)
    }
}
