//! Builds format plugins for tests from `guest.wat`: small, quick to compile, and able to do every wrong thing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const WIT: &str = include_str!("../../../wit/format.wit");
const WAT: &str = include_str!("guest.wat");

/// A plugin to build.
pub(crate) struct Guest {
    /// Its version; the letter `V` makes the parser say it.
    pub(crate) version: String,
    /// Names of its formats.
    pub(crate) formats: Vec<String>,
    /// JSON text of every format's options schema.
    pub(crate) options_schema: String,
    /// Code at the start of `describe`.
    pub(crate) describe: &'static str,
    /// Code that runs when the module is instantiated.
    pub(crate) start: &'static str,
    /// Whether it imports a function.
    pub(crate) imports: bool,
    /// Changes to the contract's text: from, to.
    pub(crate) contract: Option<(&'static str, &'static str)>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            version: "0.1.0".to_owned(),
            formats: vec!["letters".to_owned()],
            options_schema: "{}".to_owned(),
            describe: "",
            start: "",
            imports: false,
            contract: None,
        }
    }
}

/// The plugin of version `0.1.n`.
pub(crate) fn version(n: u32) -> Vec<u8> {
    Guest { version: format!("0.1.{n}"), ..Guest::default() }.build()
}

/// The plugin of version `0.1.0`, built once.
pub(crate) fn plain() -> Vec<u8> {
    static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| version(0));
    PLAIN.clone()
}

impl Guest {
    /// The component.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut data = Data::default();
        let root = self.describe_plugin(&mut data);
        let import = if self.imports { r#"(import "$root" "log" (func (param i32 i32)))"# } else { "" };
        let start = match self.start {
            "" => String::new(),
            code => format!("(func $start {code}) (start $start)"),
        };
        let wat = WAT
            .replace(";;IMPORT", import)
            .replace(";;DATA", &data.wat())
            .replace(";;DESCRIBE", self.describe)
            .replace(";;ROOT", &root.to_string())
            .replace(";;VERSION", &(root + 8).to_string())
            .replace(";;START", &start);
        let module = wat::parse_str(&wat).expect("the module is valid text");
        component(module, &self.wit(), if self.imports { "logging" } else { "parser-plugin" })
    }

    fn wit(&self) -> Vec<String> {
        let contract = match self.contract {
            Some((from, to)) => {
                assert!(WIT.contains(from), "the contract has changed: {from}");
                WIT.replace(from, to)
            }
            None => WIT.to_owned(),
        };
        let world = "package test:importing;
            world logging { import log: func(text: string); include sluicegate:format/parser-plugin@0.1.0; }";
        if self.imports { vec![contract, world.to_owned()] } else { vec![contract] }
    }

    /// Lays out the record `plugin`; fields as in the contract, by the canonical ABI.
    fn describe_plugin(&self, data: &mut Data) -> u32 {
        let formats: Vec<Vec<u8>> = self.formats.iter().map(|name| self.describe_format(data, name)).collect();
        let mut plugin = Vec::new();
        for text in ["letters", &self.version, "for tests"] {
            plugin.extend(data.text(text));
        }
        plugin.extend(data.list(&formats));
        data.put(&plugin)
    }

    fn describe_format(&self, data: &mut Data, name: &str) -> Vec<u8> {
        let mut format = Vec::new();
        format.extend(data.text(name));
        format.extend(data.text("for tests"));
        // catalogue, aliases, models; features (tools); hints, markers, special-tokens, stop-strings; no renderer.
        format.extend([0; 24]);
        format.extend([2, 0, 0, 0]);
        format.extend([0; 32]);
        format.extend([0; 12]);
        format.extend(data.text(&self.options_schema));
        format.extend(data.text("{}"));
        format
    }
}

/// A component with a world of its own that is no plugin.
pub(crate) fn stranger() -> Vec<u8> {
    let wit = "package test:stranger; world stranger { export hello: func() -> u32; }".to_owned();
    let module = wat::parse_str(r#"(module (func (export "hello") (result i32) (i32.const 1)))"#);
    component(module.expect("the module is valid text"), &[wit], "stranger")
}

fn component(mut module: Vec<u8>, wit: &[String], world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let mut package = None;
    for (n, text) in wit.iter().enumerate() {
        package = Some(resolve.push_source(&format!("{n}.wit"), text).expect("the WIT is valid"));
    }
    let package = package.expect("there is a package");
    let world = resolve.select_world(&[package], Some(world)).expect("the world exists");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("the world fits");
    let mut encoder = ComponentEncoder::default();
    encoder.module(&module).expect("the module is read").validate(true).encode().expect("the module fits the world")
}

/// Bytes in the guest's memory, from 4096 on.
#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
    texts: BTreeMap<String, u32>,
}

const BASE: u32 = 4096;

impl Data {
    fn put(&mut self, bytes: &[u8]) -> u32 {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let at = BASE + u32::try_from(self.bytes.len()).expect("small");
        self.bytes.extend(bytes);
        at
    }

    fn text(&mut self, text: &str) -> Vec<u8> {
        let at = match self.texts.get(text) {
            Some(at) => *at,
            None => {
                let at = self.put(text.as_bytes());
                self.texts.insert(text.to_owned(), at);
                at
            }
        };
        pair(at, text.len())
    }

    fn list(&mut self, items: &[Vec<u8>]) -> Vec<u8> {
        let at = self.put(&items.concat());
        pair(at, items.len())
    }

    fn wat(&self) -> String {
        let escaped: String = self.bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {BASE}) \"{escaped}\")")
    }
}

fn pair(at: u32, len: usize) -> Vec<u8> {
    [at.to_le_bytes(), u32::try_from(len).expect("small").to_le_bytes()].concat()
}
