//! Tools as the host digests them: names and, for each top-level parameter, the JSON types it accepts.

use std::ops::BitOr;

/// JSON Schema types that a property accepts; empty means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonTypes(u8);

impl JsonTypes {
    /// `null`.
    pub const NULL: JsonTypes = JsonTypes(1);
    /// `true` or `false`.
    pub const BOOLEAN: JsonTypes = JsonTypes(2);
    /// A number without fraction.
    pub const INTEGER: JsonTypes = JsonTypes(4);
    /// Any number.
    pub const NUMBER: JsonTypes = JsonTypes(8);
    /// Text.
    pub const STRING: JsonTypes = JsonTypes(16);
    /// `[...]`.
    pub const ARRAY: JsonTypes = JsonTypes(32);
    /// `{...}`.
    pub const OBJECT: JsonTypes = JsonTypes(64);

    /// No type known.
    pub const fn empty() -> JsonTypes {
        JsonTypes(0)
    }

    /// True if any type of `other` is accepted.
    pub fn accepts(self, other: JsonTypes) -> bool {
        self.0 & other.0 != 0
    }

    /// True if no type is known.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if every value is text: only then may a value stream before it is complete.
    pub fn only_text(self) -> bool {
        self.0 == 0 || self.0 == Self::STRING.0
    }

    /// The type that a JSON Schema keyword or one of the aliases in the wild names (`int`, `dict`, `uuid`...).
    pub fn from_name(name: &str) -> JsonTypes {
        match name.to_ascii_lowercase().as_str() {
            "null" | "none" => Self::NULL,
            "boolean" | "bool" => Self::BOOLEAN,
            "integer" | "int" | "bigint" | "smallint" | "long" | "short" | "uint" => Self::INTEGER,
            "number" | "float" | "double" | "decimal" | "real" | "numeric" => Self::NUMBER,
            "array" | "list" | "arr" | "tuple" | "set" => Self::ARRAY,
            "object" | "dict" | "map" => Self::OBJECT,
            "string" | "str" | "text" | "varchar" | "char" | "enum" | "uuid" | "date" | "datetime" | "time" => {
                Self::STRING
            }
            _ => Self::empty(),
        }
    }
}

impl BitOr for JsonTypes {
    type Output = JsonTypes;
    fn bitor(self, other: JsonTypes) -> JsonTypes {
        JsonTypes(self.0 | other.0)
    }
}

/// One top-level property of a tool's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its key.
    pub name: String,
    /// What it may be.
    pub accepts: JsonTypes,
    /// Whether the schema requires it.
    pub required: bool,
}

/// One declared function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// The function's name.
    pub name: String,
    /// For the model.
    pub description: Option<String>,
    /// Top-level properties in schema order.
    pub params: Vec<Param>,
    /// The whole schema as JSON text; empty when the client sent none.
    pub schema: String,
    /// Arguments must match the schema.
    pub strict: bool,
}

impl Tool {
    /// The property of that name.
    pub fn param(&self, key: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == key)
    }
}

/// The tools of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSet {
    tools: Vec<Tool>,
}

impl ToolSet {
    /// The tools as the request lists them.
    pub fn new(tools: Vec<Tool>) -> ToolSet {
        ToolSet { tools }
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|t| t.name == name)
    }

    /// What a parameter accepts; empty if the tool, the parameter or its type is unknown.
    pub fn accepts(&self, tool: &str, key: &str) -> JsonTypes {
        self.get(tool).and_then(|t| t.param(key)).map_or(JsonTypes::empty(), |p| p.accepts)
    }

    /// All tools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter()
    }

    /// True if the request declares none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}
