"""Drives a running gateway with the official OpenAI client; each function is one promise.

Address, key and certificate come from the environment, as README.md tells a user: OPENAI_BASE_URL, OPENAI_API_KEY,
SSL_CERT_FILE.
"""

import json
import os

import openai

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
QUESTION = [{"role": "user", "content": "Name three colours."}]


def connect(key=None):
    """A client that never retries, so that every error is seen."""
    return openai.OpenAI(api_key=key, max_retries=0, timeout=120)


client = connect()


def models_are_listed():
    names = [model.id for model in client.models.list()]
    assert {"smollm2", "dsml"} <= set(names), names


def chat_is_answered():
    answer = client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=0, max_tokens=16)
    assert answer.object == "chat.completion" and answer.id and answer.created > 0, answer
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content.strip(), choice
    assert choice.finish_reason in ("stop", "length"), choice
    usage = answer.usage
    assert usage.prompt_tokens > 0 and 0 < usage.completion_tokens <= 16, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage


def streamed_chat_equals_the_other():
    request = {"model": "smollm2", "messages": QUESTION, "temperature": 0, "max_tokens": 16}
    whole = client.chat.completions.create(**request)
    chunks = list(client.chat.completions.create(**request, stream=True))
    assert all(chunk.object == "chat.completion.chunk" and chunk.usage is None for chunk in chunks), chunks
    assert len({chunk.id for chunk in chunks}) == 1, "one id a stream"
    assert chunks[0].choices[0].delta.role == "assistant", chunks[0]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content, (text, whole)
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason, chunks[-1]


def usage_comes_in_a_last_chunk():
    stream = client.chat.completions.create(
        model="smollm2",
        messages=QUESTION,
        temperature=0,
        max_tokens=4,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    with_usage = [chunk for chunk in chunks if chunk.usage]
    assert len(with_usage) == 1 and with_usage[0] is chunks[-1], chunks
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4, chunks[-1]


def calls_arrive_whole():
    message = client.chat.completions.create(model="dsml", messages=QUESTION, tools=[WEATHER]).choices[0]
    assert message.finish_reason == "tool_calls", message
    assert message.message.content.strip() == "Looking.", message
    check_call(message.message.tool_calls)


def calls_stream_in_deltas():
    with client.chat.completions.stream(model="dsml", messages=QUESTION, tools=[WEATHER]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls", final
    check_call(final.message.tool_calls)


def check_call(calls):
    assert len(calls) == 1 and calls[0].id and calls[0].type == "function", calls
    assert calls[0].function.name == "get_weather", calls
    assert json.loads(calls[0].function.arguments) == {"city": "Kraków", "days": 3}, calls


def refused(error, status, call):
    try:
        call()
    except openai.APIStatusError as raised:
        assert type(raised) is error and raised.status_code == status, repr(raised)
        assert raised.body["message"] and raised.body["type"], raised.body
        return raised
    raise AssertionError(f"expected {error.__name__}")


def a_bad_request_is_typed():
    raised = refused(
        openai.BadRequestError,
        400,
        lambda: client.chat.completions.create(model="smollm2", messages=QUESTION, temperature=9),
    )
    assert raised.param == "temperature", raised.body


def a_wrong_key_is_typed():
    raised = refused(openai.AuthenticationError, 401, lambda: connect("sk-wrong").models.list())
    assert raised.code == "invalid_api_key", raised.body


def an_unknown_model_is_typed():
    raised = refused(
        openai.NotFoundError, 404, lambda: client.chat.completions.create(model="nobody", messages=QUESTION)
    )
    assert raised.code == "model_not_found", raised.body


def a_limit_is_typed():
    limited = connect(os.environ["LIMITED_KEY"])
    limited.chat.completions.create(model="dsml", messages=QUESTION)
    raised = refused(
        openai.RateLimitError, 429, lambda: limited.chat.completions.create(model="dsml", messages=QUESTION)
    )
    assert 1 <= int(raised.response.headers["retry-after"]) <= 60, raised.response.headers
    assert raised.response.headers["x-ratelimit-remaining-requests"] == "0", raised.response.headers


PROMISES = [
    models_are_listed,
    chat_is_answered,
    streamed_chat_equals_the_other,
    usage_comes_in_a_last_chunk,
    calls_arrive_whole,
    calls_stream_in_deltas,
    a_bad_request_is_typed,
    a_wrong_key_is_typed,
    an_unknown_model_is_typed,
    a_limit_is_typed,
]

if __name__ == "__main__":
    for promise in PROMISES:
        promise()
        print("kept:", promise.__name__)
    print(len(PROMISES), "promises kept")
