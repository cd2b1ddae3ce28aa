//! Walks through a file: which modules it imports, which parts are types, and what of TypeScript is refused
//! because it is more than a type.

use std::collections::BTreeSet;

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

use crate::blank::Blanks;
use crate::enums::Members;

/// Modifiers of class members that are types only.
pub(crate) const MODIFIERS: [&str; 7] =
    ["public", "private", "protected", "readonly", "override", "abstract", "declare"];

/// What a file contains.
pub(crate) struct Found<'a> {
    pub(crate) blanks: Blanks<'a>,
    /// The specifiers of its imports with their offsets.
    pub(crate) imports: Vec<(String, u32)>,
    /// The same of its calls of `require`.
    pub(crate) requires: Vec<(String, u32)>,
    /// The enum whose members are visited.
    pub(crate) members: Option<Members>,
    /// Names of enums that are exported already: a second declaration adds members to the first.
    pub(crate) exported: BTreeSet<String>,
    refusal: Option<Refusal>,
    /// The ends of statements. A semicolon is written where the type before one is blanked.
    ends: BTreeSet<u32>,
    /// Names that are used as values.
    values: BTreeSet<String>,
}

/// Why a file is refused.
pub(crate) struct Refusal {
    pub(crate) offset: u32,
    pub(crate) text: String,
}

impl<'a> Found<'a> {
    /// Walks through a file.
    pub(crate) fn of(
        program: &Program<'a>,
        source: &'a str,
        is_typescript: bool,
    ) -> Result<Self, Refusal> {
        let mut found = Self {
            blanks: Blanks::new(source),
            imports: Vec::new(),
            requires: Vec::new(),
            members: None,
            exported: BTreeSet::new(),
            refusal: None,
            ends: BTreeSet::new(),
            values: BTreeSet::new(),
        };
        found.visit_program(program);
        for statement in &program.body {
            if let Statement::ImportDeclaration(import) = statement {
                found.add_import(import, is_typescript);
            }
        }
        match found.refusal.take() {
            Some(refusal) => Err(refusal),
            None => Ok(found),
        }
    }

    pub(crate) fn refuse(&mut self, span: Span, text: &str) {
        if self.refusal.is_none() {
            self.refusal = Some(Refusal { offset: span.start, text: text.to_owned() });
        }
    }

    fn add_source(&mut self, source: &StringLiteral<'a>) {
        self.imports.push((source.value.to_string(), source.span.start));
    }

    /// An import. In TypeScript a name that is used as a type only is not imported, and an import of such names
    /// only does not load the module.
    fn add_import(&mut self, import: &ImportDeclaration<'a>, is_typescript: bool) {
        if import.import_kind.is_type() {
            return self.blanks.add_statement(import.span.start, import.span.end);
        }
        let specifiers: &[_] = match &import.specifiers {
            Some(specifiers) => specifiers,
            None => &[],
        };
        let is_value = |specifier: &&ImportDeclarationSpecifier<'a>| match specifier {
            ImportDeclarationSpecifier::ImportSpecifier(it) if it.import_kind.is_type() => false,
            _ => !is_typescript || self.values.contains(specifier.local().name.as_str()),
        };
        let types: Vec<Span> =
            specifiers.iter().filter(|it| !is_value(it)).map(GetSpan::span).collect();
        if !types.is_empty() && types.len() == specifiers.len() {
            return self.blanks.add_statement(import.span.start, import.span.end);
        }
        // Without the name of the default or the namespace, what remains would not be an import.
        let named = specifiers
            .iter()
            .filter(|it| matches!(it, ImportDeclarationSpecifier::ImportSpecifier(_)));
        let named: Vec<Span> = named.map(GetSpan::span).filter(|it| types.contains(it)).collect();
        named.into_iter().for_each(|span| self.blanks.add_with_comma(span));
        self.add_source(&import.source);
    }

    /// The statement has no value: it is blanked whole.
    fn is_type(&self, statement: &Statement<'a>) -> bool {
        match statement {
            Statement::ExportDeclaration(it) => is_type_declaration(&it.declaration),
            Statement::ExportNamedDeclaration(it) => it.export_kind.is_type(),
            Statement::ExportFromDeclaration(it) => it.export_kind.is_type(),
            Statement::ExportAllDeclaration(it) => it.export_kind.is_type(),
            Statement::ExportDefaultDeclaration(it) => match &it.declaration {
                ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => true,
                ExportDefaultDeclarationKind::FunctionDeclaration(it) => it.body.is_none(),
                _ => false,
            },
            Statement::TSNamespaceExportDeclaration(_) => true,
            _ => statement.as_declaration().is_some_and(is_type_declaration),
        }
    }

    /// The modifiers and marks of a class member between its start and its type or value.
    fn blank_member(&mut self, span: Span, key: Span, marks_end: u32) {
        self.blanks.add_words(span.start, key.start, &MODIFIERS);
        for mark in ['?', '!'] {
            self.blanks.add_mark(key.end, marks_end, mark);
        }
    }

    /// Blanks the end of an expression: `as T`, `satisfies T`.
    fn blank_suffix(&mut self, expression: &Expression<'a>, span: Span) {
        let start = expression.span().end;
        match self.ends.contains(&span.end) {
            true => self.blanks.add_statement(start, span.end),
            false => self.blanks.add(start, span.end),
        }
    }
}

/// Whether a declaration has no value.
fn is_type_declaration(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::VariableDeclaration(it) => it.declare,
        Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
        Declaration::ClassDeclaration(it) => it.declare,
        Declaration::TSTypeAliasDeclaration(_) | Declaration::TSInterfaceDeclaration(_) => true,
        Declaration::TSEnumDeclaration(it) => it.declare,
        Declaration::TSNamespaceDeclaration(it) => it.declare,
        Declaration::TSExternalModuleDeclaration(_) | Declaration::TSGlobalDeclaration(_) => true,
        Declaration::TSImportEqualsDeclaration(it) => it.import_kind.is_type(),
    }
}

impl<'a> Visit<'a> for Found<'a> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        if self.is_type(it) {
            return self.blanks.add_statement(it.span().start, it.span().end);
        }
        // The imports are looked at when all values are known.
        if !matches!(it, Statement::ImportDeclaration(_)) {
            self.ends.insert(it.span().end);
            walk::walk_statement(self, it);
        }
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        if !self.qualify_member(it) {
            self.values.insert(it.name.to_string());
        }
    }

    fn visit_export_declaration(&mut self, it: &ExportDeclaration<'a>) {
        self.add_exported_enum(it);
        walk::walk_export_declaration(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let (Expression::Identifier(callee), [Argument::StringLiteral(source)]) =
            (&it.callee, &it.arguments[..])
            && callee.name == "require"
        {
            self.requires.push((source.value.to_string(), source.span.start));
        }
        walk::walk_call_expression(self, it);
    }

    /// As bundlers do: the only variable that packages for browsers read.
    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        if let Expression::StaticMemberExpression(env) = &it.object
            && let Expression::Identifier(process) = &env.object
            && (process.name == "process" && env.property.name == "env")
            && it.property.name == "NODE_ENV"
        {
            return self.blanks.replace(it.span.start, it.span.end, "\"production\"");
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_export_from_declaration(&mut self, it: &ExportFromDeclaration<'a>) {
        it.specifiers.iter().for_each(|it| self.visit_export_specifier(it));
        self.add_source(&it.source);
    }

    fn visit_export_all_declaration(&mut self, it: &ExportAllDeclaration<'a>) {
        self.add_source(&it.source);
    }

    fn visit_export_specifier(&mut self, it: &ExportSpecifier<'a>) {
        match it.export_kind.is_type() {
            true => self.blanks.add_with_comma(it.span),
            false => self.visit_module_export_name(&it.local),
        }
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        if let Expression::StringLiteral(source) = &it.source {
            self.add_source(source);
        }
        walk::walk_import_expression(self, it);
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        // Without a semicolon `get: T` of a class would make the next member a getter.
        match self.ends.contains(&it.span.end) {
            true => self.blanks.add_statement(it.span.start, it.span.end),
            false => self.blanks.add_span(it.span),
        }
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        if let Some(types) = &it.type_parameters {
            if it.r#async && self.blanks.has_line_break(types.span) {
                self.refuse(
                    types.span,
                    "write the type parameters of an async arrow function on one line",
                );
            }
            self.visit_ts_type_parameter_declaration(types);
        }
        self.visit_formal_parameters(&it.params);
        match &it.return_type {
            // No line break may stand between the parameters and the arrow.
            Some(types)
                if self.blanks.has_line_break(Span::new(it.params.span.end, types.span.end)) =>
            {
                self.blanks.move_parenthesis(it.params.span.end - 1, types.span.end);
            }
            Some(types) => self.visit_ts_type_annotation(types),
            None => {}
        }
        self.visit_arrow_function_body(&it.body);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blanks.add_span(it.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blanks.add_span(it.span);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        self.blanks.add_with_comma(it.span);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.blank_suffix(&it.expression, it.span);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.blank_suffix(&it.expression, it.span);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.blanks.add_mark(it.expression.span().end, it.span.end, '!');
        self.visit_expression(&it.expression);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.blanks.add(it.span.start, it.expression.span().start);
        self.visit_expression(&it.expression);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if let (true, Some(annotation)) = (it.definite, &it.type_annotation) {
            self.blanks.add_mark(it.id.span().end, annotation.span.start, '!');
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        // Properties that are declared here are added by `add_properties`.
        self.blanks.add_words(it.span.start, it.pattern.span().start, &MODIFIERS);
        if it.optional {
            let name_end = it.pattern.span().end;
            let marks_end = it.type_annotation.as_ref().map_or(name_end + 1, |it| it.span.start);
            self.blanks.add_mark(name_end, marks_end, '?');
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        let names = [
            it.id.as_ref().map(|it| it.span.start),
            it.heritage.as_ref().map(|it| it.expression.span().start),
            Some(it.body.span.start),
        ];
        let first = names.into_iter().flatten().min().unwrap_or(it.span.start);
        self.blanks.add_words(it.span.start, first, &["abstract"]);
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let (first, last) = (first.span.start, last.span.end);
            let before = self.blanks.text(it.span.start, first);
            if let Some(at) = before.rfind("implements") {
                self.blanks.add(it.span.start + at as u32, last);
            }
        }
        self.visit_decorators(&it.decorators);
        it.type_parameters.iter().for_each(|it| self.visit_ts_type_parameter_declaration(it));
        it.heritage.iter().for_each(|it| self.visit_class_heritage(it));
        self.add_properties(it);
        self.visit_class_body(&it.body);
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.blanks.add_statement(it.span.start, it.span.end);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if it.value.body.is_none() {
            return self.blanks.add_statement(it.span.start, it.span.end);
        }
        self.blank_member(it.span, it.key.span(), it.value.params.span.start);
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.declare || it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
            return self.blanks.add_statement(it.span.start, it.span.end);
        }
        self.ends.insert(it.span.end);
        let marks_end =
            it.type_annotation.as_ref().map_or(it.key.span().end + 1, |it| it.span.start);
        self.blank_member(it.span, it.key.span(), marks_end);
        walk::walk_property_definition(self, it);
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        self.refuse(
            it.span,
            "the engine has no `accessor` properties; write a getter and a setter",
        );
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(it.span, "the engine has no decorators; call the function instead");
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.add_enum(it);
    }

    fn visit_ts_namespace_declaration(&mut self, it: &TSNamespaceDeclaration<'a>) {
        self.refuse(it.span, "a namespace is more than a type; write a module of its own");
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        self.refuse(it.span, "`import … = …` is more than a type; write `import … from`");
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.refuse(it.span, "`export =` is not JavaScript; write `export default`");
    }
}
