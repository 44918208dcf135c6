//! What ptxas says about each kernel: registers, shared memory, spills, stack frames.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Result, bail};

/// A kernel on one architecture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Usage {
    kernel: String,
    machine: String,
    registers: u32,
    /// Static shared memory, bytes.
    shared: u32,
    /// Bytes of stack frame, spill stores and spill loads together.
    spilled: u32,
}

/// Reads the output of `ptxas -v`.
pub(crate) fn read(log: &str) -> Vec<Usage> {
    let mut found = Vec::new();
    let mut current: Option<Usage> = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let words: Vec<&str> = rest.split('\'').collect();
            if let [kernel, _, machine, ..] = words[..] {
                let machine = machine.trim_start_matches("sm_").into();
                current = Some(Usage { kernel: kernel.into(), machine, registers: 0, shared: 0, spilled: 0 });
            }
        } else if let (true, Some(usage)) = (line.contains("bytes stack frame"), &mut current) {
            usage.spilled += line.split(',').map(leading_number).sum::<u32>();
        } else if let Some((_, rest)) = line.split_once(": Used ") {
            let Some(mut usage) = current.take() else { continue };
            usage.registers = leading_number(rest);
            usage.shared = rest.split(", ").find(|part| part.ends_with("bytes smem")).map_or(0, leading_number);
            found.push(usage);
        }
    }
    found
}

fn leading_number(text: &str) -> u32 {
    text.trim().split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Kernels keep everything in registers.
///
/// # Errors
/// One has a stack frame or spills.
pub(crate) fn check(usages: &[Usage]) -> Result<()> {
    let bad: Vec<String> = usages
        .iter()
        .filter(|u| u.spilled > 0)
        .map(|u| format!("{} on sm_{}: {} bytes", u.kernel, u.machine, u.spilled))
        .collect();
    if bad.is_empty() { Ok(()) } else { bail!("kernels with a stack frame or spills:\n  {}", bad.join("\n  ")) }
}

/// A row for each kernel: registers on each machine, static shared memory.
pub(crate) fn table(usages: &[Usage], machines: &[&str]) -> String {
    let mut rows: BTreeMap<&str, BTreeMap<&str, &Usage>> = BTreeMap::new();
    for usage in usages {
        rows.entry(&usage.kernel).or_default().insert(&usage.machine, usage);
    }
    let mut out = String::from(
        "### Registers\n\nOf a thread, and static shared memory of a block; no kernel spills.\n\n| kernel |",
    );
    for machine in machines {
        let _ = write!(out, " sm_{machine} |");
    }
    out += " shared, bytes |\n| --- |";
    out += &" ---: |".repeat(machines.len() + 1);
    out.push('\n');
    for (kernel, by_machine) in rows {
        let _ = write!(out, "| `{kernel}` |");
        for machine in machines {
            let registers = by_machine.get(machine).map_or("-".into(), |u| u.registers.to_string());
            let _ = write!(out, " {registers} |");
        }
        let shared = by_machine.values().map(|u| u.shared).max().unwrap_or(0);
        let _ = writeln!(out, " {shared} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'rms_norm' for 'sm_90a'
ptxas info    : Function properties for rms_norm
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 128 bytes smem
ptxas info    : Compiling entry function 'big' for 'sm_120f'
ptxas info    : Function properties for big
    32 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
";

    #[test]
    fn reads_what_ptxas_says() {
        let usages = read(LOG);
        assert_eq!(usages.len(), 2);
        assert_eq!((usages[0].registers, usages[0].shared, usages[0].spilled), (24, 128, 0));
        assert_eq!((usages[1].machine.as_str(), usages[1].registers, usages[1].spilled), ("120f", 255, 40));
        assert!(check(&usages[..1]).is_ok());
        assert!(check(&usages).unwrap_err().to_string().contains("big on sm_120f: 40 bytes"));
        assert!(table(&usages, &["90a", "120f"]).contains("| `rms_norm` | 24 | - | 128 |"));
    }
}
