//! Parameters of a constructor that declare properties, as JavaScript.
//!
//! `class A { constructor(private b: B) { c() } }` becomes `class A {b; constructor(b) { this.b=b;c() } }`. In a class
//! that extends another one the assignments follow the call of `super`.

use oxc_ast::ast::*;
use oxc_span::GetSpan;

use crate::types::Found;

impl<'a> Found<'a> {
    /// The properties that the constructor of a class declares.
    pub(crate) fn add_properties(&mut self, class: &Class<'a>) {
        let constructor = class.body.body.iter().find_map(|element| match element {
            ClassElement::MethodDefinition(it) if it.kind.is_constructor() => {
                it.value.body.as_ref().map(|body| (&it.value.params, body))
            }
            _ => None,
        });
        let Some((parameters, body)) = constructor else { return };
        let (mut fields, mut assignments) = (String::new(), String::new());
        for it in &parameters.items {
            if it.accessibility.is_none() && !it.readonly && !it.r#override {
                continue;
            }
            let BindingPattern::BindingIdentifier(name) = &it.pattern else {
                return self.refuse(it.span, "a parameter that declares a property has one name");
            };
            fields.push_str(&format!("{};", name.name));
            assignments.push_str(&format!("this.{0}={0};", name.name));
        }
        if fields.is_empty() {
            return;
        }
        let first = body.statements.first().map_or(body.span.end - 1, |it| it.span().start);
        let at = match class.heritage {
            None => Some(first),
            Some(_) => body.statements.iter().find(|it| is_super_call(it)).map(|it| it.span().end),
        };
        let Some(at) = at else {
            return self.refuse(
                parameters.span,
                "a constructor whose parameters declare properties calls `super` in a statement of its own",
            );
        };
        let start = class.body.span.start + 1;
        self.blanks.replace(start, start, fields);
        // A call without a semicolon may stand before it.
        let before = if class.heritage.is_some() { ";" } else { "" };
        self.blanks.replace(at, at, format!("{before}{assignments}"));
    }
}

fn is_super_call(statement: &Statement<'_>) -> bool {
    matches!(statement, Statement::ExpressionStatement(it) if it.expression.is_super_call_expression())
}
