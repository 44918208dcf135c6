//! One instance of a plugin in its own store, and the bounds of every call into it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Engine, ResourceLimiter, Store, StoreContextMut, Trap, UpdateDeadline};

use super::bindings::{answers, brief, grammar, meta, parse, render, terse};
use super::error::{Cause, RefusedReason};
use super::host::{TICK, TICK_MILLIS};
use super::settings::Settings;

/// A compiled component with the exports of `sluicegate:format` looked up.
pub(super) struct Code {
    pre: InstancePre<Limits>,
    meta: meta::GuestIndices,
    parse: parse::GuestIndices,
    brief: Option<brief::GuestIndices>,
    terse: Option<terse::GuestIndices>,
    answers: Option<answers::GuestIndices>,
    grammar: Option<grammar::GuestIndices>,
    render: Option<render::GuestIndices>,
}

impl Code {
    /// Compiles and checks: nothing imported, `meta` and `parse` exported. Takes tenths of a second of CPU time.
    pub(super) fn compile(engine: &Engine, wasm: &[u8]) -> Result<Self, RefusedReason> {
        if !wasm.starts_with(b"\0asm") {
            // Wasmtime would also read text format and precompiled native code where those are compiled in.
            return Err(RefusedReason::Invalid("the file does not begin with the WebAssembly magic".to_owned()));
        }
        let component =
            Component::from_binary(engine, wasm).map_err(|error| RefusedReason::Invalid(format!("{error:#}")))?;
        let ty = component.component_type();
        let imports: Vec<String> = ty.imports(engine).map(|(name, _)| name.to_owned()).collect();
        if !imports.is_empty() {
            return Err(RefusedReason::Imports(imports));
        }
        let exports: Vec<String> = ty.exports(engine).map(|(name, _)| name.to_owned()).collect();
        let linker = Linker::new(engine);
        let pre = linker.instantiate_pre(&component).map_err(|error| RefusedReason::Invalid(format!("{error:#}")))?;
        let has = |face: &str| {
            let prefix = format!("sluicegate:format/{face}@0.1.");
            exports.iter().any(|name| name.starts_with(&prefix))
        };
        for missing in ["types", "meta", "parse"] {
            if !has(missing) {
                return Err(RefusedReason::World { missing, exports });
            }
        }
        let wrong =
            |interface| move |error: wasmtime::Error| RefusedReason::Types { interface, error: error.to_string() };
        Ok(Self {
            meta: meta::GuestIndices::new(&pre).map_err(wrong("meta"))?,
            parse: parse::GuestIndices::new(&pre).map_err(wrong("parse"))?,
            brief: if has("brief") { Some(brief::GuestIndices::new(&pre).map_err(wrong("brief"))?) } else { None },
            // It takes its parsers' numbers from `brief`.
            terse: if has("brief") && has("terse") {
                Some(terse::GuestIndices::new(&pre).map_err(wrong("terse"))?)
            } else {
                None
            },
            answers: if has("brief") && has("answers") {
                Some(answers::GuestIndices::new(&pre).map_err(wrong("answers"))?)
            } else {
                None
            },
            grammar: if has("grammar") {
                Some(grammar::GuestIndices::new(&pre).map_err(wrong("grammar"))?)
            } else {
                None
            },
            render: if has("render") { Some(render::GuestIndices::new(&pre).map_err(wrong("render"))?) } else { None },
            pre,
        })
    }

    pub(super) fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    pub(super) fn has_render(&self) -> bool {
        self.render.is_some()
    }
}

/// Why an instance could not be made.
pub(super) enum StartError {
    /// It failed while starting.
    Failed(Cause, String),
    /// An interface has other types than ours.
    Types(&'static str, String),
}

/// An instance. After an error it is useless: a trap poisons the whole store.
pub(super) struct Guest {
    pub(super) store: Store<Limits>,
    pub(super) meta: meta::Guest,
    pub(super) parse: parse::Guest,
    pub(super) brief: Option<brief::Guest>,
    pub(super) terse: Option<terse::Guest>,
    pub(super) grammar: Option<grammar::Guest>,
    pub(super) render: Option<render::Guest>,
}

impl Guest {
    /// Instantiates `code` within `settings`' limits.
    pub(super) fn start(code: &Code, settings: &Settings) -> Result<Self, StartError> {
        let mut store = Store::new(code.pre.engine(), Limits::new(settings));
        store.limiter(|limits| limits);
        store.epoch_deadline_callback(overtime);
        store.set_hostcall_fuel(settings.memory_bytes);
        arm(&mut store, Budget::of_millis(settings.call_budget_ms));
        let instance = code.pre.instantiate(&mut store).map_err(|error| {
            let cause = classify(&error, store.data());
            StartError::Failed(cause, format!("{error:#}"))
        })?;
        let wrong = |face| move |error: wasmtime::Error| StartError::Types(face, format!("{error:#}"));
        let meta = code.meta.load(&mut store, &instance).map_err(wrong("meta"))?;
        let parse = code.parse.load(&mut store, &instance).map_err(wrong("parse"))?;
        let brief = match &code.brief {
            Some(indices) => Some(indices.load(&mut store, &instance).map_err(wrong("brief"))?),
            None => None,
        };
        let terse = match &code.terse {
            Some(indices) => Some(indices.load(&mut store, &instance).map_err(wrong("terse"))?),
            None => None,
        };
        if let Some(indices) = &code.answers {
            let answers = indices.load(&mut store, &instance).map_err(wrong("answers"))?;
            let asked = answers.call_escaped(&mut store);
            asked.map_err(|error| StartError::Failed(classify(&error, store.data()), format!("{error:#}")))?;
        }
        let grammar = match &code.grammar {
            Some(indices) => Some(indices.load(&mut store, &instance).map_err(wrong("grammar"))?),
            None => None,
        };
        let render = match &code.render {
            Some(indices) => Some(indices.load(&mut store, &instance).map_err(wrong("render"))?),
            None => None,
        };
        Ok(Self { store, meta, parse, brief, terse, grammar, render })
    }

    /// Runs one call into the guest, with `budget` of CPU time from now.
    #[inline]
    pub(super) fn call<R>(
        &mut self,
        budget: Budget,
        call: impl FnOnce(&mut Self) -> wasmtime::Result<R>,
    ) -> Result<R, Cause> {
        arm(&mut self.store, budget);
        call(self).map_err(|error| self.failed(&error))
    }

    #[cold]
    fn failed(&self, error: &wasmtime::Error) -> Cause {
        let cause = classify(error, self.store.data());
        tracing::debug!(%cause, error = format!("{error:#}"), "guest call failed");
        cause
    }

    /// Memory that the instance has now, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.store.data().memory
    }
}

/// CPU time that one call may take. Worked out beforehand: it is set before every call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    half_micros: u64,
    /// Half of it on the clock that bounds guests.
    ticks: u64,
}

impl Budget {
    pub(super) fn of_millis(millis: u64) -> Self {
        Self { half_micros: millis.saturating_mul(500), ticks: (millis / 2 / TICK_MILLIS).max(1) }
    }
}

#[inline]
fn arm(store: &mut Store<Limits>, budget: Budget) {
    let limits = store.data_mut();
    limits.half_micros = budget.half_micros;
    limits.overtime = None;
    store.set_epoch_deadline(budget.ticks);
}

/// Runs when half of a call's budget has passed on the wall clock. From here on CPU time counts, so that a thread
/// that the system set aside is not taken for a guest that loops.
fn overtime(mut store: StoreContextMut<'_, Limits>) -> wasmtime::Result<UpdateDeadline> {
    let now = cpu_time();
    let limits = store.data_mut();
    let since = *limits.overtime.get_or_insert(now);
    let used = now.saturating_sub(since);
    Ok(if used + TICK / 2 >= Duration::from_micros(limits.half_micros) {
        UpdateDeadline::Interrupt
    } else {
        UpdateDeadline::Continue(1)
    })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

fn classify(error: &wasmtime::Error, limits: &Limits) -> Cause {
    if limits.refused_memory {
        Cause::Memory
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        if *trap == Trap::Interrupt { Cause::Time } else { Cause::Trap }
    } else if format!("{error:#}").contains("hostcalls has been exhausted") {
        Cause::Output
    } else {
        Cause::Value
    }
}

/// Limits of one store, and what the current call has used of them.
pub(super) struct Limits {
    max_memory: usize,
    memory: usize,
    refused_memory: bool,
    half_micros: u64,
    overtime: Option<Duration>,
}

impl Limits {
    fn new(settings: &Settings) -> Self {
        Self { max_memory: settings.memory_bytes, memory: 0, refused_memory: false, half_micros: 0, overtime: None }
    }
}

/// Most elements of one table; the largest Rust guest measured has a few hundred.
const MAX_TABLE: usize = 10_000;

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        // A component may have several memories; the limit is on their sum.
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.max_memory {
            self.refused_memory = true;
            // An error and not -1: the guest could only abort, and would hide the reason.
            return Err(wasmtime::format_err!("{total} bytes of memory wanted, the limit is {}", self.max_memory));
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE)
    }

    /// A component from a script language is made of dozens of core instances.
    fn instances(&self) -> usize {
        128
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        8
    }
}
