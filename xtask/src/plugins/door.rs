//! A second core instance, between a plugin and its functions that are called for every token.
//!
//! At each call Wasmtime asks the instance that a lifted function is taken from for its code, and searches all functions of
//! the module for one that it defines. One that it imports it has at hand. So these functions are lifted from an instance
//! that imports them and exports them again, and does nothing else.

use anyhow::{Context, Result};
use wasm_encoder::reencode::{ReencodeComponent as _, RoundtripReencoder};
use wasm_encoder::{
    Alias, Component, ComponentAliasSection, ComponentSectionId, EntityType, ExportKind, ExportSection, ImportSection,
    InstanceSection, Module, ModuleArg, ModuleSection, RawSection, TypeSection, ValType,
};
use wasmparser::{BinaryReader, ComponentAlias, ComponentAliasSectionReader, ExternalKind, Validator, WasmFeatures};

/// Magic, version and layer.
const HEAD: u64 = 8;
/// The name under which the door imports from the plugin.
const PLUGIN: &str = "plugin";

/// The core type of a function that is called for every token, as the canonical ABI has it.
fn parameters(name: &str) -> Option<Vec<ValType>> {
    let face = name.strip_prefix("sluicegate:format/")?.strip_suffix("#push")?;
    if face.starts_with("brief@") {
        Some([ValType::I32; 2].into_iter().chain([ValType::I64; 8]).collect())
    } else if face.starts_with("terse@") {
        Some(vec![ValType::I32; 3])
    } else {
        None
    }
}

/// `component` with a door; as it is, if it has none of these functions.
///
/// # Errors
/// It is no component, or its layout is another than that of our encoder.
pub(super) fn add(component: &[u8]) -> Result<Vec<u8>> {
    let sections = sections(component)?;
    let is = |id: ComponentSectionId| move |section: &RawSection<'_>| section.id == u8::from(id);
    let behind = sections.iter().rposition(is(ComponentSectionId::CoreInstance)).context("it has no core instance")?;
    let mut lifted = Vec::new();
    let mut plugin = 0;
    for section in sections[behind..].iter().filter(|section| is(ComponentSectionId::Alias)(section)) {
        for alias in aliases(section)? {
            if let ComponentAlias::CoreInstanceExport { kind: ExternalKind::Func, instance_index, name } = alias?
                && let Some(parameters) = parameters(name)
            {
                plugin = instance_index;
                lifted.push((name, parameters));
            }
        }
    }
    if lifted.is_empty() {
        return Ok(component.to_vec());
    }
    let modules = sections.iter().filter(|section| is(ComponentSectionId::CoreModule)(section)).count() as u32;
    let mut instances = 0;
    for section in sections.iter().filter(|section| is(ComponentSectionId::CoreInstance)(section)) {
        instances += BinaryReader::new(section.data, 0).read_var_u32()?;
    }
    let mut with = Component::new();
    for (n, section) in sections.iter().enumerate() {
        if n > behind && is(ComponentSectionId::Alias)(section) {
            with.section(&through(section, instances)?);
        } else {
            with.section(section);
        }
        if n == behind {
            with.section(&ModuleSection(&door(&lifted)));
            with.section(InstanceSection::new().instantiate(modules, [(PLUGIN, ModuleArg::Instance(plugin))]));
        }
    }
    let with = with.finish();
    Validator::new_with_features(WasmFeatures::all()).validate_all(&with).context("the door does not fit")?;
    Ok(with)
}

/// The sections of a component, not those of what lies in it.
fn sections(component: &[u8]) -> Result<Vec<RawSection<'_>>> {
    let mut reader = BinaryReader::new(component.get(HEAD as usize..).context("it ends in its head")?, HEAD);
    let mut sections = Vec::new();
    while !reader.eof() {
        let (id, size) = (reader.read_u8()?, reader.read_var_u32()?);
        sections.push(RawSection { id, data: reader.read_bytes(size as usize)? });
    }
    Ok(sections)
}

fn aliases<'a>(section: &RawSection<'a>) -> Result<ComponentAliasSectionReader<'a>> {
    Ok(ComponentAliasSectionReader::new(BinaryReader::new(section.data, 0))?)
}

/// The same aliases, but for those of what the door exports.
fn through(section: &RawSection<'_>, door: u32) -> Result<ComponentAliasSection> {
    let mut all = ComponentAliasSection::new();
    for alias in aliases(section)? {
        let mut alias = RoundtripReencoder.component_alias(alias?)?;
        if let Alias::CoreInstanceExport { instance, kind: ExportKind::Func, name } = &mut alias
            && parameters(name).is_some()
        {
            *instance = door;
        }
        all.alias(alias);
    }
    Ok(all)
}

/// The module that imports these functions and exports them again.
fn door(functions: &[(&str, Vec<ValType>)]) -> Module {
    let (mut types, mut imports, mut exports) = (TypeSection::new(), ImportSection::new(), ExportSection::new());
    for (n, (name, parameters)) in (0..).zip(functions) {
        types.ty().function(parameters.iter().copied(), [ValType::I64]);
        imports.import(PLUGIN, name, EntityType::Function(n));
        exports.export(name, ExportKind::Func, n);
    }
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&exports);
    module
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{CodeSection, Function, FunctionSection};
    use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
    use wit_parser::Resolve;

    use super::*;

    /// A plugin with one function, in an interface of this name.
    fn component(interface: &str) -> Vec<u8> {
        let words: String = (0..8).map(|n| format!(", w{n}: u64")).collect();
        let wit = format!(
            "package sluicegate:format@0.1.0; interface {interface} {{ push: func(number: u32, length: u32{words}) -> \
             u64; }} world plugin {{ export {interface}; }}"
        );
        let name = format!("sluicegate:format/{interface}@0.1.0#push");
        let (mut types, mut functions, mut exports) =
            (TypeSection::new(), FunctionSection::new(), ExportSection::new());
        types.ty().function(parameters("sluicegate:format/brief@0.1.0#push").unwrap(), [ValType::I64]);
        functions.function(0);
        exports.export(&name, ExportKind::Func, 0);
        let mut code = CodeSection::new();
        let mut body = Function::new([]);
        body.instructions().i64_const(0).end();
        code.function(&body);
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&exports).section(&code);
        let mut module = module.finish();
        let mut resolve = Resolve::default();
        let package = resolve.push_source("plugin.wit", &wit).unwrap();
        let world = resolve.select_world(&[package], Some("plugin")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
    }

    /// The core instances that functions are taken from.
    fn instances(component: &[u8]) -> Vec<u32> {
        let sections = sections(component).unwrap();
        let aliases = sections.iter().filter(|section| section.id == u8::from(ComponentSectionId::Alias));
        let mut all = Vec::new();
        for alias in aliases.flat_map(|section| aliases_of(section)) {
            if let ComponentAlias::CoreInstanceExport { kind: ExternalKind::Func, instance_index, .. } = alias {
                all.push(instance_index);
            }
        }
        all
    }

    fn aliases_of<'a>(section: &RawSection<'a>) -> Vec<ComponentAlias<'a>> {
        aliases(section).unwrap().into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn a_push_is_lifted_from_the_door() {
        let without = component("brief");
        let with = add(&without).unwrap();
        let [plugin] = instances(&without)[..] else { panic!("one function") };
        let [door] = instances(&with)[..] else { panic!("one function") };
        assert!(door > plugin, "{plugin} {door}");
    }

    #[test]
    fn what_has_no_push_stays_as_it_is() {
        let other = component("other");
        assert_eq!(add(&other).unwrap(), other);
        assert!(add(b"\0asm").is_err());
    }
}
