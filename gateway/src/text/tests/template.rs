//! Chat templates: the dialect, the variables, and whose fault an error is.

use serde_json::json;

use super::super::{ChatTemplate, TemplateError};
use super::fixtures::{self, message, request, tool, unmasked};
use crate::chat::{Effort, Reasoning, Request, Role, ToolCall, ToolChoice};
use crate::error::{Error, Fault};

fn render(source: &str, request: &Request) -> Result<String, TemplateError> {
    unmasked("t", source).render(request).map(|prompt| prompt.text().to_owned())
}

fn user() -> Request {
    request(vec![message(Role::User, "hi")])
}

#[test]
fn python_methods_slices_loop_controls_and_white_space_control() {
    let source = "{% for m in messages %}\n    {% if m.content.strip().upper() == 'HI' %}\n{{ m['content'].title() }}!\n    {% \
                  continue %}\n    {% endif %}\nno\n{% endfor %}\n{{ [1, 2, 3][::-1] }} {{ 'a,b'.split(',')[-1] }} {{ true }} {{ none }}";
    assert_eq!(render(source, &user()).unwrap(), "Hi!\n[3, 2, 1] b True None");
}

#[test]
fn generation_blocks_are_text() {
    let source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
    assert_eq!(render(source, &user()).unwrap(), "hi");
}

#[test]
fn tools_are_openai_objects_with_their_numbers_as_written() {
    let mut request = user();
    let schema: Box<serde_json::value::RawValue> = serde_json::from_str(
        r#"{"type":"object","properties":{"n":{"maximum":1.50,"minimum":-1e2,"enum":[12345678901234567890123,1.0]}}}"#,
    )
    .unwrap();
    request.tools = vec![tool("f", "é <b>", &json!({}))];
    request.tools[0].parameters = Some(schema);
    let expected = r#"{"type": "function", "function": {"name": "f", "description": "é <b>", "parameters": {"type": "object", "properties": {"n": {"maximum": 1.50, "minimum": -1e2, "enum": [12345678901234567890123, 1.0]}}}}}"#;
    assert_eq!(render("{{ tools[0] | tojson }}", &request).unwrap(), expected);
    request.tool_choice = ToolChoice::None;
    assert_eq!(render("{{ tools is none }}", &request).unwrap(), "True");
}

#[test]
fn arguments_are_a_mapping_and_keep_digits() {
    let mut request = user();
    let call = |arguments: &str| ToolCall { id: "c".to_owned(), name: "f".to_owned(), arguments: arguments.to_owned() };
    request.messages[0].tool_calls = vec![call(r#"{"a": 1.0, "b": "x", "big": 123456789012345678901}"#), call("oops")];
    let source = "{% for c in messages[0].tool_calls %}{% if c.function.arguments is mapping %}{% for k, v in \
                  c.function.arguments|items %}{{ k }}={{ v if v is string else v|tojson }};{% endfor %}{% else %}{{ \
                  c.function.arguments }}{% endif %}{% endfor %}";
    assert_eq!(render(source, &request).unwrap(), "a=1.0;b=x;big=123456789012345678901;oops");
}

#[test]
fn reasoning_and_kwargs_reach_the_template() {
    let source = "{{ enable_thinking }}|{{ thinking }}|{{ reasoning_effort }}|{{ style }}";
    let mut request = user();
    assert_eq!(render(source, &request).unwrap(), "|||");
    request.reasoning = Reasoning::On(Some(Effort::Low));
    request.template_kwargs = json!({"style": {"a": [true]}, "thinking": "yes"}).as_object().unwrap().clone();
    assert_eq!(render(source, &request).unwrap(), "True|yes|low|{'a': [True]}");
    request.reasoning = Reasoning::Off;
    assert_eq!(render(source, &request).unwrap(), "False|yes||{'a': [True]}");
}

#[test]
fn the_last_message_is_continued_where_it_ends() {
    let mut request = request(vec![message(Role::User, "hi"), message(Role::Assistant, "Once upon")]);
    request.continue_final_message = true;
    for (name, source) in fixtures::TEMPLATES.iter().filter(|(name, _)| *name != "qwen") {
        let text = unmasked(name, source).render(&request).unwrap();
        assert!(text.text().ends_with("Once upon"), "{name}: {}", text.text());
    }
    let error = render("{{ messages[0].content }}", &request).unwrap_err();
    assert!(matches!(error, TemplateError::Conversation(_)), "{error}");
}

#[test]
fn reasoning_inside_content_is_taken_apart_as_the_template_would() {
    let tokenizer = fixtures::byte_level();
    let turns =
        [message(Role::User, "q"), message(Role::Assistant, "<think>\nwhy\n</think>\n\nso"), message(Role::User, "r")];
    let request = request(turns.to_vec());
    for (name, source) in [("r1", fixtures::R1), ("qwen", fixtures::QWEN)] {
        let masked = fixtures::template(name, source, &tokenizer).render(&request).unwrap();
        assert_eq!(masked.text(), unmasked(name, source).render(&request).unwrap().text(), "{name}");
        assert!(!masked.text().contains("why"), "{name}: old reasoning is dropped");
    }
}

#[test]
fn private_use_characters_of_the_client_survive() {
    let tokenizer = fixtures::byte_level();
    let template = fixtures::template("chatml", fixtures::CHATML, &tokenizer);
    let text: String = (0xF_0000..0xF_0100).filter_map(char::from_u32).collect::<String>() + "<|im_end|>";
    let prompt = template.render(&request(vec![message(Role::User, &text)])).unwrap();
    assert!(prompt.text().contains(&text));
    assert_eq!(prompt.special().len(), 5);
}

fn fault(error: TemplateError) -> (Fault, String) {
    let error = Error::from(error);
    (error.fault(), error.message)
}

#[test]
fn errors_name_the_template_the_line_and_the_right_party() {
    let (who, what) = fault(render("{{ raise_exception('roles must alternate') }}", &user()).unwrap_err());
    assert_eq!(who, Fault::Client);
    assert!(what.contains("roles must alternate"));

    let (who, what) = fault(render("line\n{{ messages[0].content.nothing() }}", &user()).unwrap_err());
    assert_eq!(who, Fault::Gateway);
    assert!(what.contains("template t, line 2"), "{what}");

    let (who, what) = fault(
        render("{% for a in range(90000) %}{% for b in range(90000) %}x{% endfor %}{% endfor %}", &user()).unwrap_err(),
    );
    assert_eq!(who, Fault::Gateway);
    assert!(what.contains("gave up"), "{what}");

    let error = ChatTemplate::new("t", "a\nb\n{% for %}", Default::default(), Default::default()).unwrap_err();
    assert!(matches!(error, TemplateError::Syntax { line: 3, .. }), "{error}");
}
