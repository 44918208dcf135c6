//! Compiling the kernels for the host. Objects are kept under names made of everything that went into them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// How the kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Build {
    /// For speed.
    Plain,
    /// With AddressSanitizer: accesses outside of buffers and shared memory.
    Address,
    /// With ThreadSanitizer: accesses that no barrier orders.
    Race,
}

impl Build {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Address, Self::Race];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Address => "address",
            Self::Race => "race",
        }
    }

    /// Flags for kernels, for the runtime, for linking.
    fn flags(self) -> [&'static [&'static str]; 3] {
        match self {
            Self::Plain => [&[], &[], &[]],
            Self::Address => [&["-fsanitize=address"]; 3],
            // The runtime tells ThreadSanitizer itself what it does on behalf of kernels.
            Self::Race => [&["-fsanitize=thread"], &["-DHOST_TSAN"], &["-fsanitize=thread"]],
        }
    }
}

/// A C++ compiler, the kernels' sources, and where objects are kept.
#[derive(Clone, Debug)]
pub struct Toolchain {
    compiler: String,
    /// Folder of `gpu.cuh`.
    pub sources: PathBuf,
    /// Compile no other `.cu` than these.
    only: Option<&'static [&'static str]>,
    cache: PathBuf,
}

impl Toolchain {
    /// The compiler of `CXX`, else `g++`; `None` where neither runs.
    #[must_use]
    pub fn find() -> Option<Self> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
        let mut probe = Command::new(&compiler);
        let found = probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return None;
        }
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| kernels.join("../target"), PathBuf::from);
        Some(Self { compiler, sources: kernels.join("cuda"), only: None, cache: target.join("emulate") })
    }

    /// The same compiler on other sources, of which it takes these `.cu`.
    #[must_use]
    pub fn on(&self, sources: PathBuf, only: &'static [&'static str]) -> Self {
        Self { sources, only: Some(only), ..self.clone() }
    }

    /// The program that runs launches, compiled in this way.
    ///
    /// # Errors
    /// The sources don't compile.
    pub fn replay(&self, build: Build) -> Result<PathBuf> {
        let _lock = self.lock(build)?;
        let units = self.units(build)?;
        self.compile_all(&units)?;
        self.link(&units, &format!("replay-{}", build.name()), build.flags()[2])
    }

    /// The stand-in driver, a `libcuda.so.1` that runs the kernels.
    ///
    /// # Errors
    /// The sources don't compile.
    pub fn driver(&self) -> Result<PathBuf> {
        let _lock = self.lock(Build::Plain)?;
        let mut units = self.units(Build::Plain)?;
        units.retain(|unit| !unit.source.ends_with("host/replay.cpp"));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("driver");
        let headers = digest(&files(&folder, &["h"])?)? + &digest(&files(&self.sources, &["h"])?)?;
        for source in files(&folder, &["cpp"])? {
            units.push(self.unit(source, &headers, &[])?);
        }
        self.compile_all(&units)?;
        self.link(&units, "libcuda", &["-shared", "-Wl,-soname,libcuda.so.1"])
    }

    /// One process compiles, the others find its objects.
    fn lock(&self, build: Build) -> Result<File> {
        fs::create_dir_all(&self.cache).with_context(|| format!("cannot create {}", self.cache.display()))?;
        let lock = File::create(self.cache.join(format!("{}.lock", build.name())))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The kernels and their runtime.
    fn units(&self, build: Build) -> Result<Vec<Unit>> {
        let headers = digest(&files(&self.sources, &["cuh", "h"])?)?;
        let [kernel_flags, runtime_flags, _] = build.flags();
        let flags =
            |source: &Path| if source.extension().is_some_and(|e| e == "cu") { kernel_flags } else { runtime_flags };
        let mut sources = files(&self.sources, &["cu", "cpp"])?;
        if let Some(only) = self.only {
            let is_wanted = |s: &Path| s.file_stem().is_some_and(|stem| only.iter().any(|o| stem == *o));
            sources.retain(|s| s.extension().is_none_or(|e| e != "cu") || is_wanted(s));
        }
        sources.into_iter().map(|source| self.unit(source.clone(), &headers, flags(&source))).collect()
    }

    fn unit(&self, source: PathBuf, headers: &str, flags: &'static [&'static str]) -> Result<Unit> {
        let key = self.key(&[headers, &digest(std::slice::from_ref(&source))?], flags);
        Ok(Unit { object: self.cache.join(format!("{key}.o")), source, flags })
    }

    fn link(&self, units: &[Unit], name: &str, flags: &[&str]) -> Result<PathBuf> {
        let keys: Vec<String> = units.iter().map(|u| u.object.display().to_string()).collect();
        let key = self.key(&keys.iter().map(String::as_str).collect::<Vec<_>>(), flags);
        let program = self.cache.join(format!("{name}-{key}"));
        if !program.exists() {
            let mut link = Command::new(&self.compiler);
            link.args(flags).args(units.iter().map(|u| &u.object));
            self.produce(link, &program)?;
        }
        Ok(program)
    }

    fn key(&self, parts: &[&str], flags: &[&str]) -> String {
        let mut hash = Sha256::new();
        for part in parts.iter().chain(flags).chain([&self.compiler.as_str()]) {
            hash.update(part);
            hash.update([0]);
        }
        hex(&hash.finalize()[..10])
    }

    fn compile_all(&self, units: &[Unit]) -> Result<()> {
        let missing: Vec<&Unit> = units.iter().filter(|u| !u.object.exists()).collect();
        let next = Mutex::new(missing.into_iter());
        let failure = Mutex::new(None);
        let work = || {
            while let Some(unit) = next.lock().ok().and_then(|mut units| units.next()) {
                if let (Err(error), Ok(mut failure)) = (self.compile(unit), failure.lock()) {
                    failure.get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        failure.into_inner().ok().flatten().map_or(Ok(()), Err)
    }

    fn compile(&self, unit: &Unit) -> Result<()> {
        let mut command = Command::new(&self.compiler);
        // Exact arithmetic: no contraction that the sources don't spell.
        command.args(["-std=c++17", "-O1", "-g1", "-fPIC", "-ffp-contract=off", "-Wall", "-Wno-unknown-pragmas"]);
        command.args(unit.flags).args(["-c", "-x", "c++"]).arg(&unit.source);
        self.produce(command, &unit.object)
    }

    /// Runs a command that writes a file, which appears whole or not at all.
    fn produce(&self, mut command: Command, file: &Path) -> Result<()> {
        let partial = file.with_extension(format!("partial{}", std::process::id()));
        let output =
            command.arg("-o").arg(&partial).output().with_context(|| format!("cannot run {}", self.compiler))?;
        if !output.status.success() {
            bail!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        fs::rename(&partial, file).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// Files below a folder with one of these endings, sorted.
fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| extensions.iter().any(|x| e == *x)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn digest(files: &[PathBuf]) -> Result<String> {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        hash.update([0]);
    }
    Ok(hex(&hash.finalize()))
}

struct Unit {
    source: PathBuf,
    object: PathBuf,
    flags: &'static [&'static str],
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
