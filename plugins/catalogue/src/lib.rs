//! Every format of every plugin, built natively: for the page that lists them, and for tests, benches and fuzzing.

pub mod debatable;
pub mod fuzz;
pub mod page;
pub mod rows;

use sluicegate_sdk::describe::Descriptor;
use sluicegate_sdk::format::Plugin;

/// Every plugin of this repository, by name.
pub fn plugins() -> Vec<Plugin> {
    vec![
        format_cohere::plugin(),
        format_deepseek::plugin(),
        format_glm::plugin(),
        format_google::plugin(),
        format_ibm::plugin(),
        format_kimi::plugin(),
        format_labs::plugin(),
        format_meta::plugin(),
        format_minimax::plugin(),
        format_mistral::plugin(),
        format_nvidia::plugin(),
        format_openai::plugin(),
        format_qwen::plugin(),
        format_tencent::plugin(),
    ]
}

/// A format with the name of its plugin.
pub type Described = (&'static str, Descriptor);

/// Every format of `plugins`, by name.
pub fn formats(plugins: &[Plugin]) -> Vec<Described> {
    let own = |plugin: &Plugin| plugin.describe().into_iter().map(|d| (plugin.name, d)).collect::<Vec<_>>();
    let mut all: Vec<_> = plugins.iter().flat_map(own).collect();
    all.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    all
}

/// The plugin that has the format `name`.
pub fn plugin_of<'a>(plugins: &'a [Plugin], name: &str) -> Option<&'a Plugin> {
    plugins.iter().find(|plugin| plugin.describe().iter().any(|d| d.name == name))
}
