//! The catalogue's rows: every wire of SGLang, vLLM, Dynamo and smg, aligned, and the names they register for it.

/// One wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What a format's `catalogue` names: `J1`, `R1`.
    pub id: &'static str,
    /// What the wire looks like, in Markdown.
    pub wire: &'static str,
}

impl Row {
    /// Whether it is about reasoning, and not about tool calls.
    pub fn is_reasoning(&self) -> bool {
        self.id.starts_with('R')
    }
}

/// A name that another system registers for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The row's identifier.
    pub row: &'static str,
    /// `sglang`, `vllm`, `dynamo`, `smg`; with `-reasoning` for the registry of reasoning parsers.
    pub system: &'static str,
    /// What its command line calls it.
    pub name: &'static str,
}

/// All rows: 56 of tool calls, then 31 of reasoning.
pub fn rows() -> Vec<Row> {
    lines(include_str!("../rows.tsv")).filter_map(|l| l.split_once('\t')).map(|(id, wire)| Row { id, wire }).collect()
}

/// All names of all systems.
pub fn names() -> Vec<Name> {
    let name = |line: &'static str| {
        let mut cells = line.split('\t');
        Some(Name { row: cells.next()?, system: cells.next()?, name: cells.next()? })
    };
    lines(include_str!("../names.tsv")).filter_map(name).collect()
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

/// Rows that no format covers, each with the reason.
pub const NOT_COVERED: &[(&str, &str)] = &[];
