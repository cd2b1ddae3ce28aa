//! Enums of TypeScript as JavaScript. The lines stay where they were; the columns of lines of an enum do not.
//!
//! `enum Size { Small, Large = 7 }` becomes
//! `var Size;(function(Size){…[__add("Small",__at+1), __add("Large",7)]})(Size||(Size={}));`.

use std::collections::BTreeSet;

use oxc_ast::ast::*;
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;

use crate::types::Found;

/// The enum whose members are visited: an initializer names the members before it without the enum's name.
pub(crate) struct Members {
    of: String,
    names: BTreeSet<String>,
}

impl<'a> Found<'a> {
    /// An enum. A number is the name of a member too.
    pub(crate) fn add_enum(&mut self, it: &TSEnumDeclaration<'a>) {
        let (name, body) = (it.id.name.as_str(), &it.body);
        let head = format!(
            "var {name};(function({name}){{let __at=-1;const __add=(n,v)=>{{{name}[n]=v;if(typeof v!=='string')\
             {name}[v]=n;__at=v}};["
        );
        self.blanks.replace(it.span.start, body.span.start + 1, head);
        let outer = self.members.replace(Members { of: name.to_owned(), names: BTreeSet::new() });
        for member in &body.members {
            let key = member.id.static_name();
            // Of Rust's escapes JavaScript knows all.
            let call = format!("__add({:?},", key.as_str());
            match &member.initializer {
                Some(value) => {
                    self.blanks.replace(member.span.start, value.span().start, call);
                    self.visit_expression(value);
                    self.blanks.replace(member.span.end, member.span.end, ")");
                }
                None => {
                    let call = call + "__at+1)";
                    self.blanks.replace(member.span.start, member.span.end, call);
                }
            }
            if let Some(members) = &mut self.members {
                members.names.insert(key.to_string());
            }
        }
        self.members = outer;
        let tail = format!("]}})({name}||({name}={{}}));");
        self.blanks.replace(body.span.end - 1, body.span.end, tail);
    }

    /// Writes the enum's name before the name of a member in an initializer.
    pub(crate) fn qualify_member(&mut self, it: &IdentifierReference<'a>) -> bool {
        let name = it.name.as_str();
        let Some(members) = self.members.as_ref().filter(|all| all.names.contains(name)) else {
            return false;
        };
        let text = format!("{}.", members.of);
        self.blanks.replace(it.span.start, it.span.start, text);
        true
    }

    /// A variable is exported once, although an enum may be declared several times.
    pub(crate) fn add_exported_enum(&mut self, it: &ExportDeclaration<'a>) {
        if let Declaration::TSEnumDeclaration(declared) = &it.declaration
            && !self.exported.insert(declared.id.name.to_string())
        {
            self.blanks.add(it.span.start, declared.span.start);
        }
    }
}
