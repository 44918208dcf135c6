"""A format plugin in Python: reasoning in <think>, tool calls as JSON in <call>.

Good for trying a model on the day it appears; `docs/write-a-format.md` says what it costs. `cargo xtask python-plugin` builds it.
The module names and classes below are those that componentize-py looks for: `Meta` and `Parse` for the functions of the two
interfaces, and in the module `parse` the resources `Toolset` and `Parser`.
"""

from wit_world import exports
from wit_world.exports import meta


class WitWorld:
    pass


class Types(exports.Types):
    pass


class Meta(exports.Meta):
    def describe(self) -> meta.Plugin:
        py_call = meta.Descriptor(
            name="py_call",
            description="JSON calls in <call>, <think> reasoning",
            catalogue=[],
            aliases=[],
            models=["none: an example"],
            features=meta.Features.REASONING | meta.Features.TOOLS | meta.Features.PARALLEL_TOOLS,
            hints=[],
            markers=["<think>", "</think>", "<call>", "</call>"],
            special_tokens=[],
            stop_strings=[],
            renderer=None,
            options_schema="{}",
            extra="{}",
        )
        return meta.Plugin(name="py-example", version="0.1.0", description="A plugin in Python", formats=[py_call])


class Parse(exports.Parse):
    def push_batch(self, items):
        return [item.parser.push(item.text) for item in items]
