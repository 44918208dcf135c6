"""Stored outputs of the toy DeepSeek-V4, as the official OpenAI client sees them: one request at a time, then sixty.

The expectation is read out of the stored text by a few lines of its own, not by the gateway's parser. Addresses and key come
from the environment, GOLDENS and MODELS too.
"""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import openai

AT_ONCE = 60
# Below this distance between best and second logit, another order of additions may decide.
GAP = 0.2
OPEN, CLOSE = "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"
INVOKE = re.compile(r'<｜DSML｜invoke name="([^"]*)">\n(.*?)</｜DSML｜invoke>', re.S)
PARAMETER = re.compile(r'<｜DSML｜parameter name="([^"]*)" string="(true|false)">(.*?)</｜DSML｜parameter>', re.S)

client = openai.OpenAI(max_retries=0, timeout=300)


def expected(golden):
    """Reasoning, content, calls and finish reason of a stored output; None for calls that it never finishes."""
    reasoning, rest = None, golden["output_text"]
    if golden["thinking"]:
        reasoning, _, rest = rest.partition("</think>")
    content, opened, block = rest.partition(OPEN)
    calls = [
        (name, {key: text if plain == "true" else json.loads(text) for key, plain, text in PARAMETER.findall(body)})
        for name, body in INVOKE.findall(block)
    ]
    if opened and CLOSE not in block:
        return reasoning, content.strip(), None, "stop"
    return reasoning, content.strip(), calls, "tool_calls" if calls else "stop"


def request(model, golden):
    thinking = {"reasoning_effort": "low"} if golden["thinking"] else {"reasoning_effort": "none"}
    messages, tools = golden["request"]["messages"], golden["request"]["tools"]
    return dict(model=model, messages=messages, tools=tools, temperature=0, max_tokens=80, **thinking)


def whole(model, golden):
    answer = client.chat.completions.create(**request(model, golden))
    message = answer.choices[0].message
    calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
    reasoning = (message.model_extra or {}).get("reasoning_content")
    return reasoning, message.content or "", calls, answer.choices[0].finish_reason, answer.usage.completion_tokens


def streamed(model, golden):
    reasoning, content, calls, finish, usage = None, "", {}, None, None
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in client.chat.completions.create(**request(model, golden), **options):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            content += choice.delta.content or ""
            thought = (choice.delta.model_extra or {}).get("reasoning_content")
            reasoning = reasoning if thought is None else (reasoning or "") + thought
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, ["", "", ""])
                call[0] += part.id or ""
                call[1] += part.function.name or ""
                call[2] += part.function.arguments or ""
    return reasoning, content, [tuple(calls[i]) for i in sorted(calls)], finish, usage.completion_tokens


def check(model, golden, answer):
    reasoning, content, calls, finish, tokens = answer
    want = expected(golden)
    where = f"{model} {golden['name']}: {answer} instead of {want}"
    assert tokens == len(golden["output_ids"]), f"{tokens} tokens, not {len(golden['output_ids'])}; {where}"
    assert (reasoning or None) == want[0] and content.strip() == want[1], where
    assert "DSML" not in content and "DSML" not in (reasoning or ""), where
    assert len({call[0] for call in calls}) == len(calls), where
    if want[2] is None:
        # A call that was never closed must not look like a whole one.
        assert finish == want[3] or finish == "tool_calls", where
        return
    assert [(name, json.loads(arguments)) for _, name, arguments in calls] == want[2], where
    assert finish == want[3], where


def main():
    with open(os.environ["GOLDENS"], encoding="utf-8") as file:
        stored = [golden for golden in json.load(file) if golden["min_gap"] > GAP]
    called = 0
    for model in os.environ["MODELS"].split(","):
        usable = [golden for golden in stored if model == "bf16" or golden["nvfp4_same"]]
        alone = {golden["name"]: whole(model, golden) for golden in usable}
        for golden in usable:
            check(model, golden, alone[golden["name"]])
        turns = [(usable[i % len(usable)], whole if i % 2 else streamed) for i in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda turn: turn[1](model, turn[0]), turns))
        for (golden, _), answer in zip(turns, answers):
            check(model, golden, answer)
            single = alone[golden["name"]]
            same = [call[1:] for call in answer[2]] == [call[1:] for call in single[2]]
            assert same and answer[:2] == single[:2] and answer[3:] == single[3:], (model, golden["name"], answer, single)
        called += sum(bool(expected(golden)[2]) for golden in usable)
        print(f"{model}: {len(usable)} outputs alone and {AT_ONCE} at a time")
    print(called, "outputs with tool calls")


main()
