"""The parser: one object for each streamed message."""

import json

from wit_world.exports import parse
from wit_world.exports import types as t

THINK, UNTHINK, CALL, UNCALL = "<think>", "</think>", "<call>", "</call>"


class Toolset(parse.Toolset):
    def __init__(self, tools):
        self.names = {tool.name for tool in tools}


class Parser(parse.Parser):
    def __init__(self, config, tools):
        # Where generation begins stands at the end of the prompt; without a prompt, the request's mode says it.
        opened = config.prompt_tail.rstrip().endswith(THINK)
        self.state = "think" if opened or (not config.prompt_tail and config.reasoning == t.ReasoningMode.ON) else "start"
        self.reads_calls = tools is not None and not isinstance(config.tool_choice, t.ToolChoice_None_)
        self.text = ""
        # White space that is layout if a call, reasoning's end or the message's end follows.
        self.blank = ""
        self.written = False
        self.calls = 0
        self.ended = 0

    def push(self, text):
        self.text += text
        events = []
        while self.step(events):
            pass
        return t.Step_Events(events) if events else t.Step_Hold()

    def push_tokens(self, text, ids):
        return self.push(text)

    @classmethod
    def finish(cls, parser, cause):
        events = []
        stopped = isinstance(cause, (t.StopCause_Eos, t.StopCause_StopString))
        if parser.state == "call":
            # A call that is whole stands even if its closer is missing; a cut one is never made to look whole.
            if not stopped or not parser.call(events, parser.text):
                events.append(t.Event_Malformed(CALL + parser.text))
        else:
            parser.emit(events, parser.text)
        done = t.FinishReason_ToolCalls() if parser.ended else t.FinishReason_Stop()
        return t.Tail(events, done if stopped else t.FinishReason_Length())

    def step(self, events):
        """Reads up to the next marker. False: more text is needed."""
        if self.state == "start":
            head = self.text.lstrip()
            if head.startswith(THINK):
                self.text, self.state = head[len(THINK):], "think"
                return True
            if THINK.startswith(head):
                return False
            self.state = "text"
        if self.state == "call":
            return self.step_call(events)
        marker = UNTHINK if self.state == "think" else CALL
        if self.state == "text" and not self.reads_calls:
            self.emit(events, self.text)
            self.text = ""
            return False
        at = self.text.find(marker)
        if at >= 0:
            self.emit(events, self.text[:at])
            self.blank, self.written = "", self.written and self.state == "text"
            self.text = self.text[at + len(marker):]
            self.state = "text" if self.state == "think" else "call"
            return True
        held = next(n for n in range(min(len(marker) - 1, len(self.text)), -1, -1) if self.text.endswith(marker[:n]))
        self.emit(events, self.text[:len(self.text) - held])
        self.text = self.text[len(self.text) - held:]
        return False

    def step_call(self, events):
        """A call is held until it is whole, which is simple; the SDK streams arguments as they come."""
        at = self.text.find(UNCALL)
        while at >= 0:
            if self.call(events, self.text[:at]):
                break
            # The closer may stand inside a string.
            at = self.text.find(UNCALL, at + 1)
        if at < 0:
            return False
        self.text, self.state = self.text[at + len(UNCALL):], "text"
        return True

    def call(self, events, body):
        try:
            call = json.loads(body)
            name, arguments = call["name"], call.get("arguments") or {}
        except (ValueError, TypeError, KeyError):
            return False
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return False
        index = self.calls
        self.calls += 1
        self.ended += 1
        events.append(t.Event_ToolStart(t.ToolStart(index, None, name)))
        events.append(t.Event_ToolArgs(t.ToolArgs(index, json.dumps(arguments, ensure_ascii=False))))
        events.append(t.Event_ToolEnd(index))
        return True

    def emit(self, events, text):
        """Text without the white space around it."""
        text = self.blank + text
        if not self.written:
            text = text.lstrip()
        kept = text.rstrip()
        self.blank = text[len(kept):]
        # Text behind a call is dropped, as every format here does.
        if kept and not (self.calls and self.state == "text"):
            self.written = True
            event = t.Event_Reasoning if self.state == "think" else t.Event_Content
            events.append(event(kept))
